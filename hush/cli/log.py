"""The log of a server or a client: a line for each event, in words or as JSON."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

WORDS = {
    "listening": "listening on port {port} for {sites} sites",
    "hello": "{site} is there",
    "back": "{site} is back",
    "left": "{site} has left",
    "joined": "{site} has joined",
    "accepted": "{site} accepts the charter {charter}",
    "declined": "{site} declines: {why}",
    "undecided": "waiting for {sites} to accept the charter {charter}",
    "refused": "refused: {why}",
    "late": "{site} answers too late, which is not counted",
    "deadline": "{site} did not answer in time and has dropped out of the phase",
    "connected": "connected to the server",
    "data": "{records} records of this site are ready",
    "agreed": "taking part under the charter {charter}, in at most {rounds} rounds",
    "answered": "answered phase {phase}",
    "round": "round {round} of {of}  {facts}",
    "charter": "charter {digest}",
    "over": "{why}",
}
WAITING = {"server": "waiting for {sites}", "client": "waiting for the server at {server}"}


def logger(role: str, as_json: bool, **always: Any) -> Callable[..., None]:
    """What says an event: `say("joined", site="a")`. Lines go to standard error, JSON lines to standard output."""

    def say(event: str, **facts: Any) -> None:
        facts = {**always, **facts}
        now = time.strftime("%H:%M:%S")
        if as_json:
            print(json.dumps({"time": time.time(), "event": event, **facts}), flush=True)
            return
        words = WAITING[role] if event == "waiting" else WORDS.get(event, event)
        shown = {name: ", ".join(value) if isinstance(value, list) else value for name, value in facts.items()}
        site = f"{facts['site']}: " if event == "refused" and "site" in facts else ""
        print(f"{now} {site}{words.format_map(_Silent(shown))}".rstrip(), file=sys.stderr, flush=True)

    return say


class _Silent(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return ""
