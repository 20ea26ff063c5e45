"""Who is not let in, what is not taken, and by whom it is said: one sentence each, and the federation goes on."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from network import adversaries
from network.parties import SEED, Party, Place, federation

from hush.federation import certificates, coordinator, enrolment
from hush.federation import kit as kits
from hush.privacy.ledger import Ledger
from hush.privacy.views import Participation, views

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


# A server that asks for more than was agreed to.

CHANGES: dict[int, tuple[dict[str, Any], str]] = {
    1: ({"floor": 9.0}, "noise shares for 9 clients, and cohorts of 3"),
    2: ({"clip": 1e6}, "has a bound of 1000000.0, which the charter's scheme does not"),
    4: ({"round": 3}, "round 3 is not past round 3"),
    5: ({"cohort": 1.0}, "divides by 1, and the charter's cohorts have 3"),
    6: ({"mark": b"another!"}, "of another charter than the one agreed to"),
    7: ({"round": 99}, "round 99 is past the 9 of the charter"),
    8: ({"floor": 0.2}, "fewer than one"),
}


def test_a_plan_that_protects_less_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    """A floor past the cohort, a bound, a round twice, another divisor, another charter, more rounds."""
    deed = partial(adversaries.plans, victim=2, changes={round: change for round, (change, _) in CHANGES.items()})
    with real(tmp_path, wanted(9)) as place:
        server, sites = place.server(deed=deed), place.all()
        found = finished(server, *sites.values())
        said = [why for _, why in CHANGES.values()]
        assert [why in one for why, one in zip(said, refused(sites["c"]), strict=True)] == [True] * len(said)
        assert [row["refused"] for row in found if row["refused"]] == [[f"client 2: {w}"] for w in refused(sites["c"])]
        assert spent(place, "c") == [3, 9]
        assert spent(place, "a") == list(range(1, 10))


def test_a_round_is_answered_once_also_by_the_next_process(tmp_path: Path) -> None:
    deed = partial(adversaries.plans, victim=2, changes={3: {"round": 2}})
    with real(tmp_path, wanted(4)) as place:
        server, first, second = place.server(deed=deed), place.site("a"), place.site("b")
        assert place.site("c", die=(2, 0, "after")).join() == -9
        third = place.site("c")
        finished(server, first, second, third)
        assert ["round 2 is not past round 2" in why for why in refused(third)] == [True]
        assert spent(place, "c") == [1, 2, 4]


def test_another_model_for_one_client_is_in_no_secure_sum(tmp_path: Path) -> None:
    """Its signatures are of other terms, and its masks would not cancel: the sum is of the others, or not opened."""
    deed, names = partial(adversaries.plans, victim=2, changes={2: {"lift": 1e-3}}), (*SITES, "d", "e")
    sampling = {"kind": "fixed", "cohort": 5, "dropout": 0.2}
    with real(tmp_path, wanted(3, SECURE, sampling=sampling), names) as place:
        server, sites = place.server(deed=deed), place.all()
        found = finished(server, *sites.values())
        assert [len(row["refused"]) for row in found] == [0, 1, 0], found
        assert found[1]["refused"][0].startswith("client 2: ")
        assert [one["clients"] for one in server.events("taken")] == [[0, 1, 2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 3, 4]]
        assert spent(place, "c") == [1, 2, 3]  # what it was about to release is paid for


def test_a_secure_sum_that_needs_all_is_not_opened_without_one(tmp_path: Path) -> None:
    deed = partial(adversaries.plans, victim=2, changes={2: {"lift": 1e-3}})
    with real(tmp_path, wanted(3, SECURE)) as place:
        server, _ = place.server(deed=deed), place.all()
        assert "2 clients advertised keys, and 3 are needed: nothing is opened" in sentence(server)


def test_another_model_for_one_client_of_a_plain_sum_is_paid_for_as_its_upload_alone(tmp_path: Path) -> None:
    """Nobody can tell: so against the server a site counts with its own share of the noise from the start."""
    deed = partial(adversaries.plans, victim=2, changes={2: {"lift": 1.0}})
    with real(tmp_path) as place:
        server, sites = place.server(deed=deed), place.all()
        assert not any(row["refused"] for row in finished(server, *sites.values()))
        events = Ledger.load(place.kit("c") / "state" / "ledger.json").events
        joined = Participation(1)
        joined.catch_up(events)
        known = views(events, joined, 1e-5, "pld")
        assert len(events) == 2
        assert known["server"] == known["upload"]
        assert float(known["upload"]) > float(known["model"])


def test_a_finished_charter_is_not_run_again(tmp_path: Path) -> None:
    """The same charter in a directory that knows nothing: sites agree to it, and answer none of its rounds."""
    with real(tmp_path) as place:
        finished(place.server(), *place.all().values())
        again = tmp_path / "again"
        again.mkdir()
        for name in ("charter.json", "federation.json", "config.toml"):
            shutil.copy(place.out / name, again / name)
        server, sites = place.server(out=again), place.all()
        found = finished(server, *sites.values())
        assert [len(row["refused"]) for row in found] == [3, 3]
        assert all("is not past round 2" in why for site in sites.values() for why in refused(site))
        assert [spent(place, name) for name in SITES] == [[1, 2]] * 3


def test_a_roster_with_a_site_that_was_invented(tmp_path: Path) -> None:
    """By rule a site takes part with those alone whom it took part with before."""
    with real(tmp_path) as place:
        finished(place.server(), *place.all().values())
        enrolled(place, "puppet", tmp_path / "puppet")
        tables = wanted(2, sampling={"kind": "fixed", "cohort": 4})
        server, sites = place.server(out=tmp_path / "second", tables=tables, wait=30.0), place.all()
        place.site("puppet", kit=tmp_path / "puppet", data=rows(place))
        for site in sites.values():
            assert "the roster has puppet, which is not on one that this site accepted" in sentence(site)
        assert {one["site"] for one in server.events("declined")} == set(SITES)
        assert [spent(place, name) for name in SITES] == [[1, 2]] * 3


def test_a_budget_holds_in_the_middle_of_a_second_run(tmp_path: Path) -> None:
    with real(tmp_path) as place:
        finished(place.server(), *place.all().values())
        event, joined = Ledger.load(place.kit("c") / "state" / "ledger.json").events[0], Participation(1)
        joined.catch_up([event] * 3)
        most = float(views([event] * 3, joined, 1e-5, "pld")["upload"])
        policy(place, "c", f'accept = "rule"\n[epsilon]\nupload = {most * 1.001}\n')
        server, sites = place.server(out=tmp_path / "second", tables=wanted(3)), place.all()
        found = finished(server, *sites.values())
        assert [len(row["refused"]) for row in found] == [0, 1, 1]
        assert refused(sites["c"]) == [
            f"round {round} would bring epsilon of the upload view past the budget" for round in (2, 3)
        ]
        assert spent(place, "c") == [1, 2, 1]
        assert spent(place, "a") == [1, 2, 1, 2, 3]


POLICIES = {
    "c": ("noise = 5", "worth 0.316228 against the server, and this client asks for 5"),
    "d": ("rounds = 1", "has 2 rounds, and this client answers 1 at most"),
    "e": ("secure = true", "demands a secure sum, and the charter's scheme has none"),
    "f": ("clients = 2", "a plain sum may be taken of one client, and this client asks for 2"),
    "g": ("corrupt = 0.2", "no secure sum, and this client asks for 20% that may collude"),
    "h": ('schemes = ["two-bit"]', "is none of two-bit, which this site takes part in"),
    "i": ("share = 3", "the noise of an upload is worth"),
}


def test_each_site_s_own_rules_hold_whatever_the_charter(tmp_path: Path) -> None:
    """One charter, sites with rules that it breaks: each says which, spends nothing, and the others train."""
    names = ("a", "b", *POLICIES, "j")
    tables = wanted(2, sampling={"kind": "fixed", "cohort": len(names)})
    with real(tmp_path, tables, names) as place:
        for name, (rule, _) in POLICIES.items():
            policy(place, name, f'accept = "rule"\n{rule}\n')
        policy(place, "j", "")
        server, sites = place.server(wait=40.0, together=False), place.all()
        said = {name: sentence(sites[name]) for name in (*POLICIES, "j")}
        known = {name: why for name, (_, why) in POLICIES.items()} | {"j": "is not accepted: read it with --show"}
        assert [known[name] in said[name] for name in known] == [True] * len(known), said
        assert {one["site"]: one["why"] for one in server.events("declined")} == said
        assert [spent(place, name) for name in known] == [[]] * len(known)
        assert len(finished(server, sites["a"], sites["b"])) == 2
        assert spent(place, "a") == [1, 2]


def test_rules_on_a_secure_sum(tmp_path: Path) -> None:
    names = (*SITES, "d", "e")
    rules = {
        "c": ("clients = 6", "sums may be opened over 5 clients, and this client asks for 6"),
        "d": ("corrupt = 0.3", "a secure sum against 10%, and this client asks for 30%"),
        "e": ("noise = 2", "worth 1 against the server, and this client asks for 2"),
    }
    with real(tmp_path, wanted(1, SECURE, sampling={"kind": "fixed", "cohort": 5}), names) as place:
        for name, (rule, _) in rules.items():
            policy(place, name, f'accept = "rule"\n{rule}\n')
        server, sites = place.server(wait=20.0, together=False), place.all()
        said = {name: sentence(sites[name]) for name in rules}
        assert [why in said[name] for name, (_, why) in rules.items()] == [True] * 3, said
        assert {one["site"]: one["why"] for one in server.events("declined")} == said
        assert "2 clients advertised keys, and 5 are needed: nothing is opened" in sentence(server)
        assert [spent(place, name) for name in rules] == [[]] * 3


# Rows that do not fit.

SCHEMA = """\
[table]
path = "test.csv"
client = "house"
label = "died"
[features]
numeric = { years = { min = 0, max = 100 }, dose = { min = 0, max = 9 } }
[keep]
exclude = { ward = ["x"] }
"""


def table(path: Path, *columns: str) -> Path:
    """Sixty admissions, with these columns."""
    admissions = [
        {"house": "h", "years": 20 + k, "dose": k % 10, "ward": "xyz"[k % 3], "died": int(k > 30)} for k in range(60)
    ]
    lines = [",".join(columns), *(",".join(str(row[name]) for name in columns) for row in admissions)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_without_a_needed_column_and_a_column_that_is_not_offered(tmp_path: Path) -> None:
    """The rules of the charter choose rows by `ward`: a site that does not offer it is not looked at by it either."""
    whole = ("house", "years", "dose", "ward", "died")
    table(tmp_path / "test.csv", *whole)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    tables = {
        "scheme": {"name": "dp-fedavg", "noise": 1.0, "clip": 1.0},
        "data": {"name": str(tmp_path / "schema.toml")},
        "sampling": {"kind": "fixed", "cohort": 4},
        "run": {"rounds": 2, "seed": SEED},
    }
    with real(tmp_path / "place", tables, (*SITES, "d")) as place:
        data = {name: table(tmp_path / f"{name}.csv", *whole) for name in "abd"}
        data["c"] = table(tmp_path / "c.csv", "house", "years", "ward", "died")
        policy(place, "d", 'accept = "rule"\ncolumns = ["years", "dose", "died"]\n')
        server = place.server(wait=10.0, together=False)
        sites = {name: place.site(name, data=path) for name, path in data.items()}
        assert "dose" in sentence(sites["c"])
        assert "the charter uses the column 'ward', which this site does not offer" in sentence(sites["d"])
        declined = {one["site"]: one["why"] for one in server.events("declined")}
        assert set(declined) == {"c", "d"}
        assert "c.csv" not in declined["c"]
        assert len(finished(server, sites["a"], sites["b"])) == 2
        assert spent(place, "c") == spent(place, "d") == []


def test_fewer_records_than_the_charter_counts_on(tmp_path: Path) -> None:
    """The guarantee of records stands on the smallest number: a site that comes back with fewer stays out."""
    tables = wanted(3, scheme={"name": "fl-sign-dp", "noise": 1.0}, train={"batch": 20, "steps": 2})
    with real(tmp_path, tables) as place:
        server, first, second = place.server(die=(2, "upload", "before")), place.site("a"), place.site("b")
        third = place.site("c")
        assert server.join() == -9
        third.process.terminate()
        third.join()
        policy(place, "c", 'accept = "rule"\nrows = 100\n')
        server = place.server(wait=15.0, together=False)
        assert "the charter counts on 458 records at least, and this client has 100" in sentence(place.site("c"))
        assert [row["round"] for row in finished(server, first, second)][-1] == 3
        assert spent(place, "c") == [1]
        assert max(spent(place, "a")) == 3
