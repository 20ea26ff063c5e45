"""A job of NVIDIA FLARE as a line: the server and its sites call each other by Collab, each in its own FLARE process.

All that is known of Collab stands here, and only what FLARE itself loads imports it. A site's hello is signed by the
key of its kit; of later messages, and of the server's, FLARE says who sent them, by certificates if it is provisioned.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from nvflare.collab import collab

from hush.federation.cellnet import SERVER, Ears

Method = TypeVar("Method", bound=Callable[..., Any])


def published(method: Method) -> Method:
    """What peers may call."""
    return cast(Method, collab.publish(method))


def begun(method: Method) -> Method:
    """What is called when a party's process begins."""
    return cast(Method, collab.init(method))


def main(method: Method) -> Method:
    """What the server's process does."""
    return cast(Method, collab.main(method))


def caller() -> str:
    """Who calls."""
    return str(collab.caller)


def name() -> str:
    """What FLARE calls this party."""
    return str(collab.site_name)


def folder() -> Path:
    """The folder local/ of this party's FLARE, which its operator writes and no job does."""
    return Path(collab.workspace.get_site_config_dir())


def aborted() -> bool:
    """Whether the job was stopped."""
    return bool(collab.is_aborted)


def peers() -> dict[str, Any]:
    """Whom this party may call, by name."""
    return {SERVER: collab.server, **{one.name: one for one in collab.clients}}


class Calls:
    """This party's end: a message is a call of the peer's `tell`, and nobody waits for it to return."""

    def __init__(self, peers: Mapping[str, Any], ears: Ears) -> None:
        self._peers, self._ears = peers, ears

    def start(self) -> None:
        """Sites hear from the server first: before that it does not take calls."""
        for peer, proxy in self._peers.items():
            if peer != SERVER:
                proxy(expect_result=False).begin()

    def send(self, peer: str, data: bytes) -> bool:
        """Hand the bytes over; that they arrive is for the peer to say."""
        proxy = self._peers.get(peer)
        if proxy is None:
            return False
        proxy(expect_result=False, optional=True).tell(data)
        return True

    def heard(self, peer: str, data: bytes | memoryview) -> None:
        """Bytes of a peer."""
        self._ears.heard(peer, data)

    def stop(self) -> None:
        """FLARE ends the calls with the job."""
