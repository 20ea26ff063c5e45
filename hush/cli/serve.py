"""hush serve: runs in a browser, live."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hush.cli.signals import stop_once

Runs = Annotated[
    list[Path] | None, typer.Argument(metavar="[RUNS]...", help="Directories with runs in them; runs if left out.")
]
Port = Annotated[int, typer.Option(min=0, max=65535, help="On 127.0.0.1; 0 takes any that is free.")]


def serve(runs: Runs = None, port: Port = 8320) -> None:
    """List and compare runs in a browser on this machine, as they go on. Ctrl-C ends it."""
    from hush.experiment.serve import server

    found = server(runs or [Path("runs")], port)
    stop_once()
    try:
        Console().print(f"{found.address} (Ctrl-C ends it)", highlight=False, markup=False, soft_wrap=True)
        found.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        pass
    finally:
        found.server_close()
