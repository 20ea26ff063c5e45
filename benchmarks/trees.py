"""hush of another commit: its files under the bench's folder, for PYTHONPATH."""

import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from environments import FOLDER, ROOT


def resolved(commit: str, root: Path = ROOT) -> str:
    """The commit's own name, in twelve digits."""
    ask = ["git", "rev-parse", "--verify", "--quiet", "--short=12", f"{commit}^{{commit}}"]
    found = subprocess.run(ask, cwd=root, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SystemExit(f"--against {commit}: there is no such commit")
    return found.stdout.strip()


def unpacked(commit: str, folder: Path = FOLDER, root: Path = ROOT) -> Path:
    """The commit's hush and its workers, unpacked once."""
    name = resolved(commit, root)
    place = folder / "trees" / name
    if not place.exists():
        draft = place.with_suffix(".draft")
        parts = ["hush", "benchmarks/workers"]
        packed = subprocess.run(["git", "archive", name, *parts], cwd=root, capture_output=True, check=True).stdout
        with tarfile.open(fileobj=BytesIO(packed)) as files:
            files.extractall(draft, filter="data")
        draft.rename(place)
    return place
