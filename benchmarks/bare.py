"""The floor of a network: bare gRPC with mutual TLS, one stream for each site, bytes down and bytes up, and no more.

It has no deadline, no reconnecting and no envelope: what a few lines of gRPC do with the same certificates. A message
is the last round whose upload was taken (8 bytes, as hush's questions have it) and the bytes of a round.
"""

import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import grpc

from hush.federation.kit import Kit
from hush.federation.site import Agreed

OPTIONS = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")] + [("grpc.so_reuseport", 0)]
SERVICE, METHOD = "bare", "talk"
TAKEN = struct.Struct("<q")


class Bare:
    """The server's end, a channel as hush.federation.sites.Network is one."""

    def __init__(self, own: Kit, port: int, sites: int) -> None:
        self._lines: dict[str, SimpleQueue[bytes | None]] = {}
        self._answers: SimpleQueue[tuple[str, bytes]] = SimpleQueue()
        self._server = grpc.server(ThreadPoolExecutor(sites), options=OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._talk)  # without serialisers: bytes as they are
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        pair = own.key.read_bytes(), own.certificate.read_bytes()
        credentials = grpc.ssl_server_credentials([pair], own.authority.read_bytes(), require_client_auth=True)
        self.port = self._server.add_secure_port(f"0.0.0.0:{port}", credentials)
        self._server.start()

    def _talk(self, answers: Any, context: Any) -> Any:
        (name,) = context.auth_context()["x509_common_name"]
        line = self._lines[name.decode()] = SimpleQueue()
        for data in answers:
            self._answers.put((name.decode(), data))
            if (message := line.get()) is None:
                return
            yield message

    def gather(self, sites: int) -> None:
        """Until so many have said hello."""
        for _ in range(sites):
            self._answers.get()

    def phase(self, messages: dict[str, bytes], taken: dict[str, int]) -> dict[str, bytes]:
        """The answers of all."""
        for name, data in messages.items():
            self._lines[name].put(TAKEN.pack(taken[name]) + data)
        return dict(self._answers.get() for _ in messages)

    def stop(self) -> None:
        """End all streams."""
        for line in self._lines.values():
            line.put(None)
        self._server.stop(1.0).wait()


def answer(own: Kit, port: int, agreed: Agreed) -> None:
    """A site's end, on a thread of its own: answers until the stream is cut."""
    parts = own.authority.read_bytes(), own.key.read_bytes(), own.certificate.read_bytes()
    channel = grpc.secure_channel(f"{own.host}:{port}", grpc.ssl_channel_credentials(*parts), options=OPTIONS)
    said: SimpleQueue[bytes] = SimpleQueue()
    said.put(b"")

    def go() -> None:
        try:
            for data in channel.stream_stream(f"/{SERVICE}/{METHOD}")(iter(said.get, None)):
                said.put(agreed.answer(data[TAKEN.size :], TAKEN.unpack_from(data)[0]))
        except grpc.RpcError:
            pass  # the end

    threading.Thread(target=go, daemon=True).start()
