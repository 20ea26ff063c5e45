"""hush client: a site of a real federation."""

from pathlib import Path
from typing import Annotated

import typer

from hush import __version__
from hush.cli.log import logger
from hush.cli.signals import stop_once
from hush.errors import Mistake, Stopped


def client(
    kit: Annotated[Path, typer.Option(help="This site's kit: see `hush federation`.")],
    data: Annotated[
        Path | None, typer.Option(help="This site's rows: an .npz, a schema.toml, a table or a folder of its files.")
    ] = None,
    accept: Annotated[str | None, typer.Option(metavar="DIGEST", help="Accept this charter, once.")] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the charter that the server offers, and stop.")] = False,
    policy: Annotated[Path | None, typer.Option(help="This site's rules; policy.toml of the kit if there.")] = None,
    code: Annotated[Path | None, typer.Option(help="A file with the model or loss that the charter names.")] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="A line of JSON for each event.")] = False,
) -> None:
    """Take part with this site's rows, which stay here. The same command again goes on after a stop."""
    from hush.federation.kit import read

    own = read(kit)
    if own.coordinator:
        raise Mistake(f"{kit} is the coordinator's kit: give this site's, or run hush server")
    if data is None and not show:
        raise Mistake("name this site's rows with --data, or look at the charter with --show")
    if data is not None and not data.exists():
        raise Mistake(f"{data} is not there: give this site's rows")
    say = logger("client", log_json, server=f"{own.host}:{own.port}")
    stop_once()
    from hush.experiment import client as site  # torch is slow to import: a wrong option is reported before
    from hush.experiment.rules import rules

    try:
        found = site.take_part(own, data, rules(own, policy), __version__, say, accept, code, show)
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command goes on") from None
    if show:
        print(found)
    else:
        say("over", why=found)


def second(
    kit: Annotated[Path, typer.Option(help="This party's kit: see `hush federation`.")],
    accept: Annotated[str | None, typer.Option(metavar="DIGEST", help="Accept this charter, once.")] = None,
    policy: Annotated[Path | None, typer.Option(help="This party's rules; policy.toml of the kit if there.")] = None,
    log_json: Annotated[bool, typer.Option("--log-json", help="A line of JSON for each event.")] = False,
) -> None:
    """Be the second server of sums in halves, which does not collude with the first."""
    from hush.federation.kit import read

    own = read(kit)
    if own.coordinator:
        raise Mistake(f"{kit} is the coordinator's kit: the second server has one of its own")
    say = logger("client", log_json, server=f"{own.host}:{own.port}")
    stop_once()
    from hush.experiment import client as site
    from hush.experiment.rules import rules

    try:
        say("over", why=site.help_out(own, rules(own, policy), __version__, say, accept))
    except KeyboardInterrupt:
        raise Stopped("stopped; the same command goes on") from None
