"""The papers' tables run again: which rows there are, what of them was run, and paper beside ours."""

from hush.experiment.reproduce.plan import Paper, Row, Table, find, papers
from hush.experiment.reproduce.results import Result

__all__ = ["Paper", "Result", "Row", "Table", "find", "papers"]
