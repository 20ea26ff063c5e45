"""Files and folders that appear whole or not at all, by the one writer of the package."""

import ast
import os
import threading
from pathlib import Path

import pytest

from hush.data import files

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def alone() -> None:
    """In place of the room's own: what is written needs no cache and no network, and its folder is empty at first."""


def test_one_module_renames_what_it_wrote():
    """A second atomic writer would rename or make temporary names somewhere else."""
    found = set()
    for path in (ROOT / "hush").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr in ("mkstemp", "mkdtemp", "rename", "fsync"):
                found.add((path.relative_to(ROOT).as_posix(), node.attr))
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "os.replace":
                found.add((path.relative_to(ROOT).as_posix(), "replace"))
    found.discard(("hush/experiment/journal.py", "fsync"))  # of the log, which grows by lines
    assert found == {("hush/data/files.py", name) for name in ("rename", "replace", "fsync")}


def test_threads_that_write_one_file_leave_one_of_theirs(tmp_path):
    contents = [bytes([number]) * 300_000 for number in range(8)]
    threads = [
        threading.Thread(target=lambda data=data: [files.write(tmp_path / "file", data) for _ in range(5)])
        for data in contents
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "file").read_bytes() in contents
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path):
    def half(draft):
        (draft / "a").write_text("a")
        raise OSError("no more")

    with pytest.raises(OSError, match="no more"):
        files.write_folder(tmp_path / "set", half, lambda: False)
    assert list(tmp_path.iterdir()) == []
    for text in ("first", "second"):
        files.write_folder(tmp_path / "set", lambda draft, text=text: (draft / "a").write_text(text), lambda: False)
        assert (tmp_path / "set" / "a").read_text() == text
    files.write_folder(tmp_path / "set", lambda draft: (draft / "a").write_text("late"), lambda: True)
    assert (tmp_path / "set" / "a").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_old_drafts_are_cleared_and_young_ones_stay(tmp_path):
    for name in (".a.1.part", ".b.2.part"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "inside").touch()
    (tmp_path / ".c.3.part").touch()
    for name in (".a.1.part", ".c.3.part"):
        os.utime(tmp_path / name, (0, 0))
    files.clear(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".b.2.part"]


def test_a_private_file_is_its_owners_from_the_first_byte(tmp_path, monkeypatch):
    """Its draft is, while it is written, whatever the umask allows."""
    seen = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (seen.append(os.fstat(file).st_mode & 0o777), sync(file))[1])
    (tmp_path / "secret").touch(0o644)
    old = os.umask(0)
    try:
        files.write(tmp_path / "secret", b"1", private=True)
        files.write(tmp_path / "open", b"1")
    finally:
        os.umask(old)
    assert seen[0] == (tmp_path / "secret").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o666


def test_folders_are_added_together_or_not_at_all(tmp_path):
    def fill(draft):
        for name in ("a", "b"):
            (draft / name).mkdir()
            (draft / name / "file").write_text(name)

    files.add_folders(tmp_path / "deep" / "er", fill)
    assert sorted(path.name for path in (tmp_path / "deep" / "er").iterdir()) == ["a", "b"]
    (tmp_path / "b").mkdir()
    with pytest.raises(FileExistsError):
        files.add_folders(tmp_path, fill)
    with pytest.raises(ZeroDivisionError):
        files.add_folders(tmp_path / "other" / "place", lambda draft: fill(draft) or 1 / 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "deep"]
    assert list((tmp_path / "b").iterdir()) == []
