"""Decides whether Spark's Parquet reader returns a file's columns exactly as Penstock does. Pure.

The answer is yes only for pairs of a stored type and a table type that need no conversion, and for names that match in
every case-sensitivity mode. Everything else is left to Penstock's own reader. Sources: Spark
`ParquetVectorUpdaterFactory` (types), `ParquetReadSupport.clipParquetSchema` (names and list layouts).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import PenstockError
from penstock.reader.base.columns import ENUM, Missing, Stored, column_sources
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    Decimal,
    EnumType,
    Fixed,
    MapType,
    Primitive,
    RecordSchema,
    RecordType,
)
from penstock.table.schema.history import ColumnMapping

_LISTS: Final = (".list.element", ".array")
"""Paths of a list's elements: three levels, and the two levels of parquet-avro's old list structure."""
_MAPS: Final = (".key_value", ".map")
"""Paths of a map's entries, likewise."""
_PLAIN: Final = {
    ("boolean", ""): ("BOOLEAN", "NONE"),
    ("int", ""): ("INT32", "NONE"),
    ("int", "date"): ("INT32", "DATE"),
    ("long", ""): ("INT64", "NONE"),
    ("float", ""): ("FLOAT", "NONE"),
    ("double", ""): ("DOUBLE", "NONE"),
    ("bytes", ""): ("BYTE_ARRAY", "NONE"),
    ("string", ""): ("BYTE_ARRAY", "STRING"),
    ("string", "uuid"): ("BYTE_ARRAY", "STRING"),
}
"""(Avro type, logical type) -> (physical type, logical type) that Spark reads without a conversion."""
_INSTANTS: Final = ("timestamp-millis", "timestamp-micros")
_LOCAL: Final = ("local-timestamp-millis", "local-timestamp-micros")
_DECIMALS: Final = ("INT32", "INT64", "FIXED_LEN_BYTE_ARRAY", "BYTE_ARRAY")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf column of a file."""

    path: str
    """The names from the root, joined by dots."""
    physical: str
    """Physical type."""
    logical: str
    """Logical type, NONE without one."""
    detail: str
    """Precision and scale of a decimal, unit and zone of a timestamp; '' for others."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The columns of a file, as its footer states them."""

    schema: pa.Schema
    """The columns as Arrow reads them."""
    leaves: tuple[Leaf, ...]
    """The leaves in order."""

    def physical(self) -> list[str]:
        """The physical types of the leaves, or ENUM."""
        return [ENUM if leaf.logical == ENUM else leaf.physical for leaf in self.leaves]


@dataclass(frozen=True, slots=True)
class SparkReading:
    """How Spark may read the columns of a file."""

    unpushed: frozenset[str] = frozenset()
    """Columns whose filters Spark must not compare with Parquet's statistics and dictionaries, because it compares in
    another way than it evaluates: NaN and -0.0 of floating columns, microseconds with milliseconds."""
    pushes: bool = True
    """Whether other filters may. False for such values inside a struct, which has no cheap protection."""


@dataclass(frozen=True, slots=True)
class Unequal:
    """Penstock must read the file."""

    reason: str
    """The column, and what is different."""


def layout_of(footer: pq.FileMetaData) -> FileLayout:
    """The layout that a footer states."""
    schema = footer.schema
    return FileLayout(
        schema.to_arrow_schema().remove_metadata(), tuple(_leaf(schema.column(place)) for place in range(len(schema)))
    )


def _leaf(column: pq.ColumnSchema) -> Leaf:
    kind = column.logical_type
    detail = ""
    if kind.type in ("TIMESTAMP", "DECIMAL", "INT", "TIME"):
        fields = json.loads(kind.to_json())
        detail = " ".join(
            str(fields[name])
            for name in ("timeUnit", "isAdjustedToUTC", "precision", "scale", "bitWidth", "isSigned")
            if name in fields
        )
    return Leaf(column.path, column.physical_type, kind.type, detail)


def spark_reading(
    layout: FileLayout, record: RecordSchema, columns: Sequence[str], names: ColumnMapping | None
) -> SparkReading | Unequal:
    """How Spark may read these columns of the table from a file of this layout.

    `names`: the file's column names, if the table has a schema-on-read history.
    """
    folded = Counter(name.casefold() for name in layout.schema.names)
    table_folded = Counter(field.name.casefold() for field in record.fields)
    try:
        sources = column_sources(layout.schema, layout.physical(), record, columns, "", names)
    except PenstockError as error:
        return Unequal(str(error))
    fields = record.by_name()
    unpushed: set[str] = set()
    pushes = True
    for source in sources:
        name = source.name
        if table_folded[name.casefold()] > 1 or not _is_plain(name):
            return Unequal(f"column {name}: its name is not unique in every case-sensitivity mode, or has '.' or '`'")
        if isinstance(source, Missing):
            if folded[name.casefold()]:
                return Unequal(f"column {name}: the file has another column of this name")
            continue
        if not isinstance(source, Stored) or source.column != name or folded[name.casefold()] > 1:
            return Unequal(f"column {name}: its values are converted, or its name differs")
        compared = _Comparison(name, layout.leaves)
        if reason := compared.difference(fields[name].type, layout.schema.field(name).type, name):
            return Unequal(f"column {name}: {reason}")
        if compared.inexact_filters == {name}:
            unpushed.add(name)
        elif compared.inexact_filters:
            pushes = False
    return SparkReading(frozenset(unpushed), pushes)


