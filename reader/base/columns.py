"""Matches columns of a base file with the table's: by exact name, missing ones null, types equal or promoted.

Pure decisions over a Parquet file's schema. Units are compared by their Avro names. `file` reads the columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.proto.errors import SchemaMismatch
from penstock.proto.value_classes import dataclass
from penstock.table.schema.arrow import arrow_type
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
    Vector,
)
from penstock.table.schema.compatibility import Promoted, Refused, compatible, lost_variant_part, missing_column
from penstock.table.schema.history import ColumnMapping

ENUM: Final = "ENUM"
"""A text leaf that the file declares as an enum. pyarrow returns its values as binary."""

INT96: Final = "INT96"
"""A timestamp in nanoseconds that is an instant, whatever unit the table has."""
_MILLIS: Final = Primitive("long", "timestamp-millis")
_MICROS: Final = Primitive("long", "timestamp-micros")
_LOCAL_MILLIS: Final = Primitive("long", "local-timestamp-millis")
_LOCAL_MICROS: Final = Primitive("long", "local-timestamp-micros")
_PLAIN: Final = {
    pa.bool_(): Primitive("boolean"),
    pa.int8(): Primitive("int"),  # TINYINT and SMALLINT of Hudi's row writer (`HoodieRowParquetWriteSupport`)
    pa.int16(): Primitive("int"),
    pa.int32(): Primitive("int"),
    pa.int64(): Primitive("long"),
    pa.float32(): Primitive("float"),
    pa.float64(): Primitive("double"),
    pa.string(): Primitive("string"),
    pa.large_string(): Primitive("string"),
    pa.binary(): Primitive("bytes"),
    pa.large_binary(): Primitive("bytes"),
    pa.date32(): Primitive("int", "date"),
    pa.time32("ms"): Primitive("int", "time-millis"),
    pa.time64("us"): Primitive("long", "time-micros"),
}


@dataclass(frozen=True, slots=True)
class Stored:
    """The file has the column. Its values are cast to `type`; a cast that would lose a value fails."""

    name: str
    """The table's column."""
    type: pa.DataType
    """Its Arrow type."""
    file_name: str = ""
    """The file's name for the column if it is another one, else ''."""

    @property
    def column(self) -> str:
        """The file's name for the column."""
        return self.file_name or self.name


@dataclass(frozen=True, slots=True)
class Widened:
    """The file has the column in a narrower type or with other nested names. `widening.widened` converts it."""

    name: str
    """The table's column."""
    type: pa.DataType
    """Its Arrow type."""
    written: AvroType
    """The Avro type of the values in the file."""
    reader_type: AvroType
    """The Avro type of the table's column."""
    file_name: str = ""
    """The file's name for the column if it is another one, else ''."""

    @property
    def column(self) -> str:
        """The file's name for the column."""
        return self.file_name or self.name


@dataclass(frozen=True, slots=True)
class Missing:
    """The file lacks the column; its values are null."""

    name: str
    """The table's column."""
    type: pa.DataType
    """Its Arrow type."""


ColumnSource = Stored | Widened | Missing


def column_sources(
    file_schema: pa.Schema,
    physical: Sequence[str],
    table: RecordSchema,
    columns: Sequence[str],
    where: str,
    names: ColumnMapping | None = None,
) -> tuple[ColumnSource, ...]:
    """The source of each of these columns of the table, in order.

    Columns are matched by name, or by id if `names` maps the table's columns to the file's. `physical` are the physical
    types of the file's leaves in order, or ENUM for enums (Arrow's type shows neither enums nor INT96). SchemaMismatch,
    beginning with `where` and naming the column and both types, for any other pair of types, for a name that the file
    has twice, and for a missing column that is not nullable: Hudi writes and reads none of these.
    """
    global _last_match
    if not columns:
        return ()  # a count of rows needs no column, and keeps the last match for the rows of the same block
    last = _last_match
    if (
        names is None
        and last is not None
        and last.table is table
        and last.columns == tuple(columns)
        and last.physical == tuple(physical)
        and last.file_schema.equals(file_schema)
    ):
        return last.sources
    sources = _matched(file_schema, physical, table, columns, where, names)
    if names is None:
        _last_match = _Match(file_schema, tuple(physical), table, tuple(columns), sources, _unchanged(sources))
    return sources


def unchanged_columns(sources: tuple[ColumnSource, ...]) -> pa.Schema | None:
    """The schema of decoded rows that are the table's rows without a change, if there can be one: each column has its
    name and type in the file."""
    last = _last_match
    return last.unchanged if last is not None and last.sources is sources else _unchanged(sources)


def _unchanged(sources: tuple[ColumnSource, ...]) -> pa.Schema | None:
    if not all(isinstance(source, Stored) and not source.file_name for source in sources):
        return None
    return pa.schema([(source.name, source.type) for source in sources])


@dataclass(frozen=True, slots=True)
class _Match:
    """The arguments and the result of a call of `column_sources`."""

    file_schema: pa.Schema
    physical: tuple[str, ...]
    table: RecordSchema
    columns: tuple[str, ...]
    sources: tuple[ColumnSource, ...]
    unchanged: pa.Schema | None
    """`unchanged_columns` of the sources."""


