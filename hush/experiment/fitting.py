"""A run in one call of Python: `hush run`, with objects where a configuration has names."""

import re
import sys
import time
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hush.core.task import Task
from hush.data.registry import DataSet
from hush.data.samples import Split
from hush.errors import Mistake
from hush.experiment import audits, config, directory, own, population
from hush.experiment.config import Config
from hush.experiment.fronts import Own
from hush.experiment.given import Given, data_set, of_parts
from hush.experiment.journal import Row
from hush.experiment.model import FILE, Model
from hush.experiment.model import read as read_model
from hush.experiment.outcome import Outcome, clipping, result
from hush.experiment.places import transport
from hush.experiment.report.runs import Run as Shown
from hush.experiment.resolving import Experiment, build
from hush.experiment.settings import PYTHON
from hush.experiment.statement import facts
from hush.models.metrics import Score, evaluate
from hush.models.weights import flatten, loaded
from hush.privacy.card import audited, render
from hush.privacy.card import card as stated
from hush.privacy.ledger import Ledger

WAIT = 2.0  # seconds between two lines of progress
_OBJECTS = ("data.name", "scheme.name")  # which `fit` has as arguments
# Options in the sentences of the command line, by themselves or with a value, and what they are in Python.
_NAMES = "resume|secure|out|epsilon|delta|noise|clip|rounds|cohort|clients|ratio|sampling|seed|bits|model|data|exact"
_VALUE = r"[A-Z0-9](?:[\w.-]*\w)?|adaptive|public|paper|once|poisson|fixed"
_OPTIONS = (
    (r"(?<=[\s(])--(resume|secure|exact)(?=[\s,;:.)]|$)", r"\1=True"),
    (r"(?<=[\s(])--set \w+\.(\w+=)", r"\1"),
    (rf"(?<=[\s(])--({_NAMES}) ({_VALUE})(?=[\s,;:.)]|$)", r"\1=\2"),
    (rf"(?<=[\s(])--({_NAMES})(?=[\s,;:.)]|$)", r"\1"),
)


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """What a run leaves: a row per round, the privacy card, the trained network; `path`: its directory, if it has one.

    `config` is the resolved configuration, `notes` are for whoever reads the card.
    """

    config: Config
    rounds: list[Row]
    card: dict[str, Any]
    task: Task
    notes: tuple[str, ...]
    path: Path | None
    _experiment: Experiment
    _network: nn.Module | None

    def __repr__(self) -> str:
        """In a line, without the clients' rows: notebooks keep what they show."""
        last, words = self.rounds[-1], [self.config.scheme.name, f"{len(self.rounds)} rounds"]
        measure = last.get("measure")
        words += [f"{measure} {last[measure]:.4f}"] if measure in last and last[measure] is not None else []
        spent = [(view, value) for view, value in self.epsilon.items() if not view.endswith("_median")]
        words += [f"epsilon {value:.3g} ({view})" for view, value in spent if not isinstance(value, str)]
        words += [] if self.path is None else [f"in {self.path}"]
        return f"Run({', '.join(words)})"

    @cached_property
    def model(self) -> Model:
        """The trained model: takes raw inputs, and makes features of them where the scheme has some."""
        about = self._experiment.about
        assert about is not None
        return Model(self._trained, self._experiment.front, about, self.config.run.seed)

    @property
    def _trained(self) -> nn.Module:
        if self._network is None:
            raise Mistake("each client trains alone and has a model of its own: this scheme leaves no model of all")
        return self._network

    @cached_property
    def score(self) -> Score:
        """How good the model is on the test rows."""
        return evaluate(self.task, flatten(self._trained), workers=self.config.run.workers)

    @property
    def epsilon(self) -> dict[str, float | str]:
        """Epsilon per adversary after the last round; "none" without a guarantee."""
        return dict(self.rounds[-1]["epsilon"])

    @property
    def statement(self) -> str:
        """The privacy card as a page of text."""
        return render(self.card)

    def predict(self, inputs: object) -> Tensor:
        """The class of each row of raw inputs, or its outputs where the model gives numbers."""
        return self.model.predict(inputs)


