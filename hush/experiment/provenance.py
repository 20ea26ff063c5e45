"""What a card must name so that the run can be found again: versions of what computed it, digests of its files."""

import hashlib
import json
from pathlib import Path
from typing import Any

_FILES = {
    "config.toml": "every setting of the run",
    "privacy.json": "the ledger: every release, written down before it left",
    "privacy.jsonl": "the newest releases of the ledger",
    "model.safetensors": "the trained model",
    "audit.json": "what attacks found",
}


def provenance(run: Path) -> dict[str, Any]:
    """`versions` by name, and `files` with their SHA-256, as far as the directory has them."""
    return {"versions": _versions(run / "about.json"), "files": _files(run)}


def _versions(about: Path) -> dict[str, str]:
    """As the run wrote them down; a run of an older version of hush knows that alone."""
    found = json.loads(about.read_bytes()) if about.exists() else {}
    known = {"hush": found.get("hush"), **found.get("versions", {})}
    return {str(name): str(number) for name, number in known.items() if number is not None}


def _files(run: Path) -> list[dict[str, str]]:
    found = []
    for name, what in _FILES.items():
        if (run / name).exists():
            with (run / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            found.append({"file": name, "what": what, "sha256": digest})
    return found
