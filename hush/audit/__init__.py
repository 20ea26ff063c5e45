"""Attacks: on hush's own mechanisms, with what they prove of epsilon, and on data. May import federation and below."""

from hush.audit.bounds import Bound, gaussian_bound, lower_bound

__all__ = ["Bound", "gaussian_bound", "lower_bound"]
