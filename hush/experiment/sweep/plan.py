"""The runs that a sweep's file asks for: a base, a grid of settings over it, or a list of them."""

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hush.errors import Mistake
from hush.experiment import config
from hush.experiment.config import Config
from hush.experiment.settings import PATHS

SEED = "run.seed"
LONGEST = 120  # characters of a directory's name
Values = Mapping[str, Any]  # by setting, table.key


@dataclass(frozen=True)
class Point:
    """One run: what the file sets for it beside the base, and all that it is asked to do."""

    settings: Values
    config: Config
    name: str  # its directory, within that of the sweep

    @property
    def group(self) -> Values:
        """Its settings without the seed: runs that have these alike are repetitions."""
        return {key: value for key, value in self.settings.items() if key != SEED}


@dataclass(frozen=True)
class Sweep:
    """All runs of a file."""

    path: Path
    points: tuple[Point, ...]

    @property
    def varying(self) -> tuple[str, ...]:
        """The settings that are not the same in all runs, but for the seed."""
        keys = dict.fromkeys(key for point in self.points for key in point.group)
        values = {key: [point.settings.get(key) for point in self.points] for key in keys}
        return tuple(key for key, found in values.items() if any(value != found[0] for value in found))


def read(path: Path) -> Sweep:
    """The sweep of a TOML file; whatever is wrong in it is reported here, and nothing is run."""
    tables = config.load(path)
    experiment, grid, listed = (tables.pop(key, None) for key in ("experiment", "grid", "runs"))
    base = _base(path, experiment, tables)
    axes = _settings(path, "grid", {} if grid is None else grid)
    for key, values in axes.items():
        if not isinstance(values, list) or not values:
            raise Mistake(f"{path}: grid {key} = {values!r} must be a list of values: write [{values!r}]")
    if listed is not None and not (isinstance(listed, list) and listed):
        raise Mistake(f"{path}: runs must be tables of settings: write [[runs]] above each")
    if grid is None and listed is None:
        raise Mistake(f"{path} asks for one run: add [grid] or [[runs]], or take `hush run {path}`")
    ones = [_settings(path, "runs", one) for one in listed or [{}]]
    for key in axes.keys() & {key for one in ones for key in one}:
        raise Mistake(f"{path}: {key} is in [grid] and in [[runs]]: leave it out of one of them")
    every = [{**one, **some} for one in ones for some in _combined(axes)]
    keys = list(dict.fromkeys(key for settings in every for key in settings))
    points: dict[str, Point] = {}
    for settings in every:
        name = _name({SEED: base.run.seed, **settings} if SEED in keys else settings, keys)
        if name in points:
            raise Mistake(f"{path}: two runs are {name}: leave one of them out")
        points[name] = Point(settings, config.over(base, settings, f"{path}, {name}"), name)
    return Sweep(path, tuple(points.values()))


def check(sweep: Sweep) -> None:
    """Refuse what can be refused without data, for all runs before the first."""
    from hush.experiment import checks, own

    for point in sweep.points:
        try:
            checks.check(point.config, own.entry(point.config.scheme.name))
        except Mistake as mistake:
            raise Mistake(f"{point.name}: {mistake}") from None


def _base(path: Path, experiment: object, tables: dict[str, Any]) -> Config:
    """That of the file which `experiment` names, with the tables beside it over it."""
    own = config.parse(config.beside(tables, path.parent), str(path))
    if experiment is None:
        return own
    if not isinstance(experiment, str):
        raise Mistake(f"{path}: experiment = {experiment!r} must be a TOML file of `hush run`")
    given = own.model_dump(exclude_unset=True, exclude_none=True)
    flat = {f"{table}.{key}": value for table, keys in given.items() for key, value in keys.items()}
    return config.over(config.read(path.parent / experiment), flat, str(path))


def _settings(path: Path, where: str, given: object) -> dict[str, Any]:
    """Settings by their whole names, written "scheme.epsilon" or scheme.epsilon; files are found beside the sweep's."""
    if not isinstance(given, dict):
        raise Mistake(f"{path}: {where} must be a table of settings")
    found: dict[str, Any] = {}
    for key, value in given.items():
        found |= {f"{key}.{last}": one for last, one in value.items()} if isinstance(value, dict) else {key: value}
    for key, value in found.items():
        config.known(key, f"{path}, {where} {key}")
        if key in PATHS:
            several = [config.resolved(one, path.parent) for one in (value if isinstance(value, list) else [value])]
            found[key] = several if isinstance(value, list) else several[0]
    return found


def _combined(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def short(key: str, keys: Sequence[str]) -> str:
    """A setting without its table, where that is clear: epsilon for scheme.epsilon, scheme for scheme.name."""
    brief = [one.removesuffix(".name").rpartition(".")[2] for one in keys]
    found = key.removesuffix(".name").rpartition(".")[2]
    return found if brief.count(found) == 1 else key


def word(value: Any) -> str:
    """A value in a name or a table: of a path its end."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return Path(value).name if isinstance(value, str) and config.is_path(value) else str(value)


def _name(settings: Values, keys: Sequence[str]) -> str:
    """epsilon-1,ratio-0.02/seed-0: repetitions are in one folder, as those of `hush run --repeat`."""
    words = [f"{short(key, keys)}-{word(value)}" for key, value in settings.items() if key != SEED]
    name = re.sub(r"[^\w.,+%@-]", "-", ",".join(words))
    if len(name) > LONGEST:
        name = f"{name[:LONGEST]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    seed = [f"seed-{word(settings[SEED])}"] if SEED in settings else []
    return "/".join([name] * bool(name) + seed) or "run"
