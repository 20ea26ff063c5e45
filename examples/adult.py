"""Census records at 3,200 clients, each of them protected at epsilon 2: python examples/adult.py adult.data"""

import sys
from pathlib import Path

import numpy as np

import hush

table = np.array([line.split(", ") for line in Path(sys.argv[1]).read_text().split("\n") if line])
numbers = table[:, [0, 4, 10, 11, 12]].astype(float)
x = [np.log1p(numbers) / np.log1p([90, 16, 99_999, 4_356, 99])]  # public bounds: no statistic of the records
x += [table[:, [n]] == np.unique(table[:, n]) for n in (1, 3, 5, 6, 7, 8, 9, 13)]  # their lists of values are public
rows, labels = np.hstack(x).astype(np.float32), (table[:, 14] == ">50K").astype(int)
test, train = np.split(np.random.default_rng(0).permutation(len(rows)), [len(rows) // 5])
data = (rows[train], labels[train]), (rows[test], labels[test])
run = hush.fit(data, "hush", clients=3200, epsilon=2, delta=1e-5)
print(f"AUROC {run.score.auroc:.4f}, accuracy {run.score.accuracy:.4f}, epsilon {run.epsilon['model']:.3f} a client")
