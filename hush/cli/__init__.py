"""The command line: one file per command."""

import sys
from typing import Annotated

import typer

from hush import __version__
from hush.cli import compare, data, privacy, run, schemes
from hush.config import MODES
from hush.errors import Mistake

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("schemes")(schemes.schemes)
app.add_typer(privacy.app, name="privacy")
app.add_typer(data.app, name="data")
app.command("compare")(compare.compare)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Federated learning that says little and reveals less."""
    if version:
        print(f"hush {__version__}")
        raise typer.Exit


def _spelled(words: list[str]) -> list[str]:
    """--secure alone means --secure simulated: typer knows no option whose value may be left out."""
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        found += ["--secure", "simulated"] if word == "--secure" and following not in MODES else [word]
    return found


def main() -> None:
    """Run a command; a mistake ends with one sentence on standard error and status 2."""
    try:
        status = app(_spelled(sys.argv[1:]), standalone_mode=False)
    except (Mistake, typer.TyperException) as mistake:
        sentence = mistake.format_message() if isinstance(mistake, typer.TyperException) else str(mistake)
        if sentence:  # a bare `hush` has printed its help and has nothing to add
            print(f"hush: {sentence}", file=sys.stderr)
        status = 2
    except (KeyboardInterrupt, typer.Abort):
        print("hush: stopped; a run goes on with --resume", file=sys.stderr)
        status = 130
    sys.exit(status if isinstance(status, int) else 0)
