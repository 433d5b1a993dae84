"""Shapes of tables that Hudi and Penstock write, and the values of a row in SQL and in Python. Pure."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

CITIES = ("oslo", "riga", "new york", None)
"""The partitions; None is stored as a null."""
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
START_US = 1_700_000_000_000_000


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a write. All columns but the ones named here are functions of `value`."""

    key: int
    """The number of its key."""
    ordering: int
    """What the ordering column is computed from."""
    value: int
    """What the other columns are computed from."""
    city: str | None
    """Its partition."""
    deleted: bool = False
    """Its delete marker."""
    level: int = 0
    """How many schema changes the data has: 1 adds a column, 2 adds another one and widens `qty`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The configuration of a table."""

    version: int
    """Table version: 9 or 6."""
    merge_on_read: bool
    """Merge-on-read or copy-on-write."""
    buckets: int
    """Buckets of the bucket index; 0 for another index."""
    partitioned: bool
    """Whether `city` is a partition column."""
    two_keys: bool
    """Whether the record key has two columns."""
    number_key: bool
    """Whether the first key column is a long, not a string."""
    ordering: str
    """The type of the ordering column; empty: the newer write wins."""
    hive_style: bool
    """Whether partition paths name their column."""
    small_files: bool
    """Whether new rows fill small base files."""
    marker: bool
    """Whether there is a column `_hoodie_is_deleted`."""
    columns: tuple[str, ...]
    """The names of the other columns."""
    by_penstock: bool
    """Whether Penstock creates the table."""
    metadata: bool
    """Whether it has a metadata table, which both keep current."""
    index: str = "bucket"
    """The index of all writers."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns of the record key."""
        return ("id", "part") if self.two_keys else ("id",)

    @property
    def is_global(self) -> bool:
        """Whether a key is unique in the table."""
        return self.index.startswith("global")

    @property
    def layout_is_known(self) -> bool:
        """Whether the base rows of a merge-on-read table follow from its writes alone: no write adds rows to files."""
        return bool(self.buckets) or not self.small_files


def _nullable(form: Callable[[int], object]) -> Callable[[int], object]:
    return lambda value: None if value % 7 == 0 else form(value)


Column = tuple[str, pa.DataType, Callable[[int], object]]
"""SQL over the value c2, Arrow type, and the same in Python."""
COLUMNS: dict[str, Column] = {
    "name": ("concat('n', c2)", pa.string(), lambda v: f"n{v}"),
    "total": ("c2 * 4000000000", pa.int64(), lambda v: v * 4_000_000_000),
    "weight": ("cast(c2 / 4 AS float)", pa.float32(), lambda v: v / 4),
    "ratio": ("cast(c2 / 8 AS double)", pa.float64(), lambda v: v / 8),
    "odd": ("c2 % 2 = 1", pa.bool_(), lambda v: v % 2 == 1),
    "price": (
        "cast(c2 + 0.25 AS decimal(10, 2))",
        pa.decimal128(10, 2),
        lambda v: decimal.Decimal(v) + decimal.Decimal("0.25"),
    ),
    "large": (
        "cast(c2 * 100000000000 + 0.5 AS decimal(20, 4))",
        pa.decimal128(20, 4),
        lambda v: decimal.Decimal(v) * 100_000_000_000 + decimal.Decimal("0.5"),
    ),
    "day": (
        "date_add(date'2023-11-14', cast(c2 AS int))",
        pa.date32(),
        lambda v: dt.date(2023, 11, 14) + dt.timedelta(days=v),
    ),
    "at": (
        f"timestamp_micros({START_US} + c2 * 1000000 + 123)",
        pa.timestamp("us", "UTC"),
        lambda v: START_US + v * 1_000_000 + 123,
    ),
    "raw": ("cast(concat('b', c2) AS binary)", pa.binary(), lambda v: f"b{v}".encode()),
    # Hudi's Parquet writer stores lists in the old form, which has no null in a list
    "tags": ("array(concat('t', c2), 'x')", pa.list_(pa.string()), lambda v: [f"t{v}", "x"]),
    "attrs": (
        "map('a', c2, concat('b', c2), NULL)",
        pa.map_(pa.string(), pa.int64()),
        lambda v: [("a", v), (f"b{v}", None)],
    ),
    "spot": (
        "named_struct('x', cast(c2 AS int), 'ys', array(c2, c2 + 1), 'z', if(c2 % 3 = 0, NULL, concat('z', c2)))",
        pa.struct([("x", pa.int32()), ("ys", pa.list_(pa.int64())), ("z", pa.string())]),
        lambda v: {"x": v, "ys": [v, v + 1], "z": None if v % 3 == 0 else f"z{v}"},
    ),
}
"""The columns that a shape draws from. Every seventh value of each is null."""

