"""The results of each kind of CPU in a file of its own; a run replaces the suites that it measured and no others."""

import json
from pathlib import Path
from typing import Any

from page import page

KIND = "kind"  # the key that tells these files from others in the folder


def read(folder: Path) -> list[dict[str, Any]]:
    """What was measured on every kind of CPU, by name."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return [one for one in found if isinstance(one, dict) and KIND in one]


def keep(folder: Path, kind: str, machine: dict[str, str], suite: str, run: dict[str, Any]) -> None:
    """A suite's run in its kind's file, in place of its last one; the page anew from all files."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{kind}.json"
    known = json.loads(path.read_text()) if path.exists() else {"suites": {}}
    for one in run["results"]:
        for turn in one["turns"]:
            if "profile" in turn:
                (folder / f"{kind}-profile.txt").write_text(turn.pop("profile") + "\n")
    known = {KIND: kind, "machine": machine, "suites": known["suites"] | {suite: run}}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(known, indent=1) + "\n")
    draft.rename(path)
    (folder / "README.md").write_text(page(read(folder)))
