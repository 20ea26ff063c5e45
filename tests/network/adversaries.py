"""What dishonest parties do in their own processes: functions that a test hands to network.parties."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from network.parties import log_to

Say = Callable[..., None]


def plans(say: Say, victim: int, changes: dict[int, dict[str, Any]]) -> None:
    """A server that sends one client other plans than the rest, by the number of the round. `lift`: of its weights."""
    from hush.federation import messages
    from hush.federation.charter import mark_of
    from hush.federation.remote import Remote

    honest = Remote._plans

    def _plans(self: Any, order: Any) -> Any:
        sent, change = honest(self, order), dict(changes.get(order.plan.round, {}))
        if change and victim in sent:
            mark = change.pop("mark", mark_of(self.charter))
            plan = replace(order.plan, weights=order.plan.weights + change.pop("lift", 0.0), **change)
            form = order.scheme.downlink.form
            sent[victim] = messages.pack_plan(plan, order.scheme.coordinates, form, mark)
            say("changed", round=order.plan.round)
        return sent

    Remote._plans = _plans


def unchecked(say: Say) -> None:
    """A party that does not look at its own kit."""
    from nvflare.fuel.f3.cellnet.cell_cipher import SimpleCellCipher

    from hush.federation import certificates, kit

    SimpleCellCipher._validate_cert_chain = lambda self, chain: None
    kit.read = kit.whole
    certificates.check_issued = lambda found, by, server: None


def overheard(say: Say) -> None:
    """Says from whom anything arrives, before it is looked at."""
    from hush.federation.cellnet import Cell

    honest = Cell._filter

    def _filter(self: Any, message: Any) -> Any:
        say("arrived", origin=message.get_header(self._keys.ORIGIN))
        return honest(self, message)

    Cell._filter = _filter


def cell(kit: Path, name: str, log: Path, more: dict[str, Any]) -> None:
    """A site with its own cells in place of hush's: says what it likes to whom it likes, in whose name it likes."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessageType
    from nvflare.fuel.f3.endpoint import Endpoint

    from hush.federation import cellnet, envelopes
    from hush.federation import kit as kits

    say, own = log_to(log), kits.read(kit)
    core, message, _ = cellnet._nvflare()
    found = core(
        fqcn=name,
        root_url=f"grpcs://{own.host}:{own.port}",
        secure=True,
        credentials={
            "ca_cert": str(own.authority),
            "client_cert": str(own.certificate),
            "client_key": str(own.key),
            "secure": True,
        },
    )
    found.register_request_cb(cellnet.CHANNEL, cellnet.TOPIC, lambda one: say("told", size=len(one.payload or b"")))
    found.set_cell_connected_cb(lambda agent: say("connected"))
    found.start()
    end = time.monotonic() + more.get("seconds", 8.0)
    decline = envelopes.seal(envelopes.Kind.DECLINE, "gotcha")
    over = envelopes.seal(envelopes.Kind.OVER, "gotcha")

    def send(origin: str, target: str, data: Any, encoding: str | None = None) -> None:
        headers = {
            MessageHeaderKey.CHANNEL: cellnet.CHANNEL,
            MessageHeaderKey.TOPIC: cellnet.TOPIC,
            MessageHeaderKey.ORIGIN: origin,
            MessageHeaderKey.FROM_CELL: origin,
            MessageHeaderKey.TO_CELL: "server",
            MessageHeaderKey.DESTINATION: target,
            MessageHeaderKey.MSG_TYPE: MessageType.REQ,
            MessageHeaderKey.ROUTE: [(origin, time.time())],
        }
        if encoding is not None:
            headers[MessageHeaderKey.PAYLOAD_ENCODING] = encoding
        found.communicator.send(Endpoint("server"), found.APP_ID, message(headers, data))

    while time.monotonic() < end:
        for origin, target, data, encoding in (
            (name, "b", over, None),  # to another site
            ("server", "b", over, None),  # to another site, as the server
            ("b", "server", decline, None),  # to the server, as another site
            (name, "server", decline, "fobs"),  # objects in place of bytes
            (name, "server", b"hush" + bytes(100), None),
        ):
            try:
                send(origin, target, data, encoding)
            except Exception as error:
                say("unsent", why=type(error).__name__)
        time.sleep(0.2)
    say("done")
    found.stop()
