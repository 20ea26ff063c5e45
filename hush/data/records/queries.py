"""Rows of a database by a query: DuckDB, SQLite, or what SQLAlchemy knows; needs the extra `tables`.

Who reads a database has a password for it: it comes from the environment, and no message, log or file has it.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import UUID

import polars as pl

from hush.errors import Mistake

if TYPE_CHECKING:
    from hush.data.records.schema import Schema

_PLAIN = (str, int, float, Decimal, datetime.date, UUID)  # a bool is an int, a datetime a date
Rows = tuple[list[str], Sequence[Sequence[Any]]]
Answers = Mapping[tuple[str, str], pl.DataFrame]  # by database and query


def ask(schema: Schema) -> Answers:
    """The answer to each query of a schema, asked once: what is counted, kept and trained on is one answer."""
    sources = [source for source in (schema.main, *schema.codes) if source.query is not None]
    return {(str(one.database), str(one.query)): answer(str(one.database), str(one.query)) for one in sources}


def answer(database: str, query: str) -> pl.DataFrame:
    """What the query gives, as text, in the order of its values: a database promises no other.

    database  a file of DuckDB or SQLite, $NAME for an address in the environment, or an address without a password
    query     the text, or a file that ends in .sql
    """
    names, rows = _asked(database, _text(query))
    if len(set(names)) < len(names):
        twice = next(name for number, name in enumerate(names) if name in names[:number])
        raise Mistake(f"the query gives two columns {twice!r}: rename one with AS")
    columns = [pl.Series(name, *_column([row[n] for row in rows])) for n, name in enumerate(names)]
    found = pl.DataFrame(columns)
    texts = [name for name, kind in found.schema.items() if kind == pl.String]
    return found.sort(texts) if texts else found


def digest(found: pl.DataFrame) -> str:
    """SHA-256 of an answer."""
    texts = found.select(pl.col(pl.String))
    return hashlib.sha256(repr(texts.columns).encode() + texts.write_csv(null_value="\0").encode()).hexdigest()


def _text(query: str) -> str:
    if not query.endswith(".sql"):
        return query
    try:
        return Path(query).read_text()
    except (OSError, UnicodeDecodeError):
        raise Mistake(f"query = {query!r} cannot be read: give a file of SQL, or the query itself") from None


def _asked(database: str, query: str) -> Rows:
    address = _address(database)
    try:
        if "://" in address:
            return _by_address(address, query)
        return _by_file(Path(address), query, database)
    except Mistake:
        raise
    except ImportError as error:
        if "hush-fl" in str(error):
            raise Mistake(str(error)) from None
        raise Mistake(
            f"the database {database} takes {error.name or 'a driver'}, which is not installed: pip install it"
        ) from None
    except Exception as error:  # each driver has its own; some put the address and its password in the text
        raise Mistake(
            f"the database {database} did not answer the query ({_harmless(error, address)}): correct the query, or the"
            " address"
        ) from None


def _address(database: str) -> str:
    if not database.startswith("$"):
        return database
    name = database[1:]
    if not os.environ.get(name):
        raise Mistake(f"database = {database!r}, and the environment has no {name}: set it to the database's address")
    return os.environ[name]


def _harmless(error: Exception, address: str) -> str:
    """The first line of an error, unless it has a part of the address."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    parts = [part for part in re.split(r"[:/@?&=]+", address) if len(part) > 2] if "://" in address else []
    return type(error).__name__ if any(part.lower() in line.lower() for part in parts) else line


def _by_file(path: Path, query: str, shown: str) -> Rows:
    if not path.is_file():
        raise Mistake(f"the database {shown} is not there: paths are read from the folder of the schema")
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(b"SQLite format 3"):
        return _by_address(f"sqlite:///file:{quote(str(path))}?mode=ro&uri=true", query)
    try:
        import duckdb
    except ImportError:
        raise ImportError(_extra(path.name, "duckdb")) from None
    with duckdb.connect(str(path), read_only=True) as connection:
        cursor = connection.execute(query)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()


def _by_address(address: str, query: str) -> Rows:
    try:
        import sqlalchemy
    except ImportError:
        raise ImportError(_extra("a database", "SQLAlchemy")) from None
    engine = sqlalchemy.create_engine(address, hide_parameters=True)
    try:
        with engine.connect() as connection:  # never committed: a query changes nothing
            found = connection.execution_options(no_parameters=True).exec_driver_sql(query)
            return list(found.keys()), [tuple(row) for row in found]
    finally:
        engine.dispose()


def _extra(what: str, package: str) -> str:
    return f"{what} takes {package}: pip install 'hush-fl[tables]', or export the table as CSV"


def _column(values: list[Any]) -> tuple[list[Any], Any]:
    """The values as text; a column of anything else (bytes, lists, durations) cannot be used, and says so if named."""
    if all(value is None or isinstance(value, _PLAIN) for value in values):
        return [None if value is None or value != value else _written(value) for value in values], pl.String()
    return [None] * len(values), pl.Binary()


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        near = float(value)
        return str(int(value)) if abs(near) < 2**53 and near.is_integer() else str(value)
    return str(value)
