"""What a run is asked to do, as TOML: every key has a type, and an unknown one is an error."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from hush.catalogue.settings import RENAMED, nearest, sentence
from hush.errors import Mistake
from hush.experiment.settings import PATHS, SETTINGS, Config

__all__ = [
    "Config",
    "beside",
    "changed",
    "dump",
    "given",
    "keywords",
    "known",
    "load",
    "over",
    "parse",
    "plain",
    "read",
    "resolved",
]


# What `hush run` calls some settings, beside the name that they have in their table.
OPTIONS = {
    "model": "model.name",
    "noise": "scheme.noise",
    "sampling": "sampling.kind",
    "secure": "secure.mode",
}


def parse(tables: dict[str, Any], where: str) -> Config:
    """A Config from tables of plain values; the first mistake is reported in one sentence."""
    for old, new in RENAMED.items():
        table, _, key = old.partition(".")
        if isinstance(tables.get(table), dict) and key in tables[table]:
            raise Mistake(f"{where}: {old} is now {new}: rename it")
    try:
        return Config.model_validate(tables)
    except ValidationError as error:
        raise Mistake(sentence(error, where, SETTINGS)) from None


def read(path: Path) -> Config:
    """A Config from a TOML file; functions and data files are found beside it."""
    return parse(beside(load(path), path.parent), str(path))


def load(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Mistake(f"{path} is not there: give a TOML file or the name of a scheme (`hush schemes`)") from None
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise Mistake(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None


def beside(tables: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same tables, with files found in this folder."""
    found = {name: dict(table) if isinstance(table, dict) else table for name, table in tables.items()}
    for path_key in PATHS:
        table, _, key = path_key.partition(".")
        held = found.get(table)
        if isinstance(held, dict) and key in held:
            held[key] = held[key] if Path(str(held[key])).is_absolute() else resolved(held[key], folder)
    return found


def over(base: Config, options: Mapping[str, Any], where: str) -> Config:
    """A Config with other settings, table.key, over its own."""
    tables = base.model_dump(exclude_unset=True, exclude_none=True)  # a scheme may have rounds of its own
    for setting, value in options.items():
        table, _, key = setting.partition(".")
        tables.setdefault(table, {})[key] = value
    for one, other in (("epsilon", "noise"), ("noise", "epsilon")):  # the file's other one gives way
        if f"scheme.{one}" in options and f"scheme.{other}" not in options:
            tables["scheme"].pop(other, None)
    return parse(tables, where)


def dump(config: Config) -> str:
    """The TOML of a Config; what is not set is left out."""
    return tomli_w.dumps({name: table for name, table in config.model_dump(exclude_none=True).items() if table})


def changed(old: Config, new: Config) -> str | None:
    """The first key in which two configurations differ, in words."""
    before, after = old.model_dump(), new.model_dump()
    if None in (old.scheme.epsilon, new.scheme.epsilon):  # the noise decides; older runs kept no epsilon
        before["scheme"].pop("epsilon")
    for table, keys in before.items():
        for key, value in keys.items():
            if after[table][key] != value and key != "workers":  # the numbers do not depend on how many there are
                return f"[{table}] {key} was {value} and is now {after[table][key]}"
    return None


def given(words: list[str]) -> dict[str, Any]:
    """What table.key=value words set: values as TOML writes them; a word that is not TOML is text."""
    found = {}
    for word in words:
        key, sign, text = (part.strip() for part in word.partition("="))
        if not sign:
            raise Mistake(f"--set {word} gives no value: write --set table.key=value")
        known(key, f"--set {key}")
        found[key] = resolved(plain(text)) if key in PATHS else plain(text)
    return found


def keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by their names alone, or as the command line's options call them, by table.key; None is not given."""
    found = {}
    for name, value in settings.items():
        alike = [key for key in SETTINGS if key.partition(".")[2] == name]
        key = OPTIONS.get(name) or (alike[0] if len(alike) == 1 else name)
        if len(alike) > 1 and key == name:
            raise Mistake(f"{name} is a setting of several tables: give **{{'{alike[0]}': ...}} or another of {alike}")
        if key not in SETTINGS:
            bare = [one.partition(".")[2] for one in SETTINGS]
            hint = nearest(name, [*OPTIONS, *bare])
            old = {old.partition(".")[2]: new.partition(".")[2] for old, new in RENAMED.items()}
            hint = f"it is now {old[name]}; " if name in old else hint
            raise Mistake(f"{name}={value!r}: there is no such setting: {hint}`hush settings` lists all")
        if value is not None:
            found[key] = resolved(value) if key in PATHS else value
    return found


def known(key: str, where: str) -> None:
    """Refuse a setting that there is not."""
    if key in RENAMED:
        raise Mistake(f"{where}: it is now {RENAMED[key]}: rename it")
    if key not in SETTINGS:
        whole = [one for one in SETTINGS if one.partition(".")[2] == key]
        hint = f"did you mean {whole[0]}? " if whole else nearest(key, SETTINGS)
        raise Mistake(f"{where}: there is no such setting: {hint}`hush settings` lists all")


def plain(text: str | None) -> Any:
    """What a word of the command line is in TOML; a word that is not TOML is text."""
    if text is None:
        return None
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except ValueError:
        return text
    return value


def resolved(value: Any, folder: Path = Path()) -> Any:
    """A path, found from this folder, as it is from anywhere; all else as it is."""
    return str((folder / value).resolve()) if isinstance(value, str) and is_path(value) else value


def is_path(value: str) -> bool:
    """Whether a name is that of a file, or of a function in one."""
    return value.endswith((".npz", ".toml")) or ".py:" in value
