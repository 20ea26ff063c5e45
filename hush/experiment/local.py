"""hush.toml in the folder local/ of a FLARE server or client: what its operator says, and no job does."""

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from hush.catalogue.settings import sentence
from hush.errors import Mistake

FILE = "hush.toml"


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    kit: str = ""


class Hosting(_Table):
    """[server]: its kit, the directory of runs (in the kit if not given) and test rows, if other than the job's."""

    out: str | None = None
    data: str | None = None


class Taking(_Table):
    """[site]: what hush client is given as options."""

    data: str = ""
    policy: str | None = None
    accept: str | None = None
    code: str | None = None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    server: Hosting | None = None
    site: Taking | None = None


def hosting(folder: Path) -> Hosting:
    """What the operator of the server says."""
    found = _read(folder).server
    if found is None or not found.kit:
        raise Mistake(f"{folder / FILE} names no kit in a table [server]: name the coordinator's")
    return found


def taking(folder: Path) -> Taking:
    """What the operator of a site says."""
    found = _read(folder).site
    if found is None or not found.kit or not found.data:
        raise Mistake(f"{folder / FILE} names no kit or no data in a table [site]: name this site's")
    return found


def placed(folder: Path, text: str, name: str) -> Path:
    """A path of the file: {name} is the party's, and it is found beside the file."""
    return folder / text.replace("{name}", name)


def _read(folder: Path) -> _File:
    place = folder / FILE
    try:
        return _File.model_validate(tomllib.loads(place.read_text()))
    except OSError as error:
        raise Mistake(f"{place} cannot be read ({error.strerror}): write it, see docs/flare.md") from None
    except ValidationError as error:
        known = [
            f"{table}.{key}" for table, kind in (("server", Hosting), ("site", Taking)) for key in kind.model_fields
        ]
        raise Mistake(sentence(error, str(place), known)) from None
    except ValueError as error:
        raise Mistake(f"{place} is not TOML: {error}") from None
