"""Local training: what a client does with its own data."""

from hush.parts.trainers.balance import Balance
from hush.parts.trainers.dpsgd import Divisor, Dpsgd
from hush.parts.trainers.ridge import Ridge
from hush.parts.trainers.sgd import Sgd

__all__ = ["Balance", "Divisor", "Dpsgd", "Ridge", "Sgd"]
