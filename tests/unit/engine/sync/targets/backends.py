"""The targets of the contract suite: how each is opened, and how its rows are read without the code under test."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import pathlib
import re
import shutil
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import penstock
from penstock.engine.sync.job import parse_target
from penstock.engine.sync.targets.open import open_target
from penstock.engine.sync.targets.target import Target
from penstock.table.schema.avro import META_COLUMNS
from tests.postgres_server import PostgresServer

KINDS: Final = ("duckdb", "postgresql", "delta", "parquet", "hudi")


class Backend(Protocol):
    """A kind of target."""

    url: str
    """The URL of an empty target."""
    refused: str
    """Characters that names of its columns cannot have."""

    def rows(self, table: str, columns: pa.Schema) -> list[tuple[Any, ...]]:
        """The rows of a table as Python values, in any order."""
        ...

    def held(self, value: Any, type_: pa.DataType) -> Any:
        """The form in which `rows` returns a value."""
        ...

    def drop(self, table: str) -> None:
        """Removes a table, as a user does."""
        ...


def opened(backend: Backend) -> Target:
    """A new object for the target."""
    return open_target(parse_target("test", backend.url))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class InDuckDB:
    """A DuckDB file."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._path = folder / "copy.db"
        self.url, self.refused = f"duckdb:///{self._path}", ""

    def rows(self, table: str, columns: pa.Schema) -> list[tuple[Any, ...]]:
        import duckdb

        with duckdb.connect(str(self._path)) as connection:
            connection.execute("SET TimeZone = 'UTC'")
            reader = connection.sql(f"SELECT {', '.join(map(_quoted, columns.names))} FROM {_quoted(table)}")
            return _tuples(reader.to_arrow_table(), columns)

    def held(self, value: Any, type_: pa.DataType) -> Any:
        return value

    def drop(self, table: str) -> None:
        import duckdb

        with duckdb.connect(str(self._path)) as connection:
            connection.execute(f"DROP TABLE {_quoted(table)}")


class InDelta:
    """A folder of Delta tables."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder / "lake"
        self.url, self.refused = f"delta:///{self._folder}", " ,;{}()\n\t=`\"'\\"

    def rows(self, table: str, columns: pa.Schema) -> list[tuple[Any, ...]]:
        from deltalake import DeltaTable

        found = DeltaTable(self._folder.joinpath(table).absolute().as_uri()).to_pyarrow_table()
        assert found.schema.names == columns.names
        return _tuples(found, columns)

    def held(self, value: Any, type_: pa.DataType) -> Any:
        if isinstance(value, dt.time):
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
        return value

    def drop(self, table: str) -> None:
        shutil.rmtree(self._folder / table)


class InParquet:
    """A folder of Parquet tables, read with the query of docs/reference/sync-targets.md."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder / "lake"
        self.url, self.refused = f"parquet:///{self.folder}", ""

    def rows(self, table: str, columns: pa.Schema) -> list[tuple[Any, ...]]:
        import duckdb

        folder = str(self.folder / table)
        manifest = json.loads((self.folder / table / "manifest.json").read_text())
        same = " AND ".join(f"r.{_quoted(name)} IS NOT DISTINCT FROM d.{_quoted(name)}" for name in manifest["key"])
        setting, selection = documented_queries()
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET VARIABLE t = $t", {"t": folder})
            connection.execute(setting)
            conditions = "r.order_id IS NOT DISTINCT FROM d.order_id AND r.country IS NOT DISTINCT FROM d.country"
            assert conditions in selection
            found = connection.sql(selection.replace(conditions, same)).to_arrow_table()
        assert set(found.schema.names) == set(columns.names)
        return _tuples(found, columns)

    def held(self, value: Any, type_: pa.DataType) -> Any:
        return value

    def drop(self, table: str) -> None:
        shutil.rmtree(self.folder / table)


def documented_queries() -> list[str]:
    """The statements of the documentation: the files of the manifest, and their rows."""
    page = pathlib.Path(__file__).parents[5] / "docs" / "reference" / "sync-targets.md"
    queries = re.findall(r'duckdb\.sql\("""(.*?)"""\)', page.read_text(), re.DOTALL)
    assert len(queries) == 2
    return queries


