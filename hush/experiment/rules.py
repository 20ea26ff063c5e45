"""A site's rules: policy.toml, what it insists on whatever a charter says."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hush.catalogue import entries
from hush.catalogue.settings import sentence
from hush.core.scheme import Scheme
from hush.errors import Mistake, Refused
from hush.federation.kit import Kit
from hush.federation.policy import Policy

Names = Annotated[tuple[str, ...], Field(strict=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Epsilon(_Table):
    """The most that is spent, by view."""

    server: Annotated[float, Field(gt=0)] | None = None
    colluding: Annotated[float, Field(gt=0)] | None = None
    upload: Annotated[float, Field(gt=0)] | None = None


class _File(_Table):
    """policy.toml: see docs/federation.md."""

    accept: Literal["ask", "rule"] = "ask"
    schemes: Names = ()
    noise: Annotated[float, Field(ge=0)] = 0.0
    share: Annotated[float, Field(ge=0)] = 0.0
    secure: bool = False
    clients: Annotated[int, Field(ge=0)] = 0
    corrupt: Share = 0.0
    rounds: Annotated[int, Field(ge=1)] | None = None
    epsilon: _Epsilon = _Epsilon()
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    columns: Names = ()
    rows: Annotated[int, Field(ge=1)] | None = None
    ledger: str | None = None


@dataclass(frozen=True)
class Rules:
    """What a site insists on.

    policy    for its sessions
    by_rule   a charter that keeps to all of this is accepted without --accept, if its roster is known; the first one
              that a site accepts makes its roster known, so that it is for the operator to look at that with --show
    schemes   the only ones, by name
    columns   of tables, the only ones that are used
    rows      at most so many records are used, the first ones
    ledger    what the site has spent over all runs with its data, if not in its kit
    """

    policy: Policy = Policy()
    by_rule: bool = False
    schemes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: int | None = None
    ledger: Path | None = None

    def check_scheme(self, scheme: Scheme) -> None:
        """Refuse a scheme that is made of other parts than those that are allowed."""
        if self.schemes and not any(_kind(scheme) == _kind(entries.entry(name).example) for name in self.schemes):
            raise Refused(f"the charter's scheme is none of {', '.join(self.schemes)}, which this site takes part in")

    def check_columns(self, wanted: tuple[str, ...]) -> None:
        """Refuse a schema that uses columns which this site does not offer."""
        other = [name for name in wanted if self.columns and name not in self.columns]
        if other:
            raise Refused(f"the charter uses the column {other[0]!r}, which this site does not offer")


def rules(own: Kit, path: Path | None) -> Rules:
    """Those of a file, of the kit's policy.toml if none is given, or none."""
    place = path or own.path / "policy.toml"
    if path is None and not place.exists():
        return Rules()
    try:
        found = _File.model_validate(tomllib.loads(place.read_text()))
    except OSError as error:
        raise Mistake(f"{place} cannot be read ({error.strerror}): give this site's policy.toml") from None
    except ValidationError as error:
        raise Mistake(sentence(error, str(place), _File.model_fields)) from None
    except ValueError as error:
        raise Mistake(f"{place} is not TOML: {error}") from None
    for name in found.schemes:
        entries.entry(name)
    policy = Policy(
        noise=found.noise,
        share=found.share,
        secure=found.secure,
        clients=found.clients,
        corrupt=found.corrupt,
        rounds=found.rounds,
        epsilon={view: most for view, most in found.epsilon.model_dump().items() if most is not None},
        delta=found.delta,
    )
    ledger = None if found.ledger is None else place.parent / found.ledger
    return Rules(policy, found.accept == "rule", found.schemes, found.columns, found.rows, ledger)


def _kind(scheme: Scheme) -> tuple[object, ...]:
    """What a scheme is made of, but for its numbers, its noise and how its uploads are added."""
    stages = {type(stage).__name__ for stage in scheme.stages} - _INTEGERS
    return type(scheme.trainer), type(scheme.coordinates), frozenset(stages), type(scheme.step)


# What a secure sum puts in the place of noise in floats.
_INTEGERS = {"Noise", "Rotate", "Quantise", "IntegerNoise", "FixedPoint"}
