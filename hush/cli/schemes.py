"""hush schemes: the catalogue."""

import json as json_module
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

WEIGHTS = 1_663_370  # of the papers' image network, for bits per weight


def schemes(
    name: Annotated[str | None, typer.Argument(help="One scheme, or file.py:function; all by default.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """List what each scheme sends, protects and costs."""
    from hush.catalogue.entries import ENTRIES
    from hush.experiment.own import entry

    rows = [_describe(found) for found in ([entry(name)] if name else ENTRIES.values())]
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
        title=f"bits for each of the {WEIGHTS:,} weights of the papers' image network, at the default ratio of 0.5 %",
    )
    for row in rows:
        up, down = f"{row['uplink_bits_per_weight']:.2f}", f"{row['downlink_bits_per_weight']:.2f}"
        table.add_row(row["name"], up, down, row["guarantee"], row["summary"])
    console.print(table)


def _describe(found: Any) -> dict[str, Any]:
    """One entry as plain values; sizes come from the Spec that the parts themselves state."""
    import torch

    from hush.catalogue.values import Settings
    from hush.models.networks import cnn, head
    from hush.models.weights import Layout
    from hush.parts.stages import Clip

    settings = Settings(**{"clip": Clip(1.0), **found.settings, "noise": 1.0})  # any noise: it has no default
    scheme, shape = found.scheme(settings), torch.Size((1, 28, 28))
    model = head(torch.Size(((settings.features or 0) + 1,)), 10) if found.featured else cnn(shape, 10)
    sent = scheme.coordinates.count(Layout.of(model))
    spec, down = scheme.specs(sent)[-1], sent if scheme.coordinates.fixed else WEIGHTS
    return {
        "name": found.name,
        "summary": found.summary,
        "paper": found.paper,
        "guarantee": scheme.level or "none",
        "uplink_bits_per_weight": 0.0 if scheme.baseline else round(8 * spec.form.length(spec.size) / WEIGHTS, 4),
        "downlink_bits_per_weight": 0.0
        if scheme.baseline
        else round(8 * scheme.downlink.form.length(down) / WEIGHTS, 4),
        "coordinates": str(scheme.coordinates),
        "trainer": str(scheme.trainer),
        "stages": [type(stage).__name__ for stage in scheme.stages],
        "aggregator": str(scheme.aggregator),
        "step": str(scheme.step),
        "downlink": str(scheme.downlink),
        "average": scheme.average,
        "sampling": str(scheme.sampling),
    }