def fit(
    data: object,
    scheme: str = "hush",
    *,
    split: Split | Iterable[list[int]] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
    **settings: Any,
) -> Run:
    """Train a scheme as `hush run` does, in one call.

    data: a Task with a network of one's own; or (train, test) or (train, test, public), each (inputs, targets) or a
    Dataset, or what `hush run --data` takes. scheme: a name of `hush schemes`, or file.py:function. split: who holds
    which rows, where the settings (clients, partition, ...) are not to say it. out: a directory as `hush run` leaves
    it, which `resume` goes on with; without it nothing is written. progress: a line on standard error now and then.
    settings: those of `hush settings` by name, as epsilon=2, delta=1e-5, rounds=40; features may be a function, from
    raw rows to rows of features.

    >>> run = fit("digits", "hush-tiny", epsilon=8, delta=1e-3, rounds=2)
    >>> round(run.epsilon["model"])
    8
    """
    try:
        return _fitted(data, scheme, split, out, resume, progress, settings)
    except Mistake as mistake:
        if type(mistake) is not Mistake:
            raise
        raise Mistake(_in_python(str(mistake))) from mistake.__cause__


def _in_python(sentence: str) -> str:
    """Options of the command line as keywords, but for commands, which stand in backticks, and names in quotes."""
    parts = re.split(r"(`[^`]*`|'[^']*')", sentence)
    for pattern, keyword in _OPTIONS:
        parts[::2] = [re.sub(pattern, keyword, part) for part in parts[::2]]
    return "".join(parts)


def _fitted(
    data: object,
    scheme: object,
    split: Any,
    out: str | Path | None,
    resume: bool,
    progress: bool,
    settings: dict[str, Any],
) -> Run:
    if not isinstance(scheme, str):
        raise Mistake(f"scheme={type(scheme).__name__} must be a name: a Scheme of your own trains with hush.rounds")
    if isinstance(settings.get("model"), nn.Module):
        raise Mistake("a network of your own comes with its task: give hush.fit(hush.Task(model, loss, ...), ...)")
    features = settings.get("features")
    if callable(features):
        settings["features"] = PYTHON
    if settings.get("secure") is True:
        settings["secure"] = "simulated"  # as --secure alone
    options = config.keywords(settings)
    for key in _OBJECTS:
        if key in options:
            raise Mistake(f"{key} is an argument of its own: write fit(data, scheme, ...)")
    given, named = _given(data, scheme, split, options)
    if callable(features):
        given = replace(given, features=Own(PYTHON, features))
    base = config.parse({"scheme": {"name": config.resolved(scheme)}}, "fit")
    wanted = config.over(base, {**options, **named}, "fit")
    if out is None and resume:
        raise Mistake("resume=True needs out, the directory of the run to go on with")
    if out is not None and resume and (Path(out) / "config.toml").exists() and wanted.run.engine is None:
        # Measured when the run began: measured again it might come out otherwise, and so would the last bits.
        wanted = config.over(wanted, {"run.engine": config.read(Path(out) / "config.toml").run.engine}, "fit")
    built = build(wanted, given=given)
    for sentence in [] if built.data is None else population.odd(built.data):
        warnings.warn(sentence, stacklevel=3)
    if out is None and built.config.run.canaries is not None:
        raise Mistake("what canaries show is kept in a directory: give out, or leave canaries out")
    return _trained(built, progress) if out is None else _kept(built, Path(out), resume, progress)


