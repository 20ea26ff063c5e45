"""Attacks on hush's own mechanisms, and what they prove of epsilon. May import core and what is below."""

from hush.audit.bounds import Bound, lower_bound
from hush.audit.mechanism import Audit, accounted, audit, scores

__all__ = ["Audit", "Bound", "accounted", "audit", "lower_bound", "scores"]
