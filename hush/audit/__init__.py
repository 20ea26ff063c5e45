"""Attacks: on mechanisms of hush, with bounds on their epsilon, and on data. May import federation, parts and below."""

from hush.audit.bounds import Bound, gaussian_bound, lower_bound

__all__ = ["Bound", "gaussian_bound", "lower_bound"]