_last_match: _Match | None = None
"""The last match by name: the files of a read mostly have one schema, and small files are read faster than matched."""


def _matched(
    file_schema: pa.Schema,
    physical: Sequence[str],
    table: RecordSchema,
    columns: Sequence[str],
    where: str,
    names: ColumnMapping | None,
) -> tuple[ColumnSource, ...]:
    leaves = iter(physical)
    physical_of = {field.name: list(_leaves(field.type, leaves)) for field in file_schema}
    fields = table.by_name()
    sources: list[ColumnSource] = []
    for name in columns:
        field = fields[name]
        target = arrow_type(field.type)
        file_field = field if names is None else names.in_file(field)
        if file_field.name not in physical_of:
            if isinstance(refused := missing_column(field, name), Refused):
                raise SchemaMismatch(f"{where}: {refused.reason}")
            sources.append(Missing(name, target))
            continue
        places = file_schema.get_all_field_indices(file_field.name)
        if len(places) > 1:
            raise SchemaMismatch(f"{where}: the file has column {name!r} {len(places)} times")
        file_type = file_schema.field(places[0]).type
        written = _written(file_type, iter(physical_of[file_field.name]), file_field.type)
        if written is not None and names is not None:
            written = names.in_table(AvroField(file_field.name, written, True, 0)).type
        if written is not None and (reason := lost_variant_part(written, field.type, name)):
            raise SchemaMismatch(f"{where}: {reason}")
        compatibility = None if written is None else compatible(written, field.type, name)
        if written is None or isinstance(compatibility, Refused):
            type_text = f"{file_type}{' (INT96)' if INT96 in physical_of[file_field.name] else ''}"
            raise SchemaMismatch(
                f"{where}: type change of column {name!r}: the file has {type_text}, the table {_type_text(field)}; "
                "Hudi neither makes this change nor reads it"
            )
        file_name = "" if file_field.name == name else file_field.name
        if compatibility == Promoted() or (names is not None and pa.types.is_nested(target)):
            sources.append(Widened(name, target, written, field.type, file_name))
        else:
            sources.append(Stored(name, target, file_name))
    return tuple(sources)


def _leaves(kind: pa.DataType, physical: Iterator[str]) -> Iterator[str]:
    """The physical types of this column's leaves, consumed from `physical`."""
    if pa.types.is_map(kind):
        yield from _leaves(kind.key_type, physical)
        yield from _leaves(kind.item_type, physical)
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _leaves(kind.field(place).type, physical)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _leaves(kind.value_type, physical)
    else:
        yield next(physical, "")


def _written(kind: pa.DataType, physical: Iterator[str], table: AvroType) -> AvroType | None:
    """The Avro type of a file's column, interpreted by the table's type; None if it has none."""
    if pa.types.is_map(kind):
        values = table.values if isinstance(table, MapType) else table
        key = _written(kind.key_type, physical, Primitive("string"))
        item = _written(kind.item_type, physical, values)
        return MapType(item) if item is not None and key == Primitive("string") else None
    if pa.types.is_struct(kind):
        beside = {field.name: field.type for field in table.fields} if isinstance(table, RecordType) else {}
        fields = []
        for place in range(kind.num_fields):
            child = kind.field(place)
            inner = _written(child.type, physical, beside.get(child.name, table))
            if inner is None and child.name in beside:
                return None
            fields.append(AvroField(child.name, inner if inner is not None else Primitive("bytes"), True, 0))
        return RecordType(tuple(fields))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        items = _written(kind.value_type, physical, table.items if isinstance(table, ArrayType) else table)
        return None if items is None else ArrayType(items)
    return _flat(kind, next(physical, ""), table)


def _flat(kind: pa.DataType, physical: str, table: AvroType) -> AvroType | None:
    if pa.types.is_timestamp(kind):
        return _timestamp(kind, physical, table)
    if pa.types.is_decimal128(kind):
        return Decimal(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return table if isinstance(table, Vector) and table.size == kind.byte_width else Fixed(kind.byte_width)
    if physical == ENUM and kind == pa.binary():
        return table if isinstance(table, EnumType) else Primitive("string")
    return _PLAIN.get(kind)


def _timestamp(kind: pa.TimestampType, physical: str, table: AvroType) -> AvroType | None:
    """The Avro type of a timestamp column.

    * Declared milliseconds are exact microseconds.
    * INT96 is an instant whatever the table's unit is.
    * Nanoseconds count as microseconds, but never for milliseconds that older writers declared as microseconds.
    * A zone makes it an instant, else it is local.
    """
    instants = table if table in (_MILLIS, _MICROS) else _MICROS
    if physical == INT96:
        return instants
    if kind.unit == "ns" and table in (_MILLIS, _LOCAL_MILLIS):
        return None
    if kind.tz is not None:
        return instants if kind.unit == "ms" else _MICROS
    local = table if table in (_LOCAL_MILLIS, _LOCAL_MICROS) else _LOCAL_MICROS
    return local if kind.unit == "ms" else _LOCAL_MICROS


def _type_text(field: AvroField) -> str:
    match field.type:
        case Primitive(kind, logical) if logical:
            return f"{kind} ({logical})"
        case other:
            return str(arrow_type(other))
