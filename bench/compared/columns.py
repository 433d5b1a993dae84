"""Columns of the bench's tables, and a fingerprint of rows that Spark SQL and Arrow compute alike.

A fingerprint is (rows, sum of the CRC-32 of each row's text): it does not depend on the order of rows, and it covers
which values share a row. Floating-point values are multiples of 0.25 and decimals have two digits, so that their text
is exact in both.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NULL = "~"
IMAGE = ("key", "ts", "n", "k", "name")
"""Compared fields of a change's images: those that Hudi and Penstock write as equal JSON text."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a bench table."""

    name: str
    """Column name."""
    kind: str
    """A key of `SQL_TEXT`."""
    sql: str
    """The value as Spark SQL over `id` and the write's `{ts}` and `{salt}`."""


SQL_TEXT = {
    "string": "{0}",
    "int": "cast({0} AS string)",
    "long": "cast({0} AS string)",
    "float": "cast(cast(round({0} * 4) AS bigint) AS string)",
    "double": "cast(cast(round({0} * 4) AS bigint) AS string)",
    "boolean": "cast(cast({0} AS int) AS string)",
    "timestamp": "cast(unix_micros({0}) AS string)",
    "date": "cast(unix_date({0}) AS string)",
    "decimal": "cast(cast({0} * 100 AS bigint) AS string)",
}


def _quarters(column: Any) -> Any:
    return pc.round(pc.multiply(column.cast(pa.float64()), 4.0)).cast(pa.int64())


ARROW_TEXT: dict[str, Callable[[Any], Any]] = {
    "string": lambda column: column,
    "int": lambda column: column,
    "long": lambda column: column,
    "float": _quarters,
    "double": _quarters,
    "boolean": lambda column: column.cast(pa.int8()),
    "timestamp": lambda column: column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()),
    "date": lambda column: column.cast(pa.int32()),
    "decimal": lambda column: pc.round(pc.multiply(column.cast(pa.float64()), 100.0)).cast(pa.int64()),
}

META = tuple(
    Column(f"_hoodie_{name}", "string", "")
    for name in ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")
)


def sql_fingerprint(columns: Sequence[Column]) -> list[str]:
    """The SQL aggregates of a fingerprint."""
    return _aggregates([SQL_TEXT[column.kind].format(column.name) for column in columns])


def sql_changes_fingerprint() -> list[str]:
    """The SQL aggregates of a fingerprint of change data in Hudi's format: op and both images."""
    images = [f"get_json_object({image}, '$.{field}')" for image in ("before", "after") for field in IMAGE]
    return _aggregates(["op", *images])


def _aggregates(texts: Sequence[str]) -> list[str]:
    row = ", '|', ".join(f"coalesce({text}, '{NULL}')" for text in texts)
    return ["count(1)", f"cast(sum(crc32(cast(concat({row}) AS binary))) AS string)"]


def fingerprint(batches: Iterable[pa.RecordBatch], columns: Sequence[Column]) -> tuple[int, int]:
    """(rows, sum) of batches that hold exactly these columns, in any order."""
    rows = total = 0
    for batch in batches:
        if sorted(batch.schema.names) != sorted(column.name for column in columns):
            raise AssertionError(f"got columns {batch.schema.names}, expected {[column.name for column in columns]}")
        texts = [
            pc.fill_null(ARROW_TEXT[column.kind](batch.column(column.name)).cast(pa.string()), NULL)
            for column in columns
        ]
        joined = pc.binary_join_element_wise(*texts, "|")
        rows += batch.num_rows
        total += sum(zlib.crc32(text.encode()) for text in joined.to_pylist())
    return rows, total


def changes_fingerprint(batches: Iterable[pa.RecordBatch]) -> tuple[int, int]:
    """(rows, sum) of change data in Hudi's format."""
    rows = total = 0
    for batch in batches:
        rows += batch.num_rows
        for row in batch.select(["op", "before", "after"]).to_pylist():
            images = [json.loads(row[name]) if row[name] else {} for name in ("before", "after")]
            values = [row["op"], *(image.get(field) for image in images for field in IMAGE)]
            text = "|".join(NULL if value is None else str(value) for value in values)
            total += zlib.crc32(text.encode())
    return rows, total


def _nullable(sql: str, salt: int) -> str:
    """The expression, with a tenth of the values null."""
    return f"if(pmod(xxhash64(id, {salt}), 10) = 0, NULL, {sql})"


