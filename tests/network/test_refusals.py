"""Who is not let in, what is not taken, and by whom it is said: one sentence each, and the federation goes on."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from network import adversaries
from network.parties import SEED, Party, Place, federation

from hush.federation import certificates, coordinator, enrolment
from hush.federation import kit as kits
from hush.privacy.ledger import Ledger

pytestmark = pytest.mark.network
SITES = ("a", "b", "c")
PLAIN = {
    "scheme": {"name": "fl-top-dp", "ratio": 0.1, "noise": 1.0, "clip": 0.5},
    "data": {"name": "digits"},
    "sampling": {"kind": "fixed", "cohort": 3},
    "run": {"rounds": 2, "seed": SEED},
}
SECURE = {**PLAIN, "secure": {"mode": "full"}}


def wanted(rounds: int, tables: dict[str, Any] = PLAIN, **more: Any) -> dict[str, Any]:
    return {**tables, "run": {"rounds": rounds, "seed": SEED}, **more}


@contextmanager
def real(folder: Path, tables: dict[str, Any] = PLAIN, sites: tuple[str, ...] = SITES) -> Iterator[Place]:
    """A federation in earnest: its draws are the system's."""
    with federation(folder, sites, tables, seed=None) as place:
        yield place


def policy(place: Place, site: str, text: str) -> None:
    (place.kit(site) / "policy.toml").write_text(text)


def spent(place: Place, site: str) -> list[int]:
    """The rounds in a site's own ledger."""
    own = place.kit(site) / "state" / "ledger.json"
    return [event.round for event in Ledger.load(own).events] if own.exists() else []


def refused(party: Party) -> list[str]:
    return [one["why"] for one in party.events("refused")]


def sentence(party: Party) -> str:
    """What a party ended with, as the command line prints it with status 2."""
    assert party.join(30.0) == 2, party.events()
    (found,) = party.events("mistake")
    assert "\n" not in found["why"]
    return str(found["why"])


def finished(server: Party, *sites: Party) -> list[dict[str, Any]]:
    assert server.join() == 0, server.events()
    assert [site.join() for site in sites] == [0] * len(sites), [site.events() for site in sites]
    return server.events("round")


def enrolled(place: Place, name: str, folder: Path, **more: Any) -> Path:
    """A new site's kit, by the federation's own authority."""
    own = kits.read(place.kit("server"))
    asked = enrolment.request(folder, name)
    answer = coordinator.approve(own, asked, **more)
    enrolment.accept(folder, enrolment.Grant.read(answer))
    (folder / "policy.toml").write_text('accept = "rule"\n')
    return folder


def rows(place: Place, site: str = "c") -> Path:
    return place.folder / "rows" / f"{site}.npz"


# Who is let in.


def test_who_is_not_of_the_federation_is_told_so_and_the_others_go_on(tmp_path: Path) -> None:
    """Another federation's kit, another authority's certificate, an old one, one off the roster, a second server."""
    with real(tmp_path) as place:
        own = kits.read(place.kit("server"))
        other = tmp_path / "other"
        coordinator.init(other, "localhost", own.port, ["x", "y"])
        for name in ("x", "y"):
            (other / name / "policy.toml").write_text('accept = "rule"\n')
        enrolled(place, "y", tmp_path / "y")  # whose certificate is exchanged for one of the other authority
        coordinator.revoke(own, "y")
        for name in ("cert.pem", "key.pem", "identity.key"):
            shutil.copy(other / "y" / name, tmp_path / "y" / name)
        enrolled(place, "z", tmp_path / "z")
        coordinator.revoke(own, "z")
        enrolled(place, "old", tmp_path / "old")
        coordinator.revoke(own, "old")
        _aged(own, tmp_path / "old")
        server, first, second = place.server(), place.site("a"), place.site("b")
        first.until("connected")
        wrong = {
            "foreign": place.site("foreign", kit=other / "x", data=rows(place)),
            "authority": place.site("authority", kit=tmp_path / "y", data=rows(place)),
            "unchecked": place.site("unchecked", kit=tmp_path / "y", data=rows(place), deed=adversaries.unchecked),
            "unknown": place.site("unknown", kit=tmp_path / "z", data=rows(place)),
            "expired": place.site("expired", kit=tmp_path / "old", data=rows(place)),
            "aged": place.site("aged", kit=tmp_path / "old", data=rows(place), deed=adversaries.unchecked),
            "server": place.server(out=tmp_path / "second"),
        }
        said = {name: sentence(party) for name, party in wrong.items()}
        assert "is not the server of this kit" in said["foreign"]
        assert "not by this federation's authority" in said["authority"]
        assert "does not let this site in, because of its certificate" in said["unchecked"]
        assert "does not let this site in: it is not on the roster" in said["unknown"]
        assert "expired on" in said["expired"]
        assert "does not let this site in, because of its certificate" in said["aged"]
        assert f"port {own.port} is in use" in said["server"]
        assert {one["site"] for one in server.events("refused")} == {"z"}
        assert len(finished(server, first, second, place.site("c"))) == 2


