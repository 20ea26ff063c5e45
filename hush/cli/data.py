"""`hush data`: list, fetch and describe data sets."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer(help="List, fetch and describe data sets.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


@app.command("list")
def list_sets(as_json: Json = False) -> None:
    """The known sets, and whether each lies ready on this machine."""
    from hush.data.fetch import ready
    from hush.data.known import SETS

    rows = [
        {
            "name": known.name,
            "about": known.about,
            "ready": ready(known),
        }
        for known in SETS.values()
    ]
    if as_json:
        typer.echo(json.dumps({"sets": rows}))
        return
    table = Table("name", "what", "ready")
    for row in rows:
        table.add_row(str(row["name"]), str(row["about"]), "yes" if row["ready"] else "hush data fetch")
    Console().print(table)


@app.command("fetch")
def fetch_set(
    name: Annotated[str, typer.Argument(help="A known set: see `hush data list`.")],
    path: Annotated[Path | None, typer.Option(help="A folder that holds the files already.")] = None,
    as_json: Json = False,
) -> None:
    """Get a set's files from the nearest source, check them, and keep them in the cache."""
    from hush.data.fetch import fetch

    fetched = fetch(name, path)
    if as_json:
        folder = None if fetched.folder is None else str(fetched.folder)
        sizes = {file: len(content) for file, content in fetched.contents.items()}
        typer.echo(json.dumps({"name": name, "source": fetched.source, "folder": folder, "bytes": sizes}))
        return
    place = "" if fetched.folder is None else f", in {fetched.folder}"
    checked = ", every file's SHA-256 as known" if fetched.contents else ""
    typer.echo(f"{name}: {fetched.source}{place}{checked}")


@app.command("describe")
def describe(
    name: Annotated[str, typer.Argument(help="A known set, or the path of an .npz file.")],
    as_json: Json = False,
) -> None:
    """What a set holds: rows, shape, classes, label counts, columns, source, digest."""
    from hush.data.summary import summary

    facts = summary(name)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    table = Table("fact", "value", title=name)
    for fact, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}: {count}" for key, count in value.items()) or "none"
        table.add_row(fact.replace("_", " "), " x ".join(map(str, value)) if isinstance(value, list) else str(value))
    Console().print(table)
