"""Aggregators: what the server sees of the uploads. The plain sum is in hush.core.plain."""

from hush.parts.aggregators.secure import SecureSum
from hush.parts.aggregators.vote import BitVote

__all__ = ["BitVote", "SecureSum"]
