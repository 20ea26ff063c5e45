"""The benchmarks are scripts beside each other, no package: these are imported, and the folder leaves the path again.

Else `network` would be a benchmark where other tests mean their own folder.
"""

import sys
from importlib import import_module
from pathlib import Path

FOLDER = str(Path(__file__).parents[2] / "benchmarks")
sys.path.append(FOLDER)
for name in ("claims", "contenders", "machine", "page", "stored", "synthetic", "trees", "turns", "workload"):
    import_module(name)
sys.path.remove(FOLDER)
