"""The engine of a real network: cells of NVIDIA FLARE's CellNet, embedded, over gRPC with mutual TLS.

All that is known of nvflare stands here. A cell carries bytes between the server and sites, and nothing between sites:
what is not from the peer whose certificate it came with, or not for this party, is dropped. Sites connect outwards.
"""

import errno
import logging
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from hush.errors import Mistake, Refused
from hush.federation.envelopes import one_line
from hush.federation.handshake import refused_by_tls
from hush.federation.kit import Kit

SERVER, CHANNEL, TOPIC = "server", "hush", "bytes"
STREAMS = 1024  # sites that may be connected at once: each takes a thread of the server
# A link that is dead without a word is noticed after these milliseconds.
KEEPALIVE = (("keepalive_time_ms", 10_000), ("keepalive_timeout_ms", 5_000), ("keepalive_permit_without_calls", 1))
PINGS = (("http2.min_ping_interval_without_data_ms", 5_000), ("http2.max_pings_without_data", 0))
SOON = 5.0  # seconds for one look at a server that does not let a site in
LARGEST = 2**31 - 1  # bytes of a message, as gRPC counts them


@dataclass(frozen=True)
class Ears:
    """What a party does when something comes: bytes of a peer, a peer that is there, one that is gone.

    `admit` sees the certificate of who connects, in PEM, before anything else does; whom it refuses gets the reason.
    """

    heard: Callable[[str, bytes | memoryview], None]
    joined: Callable[[str], None]
    left: Callable[[str], None]
    admit: Callable[[bytes], None] = lambda certificate: None


class Cell:
    """This party's end of the network. `send` and the ears work on threads of their own."""

    def __init__(self, kit: Kit, ears: Ears) -> None:
        self._kit, self._ears = kit, ears
        core, self._message, self._keys = _nvflare()
        role = "server" if kit.coordinator else "client"
        where = f"grpcs://{'0.0.0.0' if kit.coordinator else kit.host}:{kit.port}"
        if kit.coordinator:
            _free(kit.port)
            _guard(kit.port, ears.admit)
        self._cell = core(
            fqcn=kit.name,
            root_url=where,
            secure=True,
            credentials={
                "ca_cert": str(kit.authority),
                f"{role}_cert": str(kit.certificate),
                f"{role}_key": str(kit.key),
                "secure": True,
            },
            auth_identity_map={SERVER: SERVER},
        )
        self._cell.add_incoming_filter("*", "*", self._filter)
        self._cell.register_request_cb(CHANNEL, TOPIC, self._take)
        self._cell.set_cell_connected_cb(lambda agent: ears.joined(agent.get_fqcn()))
        self._cell.set_cell_disconnected_cb(lambda agent: ears.left(agent.get_fqcn()))

    def start(self) -> None:
        """Listen, or connect; a server that is not there is tried again until it is."""
        self._cell.start()

    def send(self, peer: str, data: bytes) -> bool:
        """Hand the bytes over; False where the peer is not connected. That they arrive is for the peer to say."""
        found = self._cell.fire_and_forget(CHANNEL, TOPIC, peer, self._message(payload=data), optional=True)
        return not any(found.values())

    def refusal(self) -> str | None:
        """At a site that is not connected: why the server does not let it in, if it is there and does not."""
        return refused_by_tls(self._kit) or _turned_away(self._kit)

    def stop(self) -> None:
        """Say goodbye and close."""
        self._cell.stop()

    def _filter(self, message: Any) -> Any:
        """Drop what a peer sends in another's name, to another than this party, or in another form than bytes."""
        keys = self._keys
        endpoint = message.get_prop(keys.ENDPOINT)
        origin, target = message.get_header(keys.ORIGIN), message.get_header(keys.DESTINATION)
        subject = message.get_header(keys.CHANNEL), message.get_header(keys.TOPIC)
        plain = message.get_header(keys.ENCODING) in (None, "bytes")  # else it would be decoded to objects
        own = endpoint is not None and origin == endpoint.name and target == self._kit.name
        right = own and plain and subject in ((CHANNEL, TOPIC), keys.GOODBYE)
        return None if right else self._message()  # anything but None ends it there

    def _take(self, message: Any) -> None:
        payload = message.payload
        self._ears.heard(message.get_header(self._keys.ORIGIN), b"" if payload is None else payload)


