"""Where the rows of a table come from, and how they are written: a part of the schema."""

from __future__ import annotations

import codecs
import re
from typing import Annotated, Literal
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, model_validator

Value = str | int | float | bool
# TOML has lists; frozen values have tuples.
Values = Annotated[tuple[Value, ...], Field(strict=False)]
Names = Annotated[tuple[str, ...], Field(strict=False)]


def written(value: Value) -> str:
    """A value of the schema as a table's text is compared with it: 1.0 is 1, and 2.50 is 2.5."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return re.sub(r"^\+?(-?\d+)(?:\.0*|(\.\d*?[1-9])0*)$", r"\1\2", str(value).strip())


class Described(BaseModel):
    """A table of the schema's TOML."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Sign = Literal[".", ","]
ALL = "*"  # as a key of missing: every column
_SECRET = re.compile(r"://[^@]*:[^@]*@|(pass\w*|pwd|secret\w*|token\w*|\w*key\w*)\s*=", re.I)


class Source(Described):
    """A file, a folder of files or a pattern such as codes/*.parquet; or a query to a database.

    `columns` names those of files without a header. `missing` lists what stands for "not known", for all columns or by
    column; `decimal` is the decimal sign of numbers that are written as text, for all files or by the file's name.
    `separator` and `encoding` are those of text; without them hush looks for the first, and takes UTF-8.
    """

    path: str | None = None
    columns: Names | None = None
    separator: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    encoding: str | None = None
    sheet: str | None = None
    decimal: Sign | dict[str, Sign] = "."
    missing: Values | dict[str, Values] = ()
    database: str | None = None
    query: str | None = None

    @model_validator(mode="after")
    def _placed(self) -> Source:
        # No value is repeated here: an address may hold a password.
        if self.path is not None and "://" in self.path:
            raise ValueError("path is the address of a database: give database and query in its place")
        if (self.path is None) == (self.database is None) or (self.database is None) != (self.query is None):
            raise ValueError("give the path of a table, or a database and a query")
        if self.database is not None and _SECRET.search(unquote(self.database)):
            raise ValueError(
                "database holds a password: put the address in a variable of the environment, such as HOSPITAL_DB,"
                " and write database = '$HOSPITAL_DB'"
            )
        return self

    @model_validator(mode="after")
    def _written(self) -> Source:
        if self.columns is not None and len(set(self.columns)) < len(self.columns):
            twice = next(name for number, name in enumerate(self.columns) if name in self.columns[:number])
            raise ValueError(f"columns has {twice!r} twice: rename one")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise ValueError(f"encoding = {self.encoding!r} is not known: say 'cp1252' or 'latin-1'") from None
        return self


class Main(Source):
    """The table with one row per admission. Labels are 0, 1, ... or 1 for the values in `positive`.

    With `negative` a label that is in neither list is refused; without it every other one is 0. `client` is a column,
    or "file" or "folder" where the name of the row's file or of its folder says whose it is.
    """

    id: str | None = None
    client: str
    label: str
    positive: Values | None = None
    negative: Values | None = None
    patient: str | None = None
    unlabelled: Literal["refuse", "drop"] = "refuse"

    @model_validator(mode="after")
    def _signs(self) -> Main:
        if self.negative is not None and self.positive is None:
            raise ValueError("negative needs positive, the values that count as 1")
        both = {written(value) for value in self.positive or ()} & {written(value) for value in self.negative or ()}
        if both:
            raise ValueError(f"{min(both)!r} is positive and negative: take it out of one")
        return self


class Codes(Source):
    """A table with one row per admission, day and code; only rows of day `day_is` count."""

    admission: str
    code: str
    day: str | None = None
    day_is: int = 1
    prefix: str = ""
