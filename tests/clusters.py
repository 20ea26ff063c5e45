"""The end of a cluster that tests began."""

import gc
import warnings

from hush.federation import nodes


def leave() -> None:
    """End it, and all that Ray holds of it: its processes are gone, which Ray does not look at."""
    nodes.leave()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