class InHudi:
    """A folder of Hudi tables, read by Penstock; `tests/interop/test_sync_to_hudi.py` reads them by Hudi."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder / "lake"
        self.url, self.refused = f"hudi:///{self.folder}?buckets=2", " ,;{}()-"

    def rows(self, table: str, columns: pa.Schema) -> list[tuple[Any, ...]]:
        found = penstock.read(str(self.folder / table)).read_all()
        assert set(found.schema.names) == {*META_COLUMNS, *columns.names, "_hoodie_is_deleted"}
        assert not pc.any(found["_hoodie_is_deleted"]).as_py()
        return _tuples(found, columns)

    def held(self, value: Any, type_: pa.DataType) -> Any:
        return value

    def drop(self, table: str) -> None:
        shutil.rmtree(self.folder / table)


class InPostgreSQL:
    """A schema of its own in a server. Values are read as text, which no driver converts."""

    def __init__(self, server: PostgresServer, schema: str) -> None:
        self.server, self._schema = server, schema
        self.url, self.refused = server.url(query=f"?schema={schema}"), ""

    def rows(self, table: str, columns: pa.Schema) -> list[tuple[Any, ...]]:
        from adbc_driver_postgresql import dbapi

        names = ", ".join(f"{_quoted(one.name)}::text" for one in columns)
        with dbapi.connect(self.server.url(), autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET timezone = 'UTC'")
            cursor.execute(f"SELECT {names} FROM {_quoted(self._schema)}.{_quoted(table)}")
            found = cursor.fetchall()
        return [tuple(_parsed(text, one.type) for text, one in zip(row, columns, strict=True)) for row in found]

    def held(self, value: Any, type_: pa.DataType) -> Any:
        if value is None:
            return None
        if pa.types.is_nested(type_):
            return _json(value, type_)
        if isinstance(value, dt.date | dt.time):
            return _iso(value)
        return value

    def drop(self, table: str) -> None:
        from adbc_driver_postgresql import dbapi

        with dbapi.connect(self.server.url(), autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP TABLE {_quoted(self._schema)}.{_quoted(table)}")


def _iso(value: dt.date | dt.time) -> str:
    text = value.isoformat(" ") if isinstance(value, dt.datetime) else value.isoformat()
    return re.sub(r"(\.\d*?)0+(?=\+|$)", r"\1", text).replace("+00:00", "+00")


def _parsed(text: str | None, type_: pa.DataType) -> Any:
    """The value of PostgreSQL's text."""
    if text is None:
        return None
    if pa.types.is_boolean(type_):
        return {"true": True, "false": False}[text]
    if pa.types.is_integer(type_):
        return int(text)
    if pa.types.is_floating(type_):
        return pa.scalar(float(text), type_).as_py()
    if pa.types.is_decimal(type_):
        return pa.scalar(text).cast(type_).as_py()
    if pa.types.is_binary(type_):
        assert text.startswith("\\x")
        return bytes.fromhex(text[2:])
    return json.loads(text, parse_float=_number, parse_int=_number) if pa.types.is_nested(type_) else text


def _number(text: str) -> decimal.Decimal:
    """The number; jsonb has no negative zero."""
    context = decimal.Context(prec=400)
    return context.plus(context.create_decimal(text)).normalize(context)


def _json(value: Any, type_: pa.DataType) -> Any:
    """The JSON of a value, written a second time, one value at a time."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {key: _json(one, type_.item_type) for key, one in value}
    if pa.types.is_list(type_):
        return [_json(one, type_.value_type) for one in value]
    if pa.types.is_struct(type_):
        return {one.name: _json(value[one.name], one.type) for one in type_.fields}
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, dt.time):
        return value.isoformat(timespec="microseconds")
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return _number(str(np.float32(value)) if type_ == pa.float32() else str(value))


def canonical(value: Any) -> Any:
    """One form for equal values: of a map in any order, of a time in UTC."""
    if isinstance(value, dict):
        return sorted((key, canonical(one)) for key, one in value.items())
    if isinstance(value, list | tuple):
        return [canonical(one) for one in value]
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) and value.tzinfo else value


def _tuples(table: pa.Table, columns: pa.Schema) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in columns.names) for row in table.select(columns.names).to_pylist()]
