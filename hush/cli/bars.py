"""Bars of what takes its time, on standard error; a log gets a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.status import Status

from hush.experiment.parallel import facts as measured_of
from hush.privacy.shown import shown

QUIET = 30.0  # seconds between two lines of a log
EVERY = 10.0  # the same of one training
SOON = 2.0  # seconds before the first one, of a count
Count = Callable[[int, int], None]  # how many of how many are done
Say = Callable[[str, str, int, int], None]  # of a run: its name, what it does, how many rounds of how many are done


@contextmanager
def bars(total: int) -> Iterator[Say]:
    """Says how far each of so many runs is; "done" ends its bar."""
    notes = Console(stderr=True)
    known: dict[str, TaskID] = {}
    reported: dict[str, float] = {}
    with bar(notes) as progress:
        whole = progress.add_task("runs", total=total, facts="")

        def say(name: str, facts: str, done: int, total: int) -> None:
            if facts == "done":
                progress.advance(whole)
                if name in known:
                    progress.remove_task(known.pop(name))
                return
            if name not in known:
                known[name] = progress.add_task(name, total=total or None, facts=facts)
            progress.update(known[name], completed=done, total=total or None, facts=facts)
            if not notes.is_terminal and time.monotonic() - reported.get(name, -QUIET) >= QUIET:
                notes.print(f"{name}: round {done} of {total}  {facts}" if total else f"{name}: {facts}")
                reported[name] = time.monotonic()

        yield say


@contextmanager
def counted(what: str) -> Iterator[Count]:
    """Says how far a count is."""
    notes, due = Console(stderr=True), time.monotonic() + SOON
    if not notes.is_terminal:

        def line(done: int, total: int) -> None:
            nonlocal due
            if time.monotonic() > due:
                notes.print(f"{what}: {done:,} of {total:,}", highlight=False, markup=False, soft_wrap=True)
                due = time.monotonic() + QUIET

        yield line
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=notes, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def told(notes: Console, status: Status) -> Callable[[str], None]:
    """Says a sentence: on a terminal in place of the one before, in a log as a line now and then."""
    due = time.monotonic() + SOON

    def say(sentence: str) -> None:
        nonlocal due
        if notes.is_terminal:
            status.update(escape(sentence))
        elif time.monotonic() > due:
            notes.print(sentence, highlight=False, markup=False, soft_wrap=True)
            due = time.monotonic() + EVERY

    return say


def bar(console: Console) -> Progress:
    """The bar of a training, with what it says beside its length."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}"),
        console=console,
    )


def facts_of(row: dict[str, Any]) -> str:
    """What the bar says besides its length."""
    spent = row["epsilon"]["model"]
    words = [f"{row['seconds']:.1f} s/round"]
    measured = measured_of(row, row["measure"])
    words += [measured] if measured else []
    words.append("no guarantee" if isinstance(spent, str) else f"epsilon {shown(spent)}")
    return "  ".join(words)
