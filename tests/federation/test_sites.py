"""Who is there, as the server of a network sees it."""

import threading

from hush.experiment.server import _there
from hush.federation import envelopes
from hush.federation.envelopes import Kind, greeting
from hush.federation.sites import Sites
from hush.secure.keys import Identity

OWN, CHARTER = Identity.new(), "digest"


def quiet(event: str, **facts: object) -> None:
    """No log."""


def sites() -> Sites:
    return Sites({"a": OWN.public, "b": Identity.new().public}, "federation", "1", b"", quiet, grace=0.0)


def hello(process: str = "p", charter: str = CHARTER) -> bytes:
    words = greeting("federation", "a", process)
    facts = {"version": "1", "process": process, "proof": OWN.sign(words).hex(), "charter": charter}
    return envelopes.seal(Kind.HELLO, facts)


def test_who_is_connected_and_has_accepted_is_present() -> None:
    found = sites()
    assert found.present(CHARTER) == ()
    found.heard("a", hello())
    assert found.present(CHARTER) == ("a",)
    assert found.present("another") == ()
    found.left("a")
    assert found.present(CHARTER) == ()


def test_between_rounds_the_server_waits_for_a_site() -> None:
    """And goes on when one comes: behind a cut link all rounds would go by without anybody."""
    found = sites()
    waiting = threading.Thread(target=_there, args=(found, CHARTER, 1, quiet), daemon=True)
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    found.heard("a", hello())
    waiting.join(10)
    assert not waiting.is_alive()
