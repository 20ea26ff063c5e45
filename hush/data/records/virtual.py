"""The first paper's reading of hospital records: rare codes dropped, patients dealt to virtual hospitals."""

import re
from pathlib import Path

from hush.data import files

RARE = 100  # codes in fewer rows are dropped
ROWS, PUBLIC = 203, 356  # rows of a virtual hospital, and rows that none holds

_DEAL = f"""
# Virtual hospitals (the first paper's appendix A.2): rows at random, in each at least one death.
[deal]
rows = {ROWS}
public = {PUBLIC}
"""


def write(schema: Path) -> Path:
    """virtual.toml beside a schema, of the same tables."""
    text = re.sub(r"(?m)^min_rows_per_client = .*\n", "", schema.read_text())
    rare = f"[keep]\nrare_codes = {RARE}\n"
    text = text.replace("[keep]\n", rare) if "[keep]\n" in text else f"{text}\n{rare}"
    path, content = schema.with_name("virtual.toml"), (text + _DEAL).encode()
    if not path.is_file() or path.read_bytes() != content:
        files.write(path, content)
    return path