class _Comparison:
    """Compares the types of one column in the file and in the table."""

    def __init__(self, column: str, leaves: Sequence[Leaf]) -> None:
        own = [leaf for leaf in leaves if leaf.path == column or leaf.path.startswith(f"{column}.")]
        self._leaves = {leaf.path: leaf for leaf in own}
        self._left = len(own)
        self._column = column
        self.inexact_filters: set[str] = set()
        """Paths of leaves on which a filter of Spark compares in another way than it evaluates."""

    def difference(self, table: AvroType, kind: pa.DataType, path: str) -> str:
        """Why Spark might return other values; '' if it returns the same."""
        reason = self._difference(table, kind, path)
        if not reason and self._left:
            return "it has leaves that the table's type does not have"
        return reason

    def _difference(self, table: AvroType, kind: pa.DataType, path: str) -> str:
        match table:
            case RecordType(fields):
                return self._struct(fields, kind, path)
            case ArrayType(items):
                if not pa.types.is_list(kind):
                    return f"{path} is no list"
                step = next((s for s in _LISTS if self._has(f"{path}{s}")), None)
                return (
                    f"{path} is a list of an unusual layout"
                    if step is None
                    else self._difference(items, kind.value_type, f"{path}{step}")
                )
            case MapType(values):
                if not pa.types.is_map(kind):
                    return f"{path} is no map"
                step = next((s for s in _MAPS if f"{path}{s}.key" in self._leaves), None)
                if step is None:
                    return f"{path} is a map of an unusual layout"
                return self._difference(Primitive("string"), kind.key_type, f"{path}{step}.key") or self._difference(
                    values, kind.item_type, f"{path}{step}.value"
                )
            case _:
                return self._flat(table, path)

    def _struct(self, fields: Sequence[AvroField], kind: pa.DataType, path: str) -> str:
        names = [field.name for field in fields]
        if not pa.types.is_struct(kind) or names != [field.name for field in kind]:
            return f"{path} has other nested fields"
        if len({name.casefold() for name in names}) < len(names) or not all(map(_is_plain, names)):
            return f"{path} has nested names that differ in case alone, or with '.' or '`'"
        for field in fields:
            if reason := self._difference(field.type, kind.field(field.name).type, f"{path}.{field.name}"):
                return reason
        return ""

    def _flat(self, table: AvroType, path: str) -> str:
        leaf = self._leaves.get(path)
        if leaf is None:
            return f"{path} has another layout"
        self._left -= 1
        if not _reads_alike(table, leaf):
            return f"{path} is {leaf.physical} {leaf.logical} {leaf.detail}".rstrip()
        if leaf.physical in ("FLOAT", "DOUBLE") or leaf.detail.startswith("milliseconds"):
            self.inexact_filters.add(path)
        return ""

    def _has(self, path: str) -> bool:
        return any(known == path or known.startswith(f"{path}.") for known in self._leaves)


def _is_plain(name: str) -> bool:
    return "." not in name and "`" not in name


def _reads_alike(table: AvroType, leaf: Leaf) -> bool:
    """Whether Spark returns the values of the leaf unchanged, as the Spark type of the table's type."""
    match table:
        case Decimal(precision, scale, _):
            return leaf.logical == "DECIMAL" and leaf.detail == f"{precision} {scale}" and leaf.physical in _DECIMALS
        case Fixed():
            return (leaf.physical, leaf.logical) == ("FIXED_LEN_BYTE_ARRAY", "NONE")
        case EnumType():
            return leaf.physical == "BYTE_ARRAY" and leaf.logical in ("STRING", ENUM)
        case Primitive("long", logical) if logical in _INSTANTS:
            return leaf.logical == "TIMESTAMP" and leaf.detail in ("milliseconds True", "microseconds True")
        case Primitive("long", logical) if logical in _LOCAL:
            return leaf.logical == "TIMESTAMP" and leaf.detail == "microseconds False"
        case Primitive(kind, logical):
            if leaf.logical == "INT" and not logical:
                width = {"int": "32 True", "long": "64 True"}.get(kind)
                return leaf.detail == width
            return _PLAIN.get((kind, logical)) == (leaf.physical, leaf.logical)
    return False
