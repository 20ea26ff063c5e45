"""`hush federation`: the kits of a federation's parties, and who is on its roster."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hush.errors import Mistake

if TYPE_CHECKING:
    from hush.federation.kit import Kit

app = typer.Typer(
    help="Found a federation, admit and revoke sites, look at a kit.", no_args_is_help=True, add_completion=False
)

Coordinator = Annotated[Path, typer.Argument(help="Folder of the coordinator's kit.")]
Fingerprint = Annotated[
    str | None, typer.Option("--fingerprint", help="What the other side read out, over another channel.")
]
Days = Annotated[int, typer.Option("--days", help="Validity of a party's certificate.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where the kits go: FOLDER/coordinator, and one for each --site.")],
    host: Annotated[str, typer.Option("--host", help="Name or address by which sites reach the server.")],
    port: Annotated[int, typer.Option("--port", help="Its port.")] = 8900,
    site: Annotated[
        list[str] | None, typer.Option("--site", help="For a trial: make this site's whole kit too. Repeat for more.")
    ] = None,
    days: Days = 365,
    simulation: Annotated[
        int | None, typer.Option("--simulation", help="A rehearsal: draws repeat from this seed and protect nobody.")
    ] = None,
) -> None:
    """Found a federation: its authority and the coordinator's kit."""
    from hush.federation import coordinator

    kit = coordinator.init(folder, host, port, site or (), days, simulation)
    print(f"{kit.path}: the coordinator's kit, server at {_address(kit)}")
    for name in site or ():
        print(f"{folder / name}: the kit of {name}; move it to that site, and keep no copy")
    if simulation is not None:
        print(_rehearsal(simulation))
    print(f"fingerprint of the federation: {kit.federation}")
    if not site:
        print("each site: hush federation request NAME; then here: hush federation approve")


@app.command()
def request(
    name: Annotated[str, typer.Argument(help="The site's name: lower-case letters, digits and hyphens.")],
    out: Annotated[Path | None, typer.Option("--out", help="A new folder for the kit (the name).")] = None,
) -> None:
    """At a site: make its keys, which stay there, and a request for the coordinator."""
    from hush.federation import enrolment, kit

    kit.check_name(name)
    folder = Path(name) if out is None else out
    asked = enrolment.request(folder, name)
    print(f"{folder / 'request.json'}: send this file, and nothing else of the folder, to the coordinator")
    print(f"fingerprint of the request: {asked.fingerprint}")
    print("read it out to the coordinator, over another channel than the file's")


@app.command()
def approve(
    folder: Coordinator,
    file: Annotated[Path, typer.Argument(help="The request.json of a site.")],
    fingerprint: Fingerprint = None,
    days: Days = 365,
) -> None:
    """At the coordinator: put a site on the roster, and make its answer."""
    from hush.federation import coordinator, enrolment, kit

    own, asked = kit.read(folder), enrolment.Request.read(file)
    coordinator.check_new(own, asked)
    _compare(asked.fingerprint, fingerprint, f"of the request of {asked.name}", f"Did {asked.name} read out this one?")
    answer = coordinator.approve(own, asked, days)
    print(f"{answer}: send this file back to {asked.name}, which is on the roster now")
    print(f"fingerprint of the federation, to read out to {asked.name}: {own.federation}")


@app.command()
def accept(
    folder: Annotated[Path, typer.Argument(help="The site's folder, with its keys.")],
    file: Annotated[Path, typer.Argument(help="The NAME.kit.json that came back.")],
    fingerprint: Fingerprint = None,
) -> None:
    """At a site: complete its kit with the coordinator's answer, or renew its certificate."""
    from hush.federation import enrolment

    grant = enrolment.Grant.read(file)
    enrolment.check_own(folder, grant)
    if fingerprint is not None or not os.path.exists(folder / "kit.json"):  # a kit knows its federation
        _compare(grant.federation, fingerprint, "of the federation", "Did the coordinator read out this one?")
    kit = enrolment.accept(folder, grant)
    print(f"{folder}: the kit of {kit.name}, complete; the server is at {_address(kit)}")


@app.command()
def renew(
    folder: Coordinator,
    name: Annotated[str, typer.Argument(help="A site of the roster, or server.")] = "server",
    days: Days = 365,
) -> None:
    """At the coordinator: a new certificate for the same keys, of the server or of a site."""
    from hush.federation import coordinator, kit

    made = coordinator.renew(kit.whole(folder), name, days)
    if name == "server":
        print(f"{made}: renewed; start the server anew")
    else:
        print(f"{made}: send this file to {name}, for hush federation accept")


