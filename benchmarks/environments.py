"""One virtual environment per contender's library, built once, under the bench's folder."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FOLDER = ROOT / ".bench"


def binaries(name: str) -> Path:
    """Where the environment's programs are."""
    return FOLDER / name / "bin"


def _digest(name: str) -> str:
    """Changes with what is to be installed, and with the Python that it is installed for."""
    files = [HERE / "requirements" / f"{name}.txt"]
    if name == "hush":
        files += [ROOT / "constraints.txt", ROOT / "pyproject.toml"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + sys.version.encode()).hexdigest()


def ready(name: str) -> None:
    """Build the environment, unless it stands already."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    stamp = FOLDER / name / "installed"
    if stamp.exists() and stamp.read_text() == _digest(name):
        return
    print(f"environment {name}: installing benchmarks/requirements/{name}.txt (once)", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", FOLDER / name], check=True)
    pip = [str(binaries(name) / "pip"), "install", "--quiet", "--quiet", "--disable-pip-version-check"]
    requirements = HERE / "requirements" / f"{name}.txt"
    pinned = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    if pinned:
        subprocess.run([*pip, *pinned], check=True, cwd=ROOT)
    subprocess.run([*pip, "-r", str(requirements)], check=True, cwd=ROOT)
    stamp.write_text(_digest(name))


def features(tree: Path) -> None:
    """The recommended scheme's features, in the cache of hush as that tree has it: no contender is to make them."""
    made = "from hush.experiment import config, resolving; resolving.build(config.read(Path(sys.argv[1])))"
    command = [binaries("hush") / "python", "-c", f"import sys; from pathlib import Path; {made}"]
    experiment = ROOT / "experiments" / "frontier" / "hush.toml"
    subprocess.run([*command, experiment], check=True, env=os.environ | {"PYTHONPATH": str(tree)})


def data() -> Path:
    """The workloads' files, made by hush's environment."""
    folder = FOLDER / "data"
    folder.mkdir(exist_ok=True)
    subprocess.run([binaries("hush") / "python", HERE / "synthetic.py", folder], check=True)
    return folder
