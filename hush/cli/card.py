"""hush privacy card: the one-page statement of a run, to read, to print, to sign and to check."""

import json
from pathlib import Path
from typing import Annotated

import typer

from hush.errors import Mistake


def card(
    run: Annotated[Path, typer.Argument(help="Folder of a run; with --verify, a signed card.json.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write one page of A4 to print, with lines to sign on, to this file.")
    ] = None,
    sign: Annotated[
        Path | None,
        typer.Option("--sign", help="The coordinator's kit: sign with the server's key; card.json, card.sig in RUN."),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option("--verify", help="Check a signed card: the server's cert.pem, any party's kit, or the key."),
    ] = None,
) -> None:
    """The one-page privacy statement of a run, computed anew from its ledger and configuration."""
    from hush.data import files
    from hush.experiment import signing
    from hush.experiment import verify as verified
    from hush.experiment.report.card import document
    from hush.privacy.card import render

    if sign is not None and verify is not None:
        raise Mistake("--sign and --verify exclude each other: sign a run's card, then verify the file")
    if verify is not None:
        found = signing.verify(run, verify)
    elif run.is_file():
        raise Mistake(f"{run} is a file: name the folder of a run, or give --verify with the server's certificate")
    else:
        found = verified.card(run, lambda line: typer.echo(line, err=True))
    try:
        text = render(found)
        if sign is not None:
            found = signing.sign(found, sign, run)
            text = render(found)
        page = None if html is None else document(found)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, Mistake):
            raise
        raise Mistake(f"{run} holds a card that cannot be read: restore privacy.json from a copy") from None
    if html is not None and page is not None:
        try:
            files.write(html, page.encode())
        except OSError as error:
            raise Mistake(f"{html} cannot be written ({error.strerror}): choose another file") from None
        typer.echo(f"written: {html}", err=True)
    print(json.dumps(found) if as_json else text, end="\n" if as_json else "")
    if verify is not None:
        typer.echo(f"signed by the owner of that key on {found['signed']['at']}", err=True)
