"""hush settings: what can be set, and what it is if it is not."""

import json as encoder
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from hush.experiment import listing
from hush.experiment.settings import SETTINGS, Config, Setting

_INTRODUCTION = """A run takes its settings from a TOML file (a table for each section below), options and `--set`:

```sh
hush run fl-top --data digits --ratio 0.02 --rounds 5 --set train.batch=20 --set run.eval_every=5
```

A default that is empty is found: from the scheme's paper, from the data, or by a measurement. `hush settings SCHEME`
lists what a scheme has, with its own defaults. This page is what `hush settings --markdown` prints."""


def settings(
    scheme: Annotated[str | None, typer.Argument(help="A scheme: those it has, with its own defaults.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", hidden=True, help="Print docs/settings.md.")] = False,
) -> None:
    """List every setting with its default and meaning: options and --set of `hush run`, keys of a TOML file."""
    found = list(SETTINGS.values()) if scheme is None else listing.settings(scheme)
    if json:
        rows = [{"key": one.key, "type": one.kind, "default": one.default, "help": one.help} for one in found]
        print(encoder.dumps(rows, indent=1))
        return
    if markdown:
        print(_page(found))
        return
    setting = Column("setting", no_wrap=True)  # it is to be typed
    table = Table(setting, "default", "type", "meaning", title="hush run ... --set SETTING=VALUE")
    before = found[0].table
    for one in found:
        if one.table != before:
            table.add_section()
        before = one.table
        table.add_row(one.key, "" if one.default is None else word(one.default), one.kind, one.help)
    Console().print(table)


def _page(found: list[Setting]) -> str:
    """The list as Markdown, a section for each table."""
    lines = ["# Settings", "", _INTRODUCTION]
    for name, field in Config.model_fields.items():
        lines += ["", f"## [{name}]", "", (field.annotation.__doc__ or "").split("\n")[0], ""]
        lines += ["| key | default | type | meaning |", "|---|---|---|---|"]
        for one in found:
            if one.table == name:
                kind = one.kind.replace("|", "\\|")
                lines.append(
                    f"| `{one.name}` | {'' if one.default is None else word(one.default)} | {kind} | {one.help} |"
                )
    return "\n".join(lines)


def word(value: Any) -> str:
    """A value as TOML has it, but for the quotes."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