@app.command()
def revoke(folder: Coordinator, name: Annotated[str, typer.Argument(help="A site of the roster.")]) -> None:
    """At the coordinator: take a site off the roster, for good with these keys."""
    from hush.federation import coordinator, kit

    gone = coordinator.revoke(kit.whole(folder), name)
    print(f"{name} is off the roster; its certificate is kept as {gone}")


@app.command()
def show(
    folder: Annotated[Path, typer.Argument(help="Folder of a kit.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Who a kit is, its federation, how long it is valid, and the coordinator's roster."""
    facts = _pending(folder) or _facts(folder)
    if as_json:
        print(json.dumps(facts))
        return
    sites, simulation = facts.pop("roster", None), facts.pop("simulation", None)
    for fact, value in facts.items():
        print(f"{fact.replace('_', ' '):<12} {value}")
    if simulation is not None:
        print(_rehearsal(simulation))
    if sites is not None:
        print(f"{'roster':<12} {len(sites)} site{'' if len(sites) == 1 else 's'}")
    for one in sites or ():
        note = "" if one["valid"] else ", not valid now"
        print(f"  {one['name']}  {one['identity']}  until {one['valid_until']}{note}")


@app.command("export-flare")
def export_flare(
    folder: Annotated[Path, typer.Argument(help="A new folder for the job.")],
    experiment: Annotated[str, typer.Option(help="A TOML file, or a scheme by name.")],
    kit: Annotated[Path, typer.Option(help="The coordinator's kit, whose roster the job is for.")],
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE.KEY=VALUE", help="Any setting, as often as needed; `hush settings` lists them."),
    ] = None,
    deadline: Annotated[float, typer.Option(min=0.1, help="Seconds for each phase of a round.")] = 300.0,
    wait: Annotated[
        float | None, typer.Option(min=0, help="Begin after so many seconds without sites that have not accepted.")
    ] = None,
) -> None:
    """For a consortium that runs NVIDIA FLARE: a job of three JSON files, without code. See docs/flare.md."""
    from hush.cli.run import configured, short
    from hush.experiment import config
    from hush.experiment.job import ALLOWED, exported
    from hush.federation.kit import read

    wanted = configured(experiment, config.given(set or []))
    name = short(experiment).removesuffix(".toml")
    sites = exported(folder, name, wanted, read(kit), deadline, wait)
    print(f"{folder}: a FLARE job of {name} for {', '.join(sites)}; it ships no code (byoc: none)")
    for party, classes in ALLOWED.items():
        print(f"class_allow_list of the {party}: {', '.join(classes)}")


def _pending(folder: Path) -> dict[str, Any] | None:
    """What there is to say of a request without an answer."""
    from hush.federation import enrolment

    if os.path.exists(folder / "kit.json") or not os.path.exists(folder / "request.json"):
        return None
    asked = enrolment.Request.read(folder / "request.json")
    return {"name": asked.name, "state": "requested, not yet accepted", "request": asked.fingerprint}


def _facts(folder: Path) -> dict[str, Any]:
    from hush.federation import certificates, kit

    found = kit.whole(folder)
    own = kit.certificate(found.certificate)
    facts: dict[str, Any] = {
        "name": found.name,
        "state": "valid" if certificates.timely(own, certificates.now()) else "not valid now",
        "host": found.host,
        "port": found.port,
        "federation": found.federation,
        "identity": certificates.identity_of(own).hex(),
        "valid_from": kit.shown(own.not_valid_before_utc),
        "valid_until": kit.shown(own.not_valid_after_utc),
        "simulation": found.simulation,
    }
    if found.coordinator:
        facts["roster"] = [
            {"name": one.name, "identity": one.key.hex(), "valid_until": kit.shown(one.until), "valid": valid}
            for one, valid, _ in kit.filed(found)
        ]
    return facts


def _compare(found: str, given: str | None, whose: str, question: str) -> None:
    """Go on only with the fingerprint that the other side read out."""
    from hush.federation.enrolment import check_fingerprint

    if given is not None:
        check_fingerprint(found, given)
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Mistake("--fingerprint is missing, and there is no terminal to ask on: give the one that was read out")
    typer.echo(f"fingerprint {whose}: {found}", err=True)
    if not typer.confirm(question, err=True):
        raise Mistake("the fingerprint was not confirmed, and nothing was written: ask the other side to read it out")


def _address(kit: "Kit") -> str:
    return f"[{kit.host}]:{kit.port}" if ":" in kit.host else f"{kit.host}:{kit.port}"


def _rehearsal(seed: int) -> str:
    return f"a rehearsal: every draw repeats from the seed {seed}, and nobody is protected"