KEY = Column("key", "string", "concat('key-', lpad(id, 12, '0'))")
ORDERING = Column("ts", "long", "{ts}L + id % 7")
PLAIN = (
    KEY,
    ORDERING,
    Column("n", "long", "id * 3 + {salt}"),
    Column("k", "int", "cast(id % 1000 + {salt} AS int)"),
    Column("x", "double", "cast(id AS double) / 4 + {salt}"),
    Column("name", "string", "concat('name ', id % 5000 + {salt})"),
    Column("even", "boolean", "id % 2 = {salt} % 2"),
    Column("at", "timestamp", "timestamp_micros(1760000000000000 + id * 1000 + {salt})"),
)
"""Eight columns of common types."""
NARROW = PLAIN[:3] + PLAIN[4:6]
"""Five columns; ten with the meta columns."""

_KINDS = (
    ("long", "id * 7 + {salt}"),
    ("double", "cast(id AS double) / 4"),
    ("string", "concat('word ', id % 977)"),
    ("int", "cast(id % 100000 AS int)"),
    ("boolean", "id % 3 = 0"),
    ("timestamp", "timestamp_micros(1760000000000000 + id * 1000)"),
    ("float", "cast((id % 4000) / 4 AS float)"),
    ("string", "concat('a longer text of row ', id % 50021)"),
)
WIDE = (
    KEY,
    ORDERING,
    *(Column(f"c{number}", _KINDS[number % 8][0], _nullable(_KINDS[number % 8][1], number)) for number in range(18)),
)
"""Twenty columns, a tenth of the values null; 25 with the meta columns."""


def _pick(salt: int, *words: str) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    return f"element_at(array({listed}), cast(pmod(xxhash64(id, {salt}), {len(words)}) + 1 AS int))"


def _draw(salt: int, low: int, high: int) -> str:
    return f"({low} + pmod(xxhash64(id, {salt}), {high - low + 1}))"


_SHIPPED = f"date_add(date'1992-01-02', cast({_draw(21, 0, 2497)} AS int))"
LINEITEM = (
    Column("l_id", "string", "concat('line-', lpad(id, 10, '0'))"),
    Column("l_version", "long", "{ts}L"),
    Column("l_orderkey", "long", "id div 4 + 1"),
    Column("l_partkey", "long", _draw(11, 1, 200000)),
    Column("l_suppkey", "long", _draw(12, 1, 10000)),
    Column("l_linenumber", "int", "cast(id % 4 + 1 AS int)"),
    Column("l_quantity", "decimal", f"cast({_draw(13, 1, 50)} AS decimal(15, 2))"),
    Column("l_extendedprice", "decimal", f"cast(({_draw(14, 90000, 10494950)} + {{salt}}) / 100 AS decimal(15, 2))"),
    Column("l_discount", "decimal", f"cast({_draw(15, 0, 10)} / 100 AS decimal(15, 2))"),
    Column("l_tax", "decimal", f"cast({_draw(16, 0, 8)} / 100 AS decimal(15, 2))"),
    Column("l_returnflag", "string", _pick(17, "A", "N", "R")),
    Column("l_linestatus", "string", _pick(18, "F", "O")),
    Column("l_shipdate", "date", _SHIPPED),
    Column("l_commitdate", "date", f"date_add({_SHIPPED}, cast({_draw(19, 0, 60)} - 30 AS int))"),
    Column("l_receiptdate", "date", f"date_add({_SHIPPED}, cast({_draw(20, 1, 30)} AS int))"),
    Column("l_shipinstruct", "string", _pick(22, "DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")),
    Column("l_shipmode", "string", _pick(23, "REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")),
    Column("l_comment", "string", "concat('carefully final packages nag ', id % 9973)"),
)
"""TPC-H's lineitem, with a key of one column and a version to order by; values drawn by a hash of the row's number."""


def select(columns: Sequence[Column], first: int, end: int, step: int, *, ts: int, salt: int, parts: int = 1) -> str:
    """Spark SQL for rows with the ids first, first + step, … below end. `salt` varies the values of a key."""
    values = ", ".join(f"{column.sql.format(ts=ts, salt=salt)} AS {column.name}" for column in columns)
    return f"SELECT {values} FROM range({first}, {end}, {step}, {parts})"