def _aged(own: kits.Kit, folder: Path) -> None:
    """A certificate of this kit's own keys that has expired."""
    authority, key = certificates.read(own.authority.read_bytes()), certificates.read_key(_content(own, "ca-key.pem"))
    found = certificates.read((folder / "cert.pem").read_bytes())
    start, identity = certificates.now() - timedelta(days=3), certificates.identity_of(found)
    made = certificates.issue(authority, key, certificates.name_of(found), found, identity, start, 1)
    (folder / "cert.pem").write_bytes(certificates.pem(made))


def _content(own: kits.Kit, name: str) -> bytes:
    return (own.path / name).read_bytes()


def test_a_revoked_site_is_not_its_successor_of_the_same_name(tmp_path: Path) -> None:
    """Its certificate is valid until it expires; the site that has its name now is neither cut off nor spoken for."""
    with real(tmp_path, wanted(6)) as place:
        own = kits.read(place.kit("server"))
        old = tmp_path / "old"
        shutil.copytree(place.kit("c"), old)
        coordinator.revoke(own, "c")
        shutil.rmtree(place.kit("c"))
        enrolled(place, "c", place.kit("c"))
        server, first, third = place.server(together=False), place.site("a"), place.site("c")
        third.until("data")
        revoked = place.site("revoked", kit=old, data=rows(place))
        raw = place.start(adversaries.cell, "raw", old, "c", seconds=4.0)
        assert "it has not the key that is on the roster" in sentence(revoked)
        assert raw.join() == 0
        assert not any(row["refused"] for row in finished(server, first, third, place.site("b")))
        assert len(third.events("connected")) == 1
        assert not server.events("declined")
        assert not raw.events("told")


def test_a_site_speaks_for_itself_and_to_the_server_alone(tmp_path: Path) -> None:
    """Messages to another site, in another's name, of objects, and under another's name: none arrives."""
    with real(tmp_path, wanted(3)) as place:
        server, second = place.server(together=False), place.site("b", deed=adversaries.overheard)
        second.until("data")
        malicious = place.start(adversaries.cell, "malicious", place.kit("c"), "c", seconds=4.0)
        named = place.start(adversaries.cell, "named", place.kit("c"), "b", seconds=4.0)
        malicious.until("connected")
        assert [malicious.join(), named.join()] == [0, 0]
        finished(server, second, place.site("a"), place.site("c"))
        assert {one["origin"] for one in second.events("arrived")} == {"server"}
        assert not server.events("declined")
        assert {one["site"] for one in server.events("refused")} == {"c"}
        assert spent(place, "b") == [1, 2, 3]
        assert not named.events("told")


def test_a_kit_whose_certificate_is_another_site_s(tmp_path: Path) -> None:
    with real(tmp_path) as place:
        shutil.copy(place.kit("b") / "cert.pem", place.kit("c") / "cert.pem")
        assert "is not for c" in sentence(place.site("c"))


def test_two_processes_of_one_site(tmp_path: Path) -> None:
    """On one machine the second is refused; of two copies of a kit the later one takes part, and the former ends."""
    with real(tmp_path, wanted(8)) as place:
        copy = tmp_path / "copy"
        shutil.copytree(place.kit("c"), copy)
        server, first = place.server(together=False), place.site("a")
        former = place.site("c")
        former.until("connected")
        assert "another process takes part" in sentence(place.site("again", kit=place.kit("c"), data=rows(place)))
        later = place.site("later", kit=copy, data=rows(place))
        assert "another process came after it with the same kit" in sentence(former)
        finished(server, first, place.site("b"), later)


def test_other_versions_of_hush(tmp_path: Path) -> None:
    with real(tmp_path) as place:
        server, sites = place.server(together=False, wait=3.0), [place.site("a"), place.site("b")]
        said = sentence(place.site("c", version="older\x1b[2J"))
        assert said.endswith("it has hush older?[2J, and the server tests: install the same version")
        finished(server, *sites)
        (why,) = refused(server)
        assert said.endswith(why)
