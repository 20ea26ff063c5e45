"""Data: the sets by name or by file, their fetching, and their partition over clients."""

from hush.data.fetch import Unavailable, fetch
from hush.data.partition import column, dirichlet, iid, shards
from hush.data.public import public_batch
from hush.data.registry import DataSet, load
from hush.data.samples import Samples, Split, samples
from hush.data.sparse import Sparse

__all__ = [
    "DataSet",
    "Samples",
    "Sparse",
    "Split",
    "Unavailable",
    "column",
    "dirichlet",
    "fetch",
    "iid",
    "load",
    "public_batch",
    "samples",
    "shards",
]