def _given(data: object, scheme: str, split: Any, options: dict[str, Any]) -> tuple[Given, dict[str, Any]]:
    """The objects, and the settings that stand for them."""
    named: dict[str, Any] = {}
    if isinstance(data, Task):
        if own.entry(scheme).featured:
            raise Mistake(
                f"{scheme} trains a linear head on public features, and the task has a network of its own: give"
                " hush.fit((task.train, task.test), ..., split=task.split) without one"
            )
        if data.test is None:
            raise Mistake("the task has no test data, by which a run is judged: give Task(test=...)")
        if split is not None:
            raise Mistake("split is given and the task has one: leave it out")
        split, named = data.split, {"model.name": PYTHON, "model.loss": PYTHON}
        rows = of_parts(PYTHON, data.train, data.test, data.public)
        found = Given(rows, data.model, data.loss, metrics=data.metrics)
        if data.metrics is not None:
            named["model.metrics"] = data.metrics if isinstance(data.metrics, str) else PYTHON
    elif isinstance(data, str | Path):
        return _dealt(Given(), split, {"data.name": config.resolved(str(data))}, options)
    else:
        if not isinstance(data, DataSet) and (not isinstance(data, tuple | list) or len(data) not in (2, 3)):
            raise Mistake(
                f"data of type {type(data).__name__} is not known: give a Task, (train, test) or (train, test, public),"
                " or the name of a set"
            )
        found = Given(data_set(data, PYTHON))
    assert found.data is not None
    population.checked(found.data)
    for key in named.keys() & options.keys():
        raise Mistake(f"{key} is given and the task has its own: leave it out")
    return _dealt(found, split, {"data.name": PYTHON, **named}, options)


def _dealt(found: Given, split: Any, named: dict[str, Any], options: dict[str, Any]) -> tuple[Given, dict[str, Any]]:
    if split is None:
        return found, named
    both = sorted({"data.partition", "data.clients", "data.column", "data.size"} & options.keys())
    if both:
        raise Mistake(f"{both[0]} is given and the split says who holds what: leave one of them out")
    dealt = split if isinstance(split, Split) else Split.of(split)
    return replace(found, split=dealt), {**named, "data.partition": "own"}


def _trained(built: Experiment, progress: bool) -> Run:
    """In memory."""
    task, ledger, rows = built.task, Ledger(), []
    assert isinstance(task, Task)
    clients, say = transport(built.config.run, built.engine, None).of(task), _Progress(built, progress)
    state = None
    for report, row in directory.trained(built, clients, ledger, dict.fromkeys(directory.BEST)):
        rows.append(row)
        say(row)
        state = report.state
    assert state is not None
    seen = Outcome(result(built, Shown(Path(), "", {}, rows)), clipping(built, state))
    card = stated(facts(built, state, ledger.events, seen))
    network = None if built.scheme.standalone else loaded(task.model, state.released)
    return Run(built.config, rows, card, task, built.notes, None, built, network)


def _kept(built: Experiment, path: Path, resume: bool, progress: bool) -> Run:
    """In a directory."""
    task, say = built.task, _Progress(built, progress)
    assert isinstance(task, Task)
    directory.open_directory(path, built.config, resume)
    for row in directory.execute(built, path):
        say(row)
    network = None
    if not built.scheme.standalone:
        network = loaded(task.model, flatten(task.model))
        network.load_state_dict(read_model(path / FILE)[1])
    card = Ledger.load(path / "privacy.json").card
    assert card is not None
    card = audited(card, audits.read(path), audits.wrong(path))
    return Run(built.config, directory.rows(path), card, task, built.notes, path, built, network)


class _Progress:
    """A line now and then, if it is wanted."""

    def __init__(self, built: Experiment, wanted: bool) -> None:
        self.total, self.wanted, self.due = built.config.run.rounds, wanted, 0.0

    def __call__(self, row: Row) -> None:
        if self.wanted and (time.monotonic() >= self.due or row["round"] == self.total):
            print(f"round {row['round']} of {self.total}, {row['seconds']:.1f} s", file=sys.stderr)
            self.due = time.monotonic() + WAIT
