"""The papers' tables run again: which rows there are, what of them was run, and paper beside ours."""

from hush.reproduce.plan import Paper, Row, Table, find, papers
from hush.reproduce.results import Result

__all__ = ["Paper", "Result", "Row", "Table", "find", "papers"]
