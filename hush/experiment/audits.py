"""audit.json in a run's directory: what attacks on the run found."""

import json
from collections.abc import Sequence
from pathlib import Path

from hush.data import files
from hush.errors import Mistake
from hush.experiment.report import page
from hush.privacy import findings
from hush.privacy.facts import Finding
from hush.privacy.shown import shown

FILE = "audit.json"


def read(run: Path) -> tuple[Finding, ...]:
    """What was found; nothing where no audit was run."""
    place = run / FILE
    if not place.exists():
        return ()
    try:
        return tuple(findings.parsed(one) for one in json.loads(place.read_bytes())["findings"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = str(error) if type(error) is ValueError else "its findings cannot be read"
        raise Mistake(
            f"{place} is damaged ({why}): delete it and run `hush audit {run}`, or restore it from a copy"
        ) from None


def sentence(run: Path) -> str:
    """What the canaries of a run showed."""
    found = read(run)[0]
    proven = "no epsilon is promised" if found.stated is None else f"{shown(found.stated)} is proven"
    least = "nothing" if found.shown < 0.01 else f"epsilon {findings.bound(found.shown)} or more"
    return f"{found.attack} show {least}, {proven}"


def wrong(run: Path) -> list[str]:
    """What else an audit found not to be as it should, in sentences."""
    place = run / FILE
    if not place.exists():
        return []
    try:
        return [str(one) for one in json.loads(place.read_bytes()).get("wrong", [])]
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        raise Mistake(f"{place} is damaged: delete it and run `hush audit {run}`, or restore it from a copy") from None


def write(run: Path, found: Sequence[Finding], wrong: Sequence[str] = ()) -> None:
    """Put them there in place of others; the run's page, where there is one, shows them then."""
    content = {"findings": [findings.written(one) for one in found], "wrong": list(wrong)}
    files.write(run / FILE, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    if (run / "report.html").exists():
        page.write(run)
