"""Files that are written whole or not at all."""

import os
from pathlib import Path


def write(path: Path, data: bytes) -> None:
    """Put data at path: a reader, a kill or a power cut meets the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with draft.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)  # the new name itself must survive a power cut as well
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