ORDERINGS: dict[str, Column] = {
    "long": ("c1", pa.int64(), lambda o: o),
    "int": ("cast(c1 AS int)", pa.int32(), lambda o: o),
    "string": ("concat('v', lpad(c1, 6, '0'))", pa.string(), lambda o: f"v{o:06d}"),
    "timestamp": (
        f"timestamp_micros({START_US} + c1 * 1000003)",
        pa.timestamp("us", "UTC"),
        lambda o: START_US + o * 1_000_003,
    ),
    "double": ("cast(c1 / 4 AS double)", pa.float64(), lambda o: o / 4),
}
ADDED = ("extra_1", "extra_2")
INDEXES = ("global_bloom", "simple", "bloom", "global_simple")
"""The indexes without buckets."""


def shape_of(seed: int, versions: tuple[int, ...] = (9, 6)) -> Shape:
    """The shape of a seed. Eight seeds in a row have all combinations of version, table type and index."""
    draw = random.Random(f"shape/{seed}")
    other_index = INDEXES[(seed % 2 + seed // 4 % 2 * 2 + seed // 8) % len(INDEXES)]
    merge_on_read, bucket = seed % 2 == 0, seed // 2 % 2 == 0
    return Shape(
        version=versions[seed // 4 % len(versions)],
        merge_on_read=merge_on_read,
        buckets=draw.randint(1, 4) if bucket else 0,
        partitioned=draw.random() < 0.75,
        two_keys=draw.random() < 0.35,
        number_key=draw.random() < 0.35,
        ordering=draw.choice(("", *ORDERINGS, *ORDERINGS)),
        hive_style=draw.random() < 0.4,
        small_files=draw.random() < 0.5,
        marker=draw.random() < 0.75,
        columns=tuple(sorted(draw.sample(list(COLUMNS), draw.randint(2, 6)))),
        by_penstock=draw.random() < 0.6,
        metadata=versions[seed // 4 % len(versions)] == 9 and ((seed ^ seed >> 1) + seed // 8) % 2 == 1,
        index="bucket" if bucket else other_index,
    )


def key_values(shape: Shape, key: int) -> tuple[object, ...]:
    """The key columns' values."""
    first = key // 3 if shape.two_keys else key
    return (first if shape.number_key else f"k{first}", *((key % 3,) if shape.two_keys else ()))


def record_key(shape: Shape, key: int) -> str:
    """The text in `_hoodie_record_key`."""
    values = key_values(shape, key)
    if not shape.two_keys:
        return str(values[0])
    return ",".join(f"{name}:{value}" for name, value in zip(shape.keys, values, strict=True))


def partition_path(shape: Shape, city: str | None) -> str:
    """The text in `_hoodie_partition_path`."""
    if not shape.partitioned:
        return ""
    return ("city=" if shape.hive_style else "") + (city or NULL_PARTITION)


def sql_columns(shape: Shape, level: int) -> list[tuple[str, str]]:
    """The columns as SQL over (key, ordering, value, city, deleted)."""
    first = "floor(c0 / 3)" if shape.two_keys else "c0"
    quantity = "c2" if level > 1 else "cast(c2 AS int)"
    columns = [("id", f"cast({first} AS bigint)" if shape.number_key else f"concat('k', {first})")]
    if shape.two_keys:
        columns.append(("part", "cast(c0 % 3 AS int)"))
    if shape.ordering:
        columns.append(("seq", ORDERINGS[shape.ordering][0]))
    columns += [("qty", f"nullif({quantity}, -1)"), ("city", "nullif(cast(c3 AS string), '')")]
    columns += [(name, f"if(c2 % 7 = 0, NULL, {COLUMNS[name][0]})") for name in shape.columns]
    if shape.marker:
        columns.append(("_hoodie_is_deleted", "c4"))
    return [*columns, *((name, "nullif(concat('e', c2), '')") for name in ADDED[:level])]


def schema_of(shape: Shape, level: int) -> pa.Schema:
    """The same columns in Arrow."""
    fields = [("id", pa.int64() if shape.number_key else pa.string())]
    if shape.two_keys:
        fields.append(("part", pa.int32()))
    if shape.ordering:
        fields.append(("seq", ORDERINGS[shape.ordering][1]))
    fields += [("qty", pa.int64() if level > 1 else pa.int32()), ("city", pa.string())]
    fields += [(name, COLUMNS[name][1]) for name in shape.columns]
    if shape.marker:
        fields.append(("_hoodie_is_deleted", pa.bool_()))
    return pa.schema([*fields, *((name, pa.string()) for name in ADDED[:level])])


def values_of(shape: Shape, row: Row) -> dict[str, object]:
    """A row's values, by column; columns of later schemas are missing."""
    values: dict[str, object] = dict(zip(shape.keys, key_values(shape, row.key), strict=True))
    if shape.ordering:
        values["seq"] = ORDERINGS[shape.ordering][2](row.ordering)
    values |= {"qty": row.value, "city": row.city}
    values |= {name: _nullable(COLUMNS[name][2])(row.value) for name in shape.columns}
    if shape.marker:
        values["_hoodie_is_deleted"] = row.deleted
    return values | dict.fromkeys(ADDED[: row.level], f"e{row.value}")
