"""What a run is asked to do, as TOML: every key has a type, and an unknown one is an error."""

import tomllib
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import ValidationError

from hush.catalogue.settings import RENAMED, nearest, sentence
from hush.errors import Mistake
from hush.experiment.settings import PATHS, SETTINGS, Config

__all__ = ["Config", "changed", "dump", "given", "parse", "plain", "read", "resolved"]


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
    try:
        tables = tomllib.loads(path.read_text())
    except FileNotFoundError:
        raise Mistake(f"{path} is not there: give a TOML file or the name of a scheme (`hush schemes`)") from None
    except ValueError as error:  # not UTF-8, not TOML, or a number of thousands of digits
        raise Mistake(f"{path} is not TOML: {error}") from None
    except OSError as error:
        raise Mistake(f"{path} cannot be read: {error.strerror}") from None
    for path_key in PATHS:
        table, _, key = path_key.partition(".")
        value = tables.get(table, {}).get(key) if isinstance(tables.get(table), dict) else None
        if isinstance(value, str) and is_path(value) and not Path(value).is_absolute():
            tables[table][key] = str((path.parent / value).resolve())
    return parse(tables, str(path))


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
        if key in RENAMED:
            raise Mistake(f"--set {key}: it is now {RENAMED[key]}: rename it")
        if key not in SETTINGS:
            whole = [one for one in SETTINGS if one.partition(".")[2] == key]
            hint = f"did you mean {whole[0]}? " if whole else nearest(key, SETTINGS)
            raise Mistake(f"--set {key}: there is no such setting: {hint}`hush settings` lists all")
        found[key] = resolved(plain(text)) if key in PATHS else plain(text)
    return found


def plain(text: str | None) -> Any:
    """What a word of the command line is in TOML; a word that is not TOML is text."""
    if text is None:
        return None
    try:
        (value,) = tomllib.loads(f"value = {text}").values()
    except ValueError:
        return text
    return value


def resolved(value: Any) -> Any:
    """A path as it is from anywhere; all else as it is."""
    return str(Path(value).resolve()) if isinstance(value, str) and is_path(value) else value


def is_path(value: str) -> bool:
    """Whether a name is that of a file, or of a function in one."""
    return value.endswith((".npz", ".toml")) or ".py:" in value
