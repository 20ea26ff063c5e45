"""The command line, a file per command. May import experiment, federation, catalogue, privacy, data, random, errors."""

import contextlib
import os
import sys
from typing import Annotated

import typer

from hush import __version__
from hush.catalogue.settings import RENAMED
from hush.cli import (
    audit,
    client,
    compare,
    data,
    federation,
    predict,
    privacy,
    reproduce,
    run,
    schemes,
    serve,
    server,
    settings,
    sweep,
)
from hush.data import files
from hush.errors import Mistake, Stopped
from hush.experiment.settings import MODES, SETTINGS

INTERRUPTED = 130  # as shells have it for Ctrl-C

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run")(run.run)
app.command("predict")(predict.predict)
app.command("export")(predict.export)
app.command("schemes")(schemes.schemes)
app.command("settings")(settings.settings)
app.add_typer(privacy.app, name="privacy")
app.add_typer(audit.app, name="audit")
app.add_typer(data.app, name="data")
app.add_typer(federation.app, name="federation")
app.command("compare")(compare.compare)
app.command("serve")(serve.serve)
app.command("sweep")(sweep.sweep)
app.command("reproduce")(reproduce.reproduce)
app.command("server")(server.server)
app.command("client")(client.client)
app.command("second")(client.second)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"hush {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        # Its own callback, since the function's body waits for a command.
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Federated learning that says little and reveals less."""


def _spelled(words: list[str]) -> list[str]:
    """--secure alone means --secure simulated: typer knows no option whose value may be left out.

    `hush audit RUN` is `hush audit run RUN`.
    """
    if words[:1] == ["audit"] and words[1:] and words[1] not in audit.COMMANDS and not words[1].startswith("-"):
        return ["audit", "run", *words[1:]]
    if "--secure" not in words:
        return words
    found = []
    for number, word in enumerate(words, 1):
        following = words[number] if number < len(words) else ""
        found += ["--secure", "simulated"] if word == "--secure" and following not in MODES else [word]
    return found


def _as_setting(sentence: str) -> str:
    """What to write in place of an option of `hush run` that there is not, where it is a setting."""
    option = sentence.removeprefix("No such option: ").split()[0]
    found = [one for one in (*RENAMED, *SETTINGS) if one.partition(".")[2] == option[2:].replace("-", "_")]
    known = " or ".join(f"--set {RENAMED.get(key, key)}=VALUE" for key in found)
    return f"there is no option {option}: write {known}" if found else sentence


def main() -> None:
    """Run a command; a mistake ends with one sentence on standard error and status 2."""
    # Math threads that wait would spin, and take the cores from the workers that train. Before torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        status = app(_spelled(sys.argv[1:]), standalone_mode=False)
        sys.stdout.flush()
        sentence = "stopped" if status == INTERRUPTED else ""  # which typer makes of Ctrl-C
    except Stopped as stopped:
        sentence, status = str(stopped), INTERRUPTED
    except (KeyboardInterrupt, typer.Abort):
        sentence, status = "stopped", INTERRUPTED
    except (Mistake, typer.TyperException) as mistake:
        sentence = mistake.format_message() if isinstance(mistake, typer.TyperException) else str(mistake)
        if sys.argv[1:2] == ["run"] and sentence.startswith("No such option: "):
            sentence = _as_setting(sentence)
        status = 2 if sentence else 0  # a bare `hush` has printed its help and has nothing to add
    except OSError as error:
        if not files.full(error):
            raise
        sentence, status = f"{error.filename or 'a file'} cannot be written ({error.strerror}): make room for it", 2
        with contextlib.suppress(OSError):
            sys.stdout.close()  # it may be what has no room, and would be reported once more
    if sentence:
        print(f"hush: {sentence}", file=sys.stderr)
    sys.exit(status if isinstance(status, int) else 0)
