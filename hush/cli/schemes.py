"""hush schemes: the catalogue."""

import json as json_module
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from hush.experiment import listing


def schemes(
    name: Annotated[
        str | None,
        typer.Argument(help="One scheme, or file.py:function; all by default.", autocompletion=listing.beginning),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List what each scheme sends, protects and costs."""
    rows = [listing.about(one) for one in ([name] if name else listing.names())]
    if json:
        print(json_module.dumps(rows if name is None else rows[0], indent=1))
        return
    console = Console()
    if name is not None:
        for key, value in rows[0].items():
            console.print(f"[bold]{key}[/]: {value}", highlight=False)
        return
    table = Table(
        "scheme",
        "up",
        "down",
        "protects",
        "what travels",
        title=f"bits for each of the {listing.WEIGHTS:,} weights of the papers' image network,"
        " at the default ratio of 0.5 %",
    )
    for row in rows:
        up, down = f"{row['uplink_bits_per_weight']:.2f}", f"{row['downlink_bits_per_weight']:.2f}"
        table.add_row(row["name"], up, down, row["guarantee"], row["summary"])
    console.print(table)