@dataclass(frozen=True)
class _Keys:
    """nvflare's names of what is around a message."""

    ENDPOINT: str
    ORIGIN: str
    DESTINATION: str
    CHANNEL: str
    TOPIC: str
    ENCODING: str
    GOODBYE: tuple[str, str]


def _nvflare() -> tuple[Any, Any, _Keys]:
    """The class of cells, that of messages, and the names; with gRPC set up before the first cell."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its core writes to standard error by itself
    try:
        from nvflare.fuel.f3.cellnet.core_cell import CoreCell
        from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic, MessageHeaderKey, MessagePropKey
        from nvflare.fuel.f3.comm_config import CommConfigurator
        from nvflare.fuel.f3.message import Message
    except ImportError:
        raise Mistake("a network needs nvflare 2.9: pip install 'hush-fl[network]'") from None
    logger = logging.getLogger("nvflare")
    if not logger.handlers:  # what it has to say, hush says in sentences of its own
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
    options = [(f"grpc.{name}", value) for name, value in (*KEEPALIVE, *PINGS)]
    options += [("grpc.max_send_message_length", LARGEST), ("grpc.max_receive_message_length", LARGEST)]
    # Two servers of one port would otherwise share it, without a word.
    options.append(("grpc.so_reuseport", 0))
    # In place of a file comm_config.json, from which it would read the same.
    CommConfigurator._configuration = {
        "grpc": {"max_workers": STREAMS, "options": options},
        "allow_adhoc_conns": False,
    }
    CommConfigurator._config_loaded = True
    names, goodbye = MessageHeaderKey, (CellChannel.CELLNET, CellChannelTopic.Bye)
    around = (names.ORIGIN, names.DESTINATION, names.CHANNEL, names.TOPIC, names.PAYLOAD_ENCODING)
    return CoreCell, Message, _Keys(MessagePropKey.ENDPOINT, *around, goodbye)


_ADMIT: dict[int, Callable[[bytes], None]] = {}  # by the port of a server of this process


def _guard(port: int, admit: Callable[[bytes], None]) -> None:
    """Look at the certificate of who connects: by its name alone it would take the place of who has that name."""
    import grpc
    from nvflare.fuel.f3.drivers import grpc_driver

    class Guarded(grpc_driver.Servicer):
        def Stream(self, request_iterator: Any, context: Any) -> Iterator[Any]:
            """The connection of one peer."""
            try:
                (certificate,) = context.auth_context().get("x509_pem_cert", [b""])
                _ADMIT[int(self.server.connector.params["port"])](certificate)
            except Refused as why:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, str(why))
            yield from super().Stream(request_iterator, context)

    class Ending(grpc_driver.StreamConnection):
        def close(self) -> None:
            """For the peer as well: one in whose place another came would else wait for ever."""
            context = self.context
            super().close()
            if context is not None:
                context.cancel()

    _ADMIT[port] = admit
    if grpc_driver.Servicer.__name__ != Guarded.__name__:
        grpc_driver.Servicer, grpc_driver.StreamConnection = Guarded, Ending


def _turned_away(kit: Kit) -> str | None:
    """What a server says to a site that it knows by its certificate and does not let in."""
    import grpc
    from nvflare.fuel.f3.drivers.grpc.streamer_pb2_grpc import StreamerStub

    own = (path.read_bytes() for path in (kit.authority, kit.key, kit.certificate))
    with grpc.secure_channel(f"{kit.host}:{kit.port}", grpc.ssl_channel_credentials(*own)) as channel:
        try:
            for _ in StreamerStub(channel).Stream(iter(()), timeout=SOON):
                pass
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.PERMISSION_DENIED:
                return f"the server at {kit.host}:{kit.port} does not let this site in: {one_line(error.details())}"
    return None


def _free(port: int) -> None:
    """Refuse a port that another process listens on: gRPC would not say so."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise Mistake(f"port {port} cannot be listened on ({error.strerror}): choose another") from None
            raise Mistake(
                f"port {port} is in use, perhaps by another server: stop it, or choose another port"
            ) from None
