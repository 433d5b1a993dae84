"""The columns of a write: those of the table, and columns that the data adds or widens. Pure.

A write widens a column only if every stored value keeps its value, for Hudi's readers too. Hudi's readers tolerate more
changes (`table.schema.compatibility`): a date that becomes text, or a long that becomes a double and loses digits.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import SchemaMismatch, UnsupportedFeature
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import (
    META_COLUMNS,
    OPERATION,
    ArrayType,
    AvroField,
    AvroType,
    MapType,
    RecordSchema,
    RecordType,
    parse_record_schema,
)
from penstock.table.schema.avro_text import avro_schema_json, stored_arrow_schema
from penstock.table.schema.compatibility import type_name

_META: frozenset[str] = frozenset((*META_COLUMNS, OPERATION))


@dataclass(frozen=True, slots=True)
class WriteSchema:
    """The columns of the files that a write creates."""

    columns: pa.Schema
    """The data columns as files store them, without meta columns; but first the operation of each row, if files store
    it."""
    recorded: RecordSchema
    """The Avro schema of the data columns, which commits record."""
    stored: RecordSchema
    """The Avro schema of files: meta columns first."""
    evolves: bool
    """Whether it differs from the table's schema."""

    def conformed(self, rows: pa.Table, where: str, *, stored: bool = True) -> pa.Table:
        """The rows with these columns: cast without loss, null in columns that the data lacks.

        SchemaMismatch, beginning with `where`, for a value that does not fit its column, or, if the rows will be
        `stored`, a null in one that has none.
        """
        columns = []
        for field in self.columns:
            place = rows.schema.get_field_index(field.name)
            if place < 0:
                columns.append(pa.chunked_array([pa.nulls(rows.num_rows, field.type)]))
                continue
            columns.append(_cast(rows.column(place), field, where))
        if not stored:
            return pa.Table.from_arrays(columns, schema=pa.schema([one.with_nullable(True) for one in self.columns]))
        for field in self.recorded.fields:
            _refuse_nulls(columns[self.columns.get_field_index(field.name)], field, where)
        return pa.Table.from_arrays(columns, schema=self.columns)

    def always_fits(self, given: pa.Field) -> bool:
        """Whether each value of such a column conforms: its type is that of files, and may be null at any depth. Text
        inside of nested values may be no UTF-8."""
        recorded = {field.name: field for field in self.recorded.fields}.get(given.name)
        if recorded is None or self.columns.field(given.name).type != given.type:
            return False
        return _may_be_null(recorded) and not (pa.types.is_nested(given.type) and _holds_text(given.type))


def _holds_text(kind: pa.DataType) -> bool:
    inner = (kind.field(place).type for place in range(kind.num_fields))
    return pa.types.is_string(kind) or any(map(_holds_text, inner))


def _may_be_null(field: AvroField) -> bool:
    """Whether the field may be null, and all that is in it."""
    match field.type:
        case ArrayType(items, null_branch):
            inner = [AvroField("item", items, null_branch >= 0)]
        case MapType(values, null_branch):
            inner = [AvroField("value", values, null_branch >= 0)]
        case RecordType(fields):
            inner = list(fields)
        case _:
            inner = []
    return field.nullable and all(map(_may_be_null, inner))


def write_schema(
    current: RecordSchema | None,
    incoming: pa.Schema,
    table_name: str,
    where: str,
    *,
    stores_operations: bool = False,
) -> WriteSchema:
    """The schema of a write of `incoming` columns into a table with the schema `current`.

    stores_operations: whether files store the operation of each row, which is a meta column.

    `current` has the meta columns; None for a table without any schema yet. Columns of the table keep their order and
    their Avro types; new ones follow. Meta columns of the data are ignored. SchemaMismatch, beginning with `where`, for
    a type that neither fits the column nor widens it, a name that differs from a column's only in case, or a type that
    no table holds. UnsupportedFeature for a table with a column whose values would be stored in another form than its
    other writers store them.
    """
    data = stored_arrow_schema(pa.schema([field for field in incoming if field.name not in _META]))
    _refuse_repeated(data, where)
    names = (*META_COLUMNS, OPERATION) if stores_operations else META_COLUMNS
    if current is None:
        return _schema_of(data, _fields(data, table_name), table_name, names, evolves=True)
    own = pa.schema([field for field in arrow_schema(current) if field.name not in _META])
    _refuse_other_forms(current, own, where)
    node = json.loads(current.json_text)
    fields = {field["name"]: field for field in node["fields"] if field["name"] not in _META}
    known = {field.name: field for field in own}
    changed = _changed_columns(known, data, where)
    if changed:
        fields |= _fields(pa.schema(changed.values()), table_name)
    columns = pa.schema({**known, **changed}.values())
    return _schema_of(columns, fields, table_name, names, evolves=bool(changed), record=node)


def _schema_of(
    columns: pa.Schema,
    fields: Mapping[str, object],
    table_name: str,
    meta_names: Sequence[str],
    *,
    evolves: bool,
    record: Mapping[str, object] | None = None,
) -> WriteSchema:
    """The schema with these meta columns and Avro fields, in a record of the name and namespace of `record`."""
    named = record or json.loads(avro_schema_json(columns, table_name, meta_columns=False))
    meta = [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in meta_names]
    plain, with_meta = (
        json.dumps({**named, "fields": [*extra, *fields.values()]}, separators=(",", ":"), ensure_ascii=False)
        for extra in ([], meta)
    )
    if OPERATION in meta_names:
        columns = pa.schema([pa.field(OPERATION, pa.string()), *columns])
    return WriteSchema(columns, parse_record_schema(plain), parse_record_schema(with_meta), evolves)


def _fields(columns: pa.Schema, table_name: str) -> dict[str, object]:
    """The Avro fields of columns, by name."""
    node = json.loads(avro_schema_json(columns, table_name, meta_columns=False))
    return {field["name"]: field for field in node["fields"]}


def _changed_columns(known: Mapping[str, pa.Field], data: pa.Schema, where: str) -> dict[str, pa.Field]:
    """The columns that the data adds or widens, by name."""
    by_case = {name.lower(): name for name in known}
    changed: dict[str, pa.Field] = {}
    for field in data:
        own = known.get(field.name)
        if own is None:
            if field.name.lower() in by_case:
                raise SchemaMismatch(
                    f"{where}: column {field.name!r} differs from column {by_case[field.name.lower()]!r} of the table "
                    "only in case: give it the table's name"
                )
            changed[field.name] = field.with_nullable(True)
        elif not _fits(field.type, own.type):
            if not _widens(own.type, field.type):
                raise SchemaMismatch(
                    f"{where}: column {field.name!r} is {field.type}, and {own.type} in the table: got a type that "
                    "neither fits nor widens it; cast the column"
                )
            changed[field.name] = field.with_nullable(True)
    return changed


def _refuse_other_forms(current: RecordSchema, own: pa.Schema, where: str) -> None:
    """UnsupportedFeature for a column whose Avro type is not the one that this writer stores for its Arrow type."""
    for field in current.fields:
        if field.name not in _META and _form(_avro(own.field(field.name)).type) != _form(field.type):
            raise UnsupportedFeature(
                f"{where}: column {field.name!r} of Avro type {type_name(field.type)} is not written yet: its values "
                f"would be stored as {type_name(_avro(own.field(field.name)).type)}"
            )


def _form(kind: AvroType) -> object:
    """The type without nullability and names."""
    match kind:
        case ArrayType(items):
            return ("array", _form(items))
        case MapType(values):
            return ("map", _form(values))
        case RecordType(fields):
            return tuple((field.name, _form(field.type)) for field in fields)
    return kind


def _refuse_nulls(column: pa.ChunkedArray, field: AvroField, where: str) -> None:
    """SchemaMismatch for a null where the table's schema has none, at any depth."""
    if place := next((path for chunk in column.chunks for path in _unexpected_nulls(chunk, field)), ""):
        raise SchemaMismatch(
            f"{where}: column {place!r} may not be null, and the data has a null or lacks the column; nothing was "
            "written"
        )


def _unexpected_nulls(values: pa.Array, field: AvroField) -> Iterator[str]:
    if not field.nullable and values.null_count:
        yield field.name
    match field.type:
        case ArrayType(items, null_branch):
            yield from _unexpected_nulls(values.flatten(), AvroField(f"{field.name}.item", items, null_branch >= 0))
        case MapType(items, null_branch):
            inside = values.filter(values.is_valid())
            yield from _unexpected_nulls(
                inside.items[inside.offsets[0].as_py() : inside.offsets[-1].as_py()] if len(inside) else inside.items,
                AvroField(f"{field.name}.value", items, null_branch >= 0),
            )
        case RecordType(fields):
            inside = values.filter(values.is_valid())
            for place, inner in enumerate(fields):
                yield from _unexpected_nulls(inside.field(place), replace(inner, name=f"{field.name}.{inner.name}"))


def _refuse_repeated(schema: pa.Schema, where: str) -> None:
    names = [name.lower() for name in schema.names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SchemaMismatch(f"{where}: columns of the data share the name {repeated[0]!r} (without regard to case)")


def _fits(given: pa.DataType, own: pa.DataType) -> bool:
    """Whether every value of a type is one of the column's, or a cast says exactly which is not."""
    if given == own or pa.types.is_null(given):
        return True
    if pa.types.is_integer(given) and pa.types.is_floating(own):
        return True  # the cast refuses a number with more digits than the column holds
    for is_kind in (pa.types.is_integer, pa.types.is_floating):
        if is_kind(given) and is_kind(own):
            return int(given.bit_width) <= int(own.bit_width)
    if pa.types.is_nested(given) and pa.types.is_nested(own):
        return _fits_nested(given, own)
    return pa.types.is_decimal(given) and pa.types.is_decimal(own) and _digits_fit(given, own)


def _fits_nested(given: pa.DataType, own: pa.DataType) -> bool:
    if pa.types.is_list(given) and pa.types.is_list(own):
        return _fits(given.value_type, own.value_type)
    if pa.types.is_map(given) and pa.types.is_map(own):
        return _fits(given.key_type, own.key_type) and _fits(given.item_type, own.item_type)
    if not (pa.types.is_struct(given) and pa.types.is_struct(own)):
        return False
    names = [field.name for field in own]
    return [field.name for field in given] == names and all(
        _fits(given.field(name).type, own.field(name).type) for name in names
    )


def _digits_fit(given: pa.DataType, own: pa.DataType) -> bool:
    fits: bool = given.scale <= own.scale and given.precision - given.scale <= own.precision - own.scale
    return fits


def _widens(own: pa.DataType, given: pa.DataType) -> bool:
    """Whether a column may change to the type of the data: int to long, float to double, and a decimal to more digits
    before the point.

    Not to more digits after it: Hudi `HoodieAvroUtils.rewritePrimaryType` keeps the bytes of a decimal whose size in
    bytes stays, so that its values would be divided by powers of ten.
    """
    if pa.types.is_decimal(own) and pa.types.is_decimal(given):
        return bool(own.scale == given.scale and own.precision < given.precision)
    return (own, given) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))


def _avro(field: pa.Field) -> AvroField:
    (parsed,) = parse_record_schema(avro_schema_json(pa.schema([field]), "t", meta_columns=False)).fields
    return parsed


def _cast(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    try:
        cast = column.cast(field.type) if column.type != field.type else column
        cast.validate(full=pa.types.is_nested(field.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(
            f"{where}: a value of column {field.name!r} does not fit its type {field.type}: {str(error)[:200]}"
        ) from None
    return cast


def check_required(rows: pa.Table, names: Collection[str], what: str, where: str, first_row: int = 0) -> None:
    """SchemaMismatch, beginning with `where`, if one of the columns is missing from the data or has a null.
    `first_row`: the number of the first row in error texts."""
    for name in names:
        if name not in rows.schema.names:
            raise SchemaMismatch(
                f"{where}: the data lacks {what} {name!r}; it has {', '.join(rows.schema.names)[:500]}"
            )
        if nulls := rows.column(name).null_count:
            place = first_row + pc.index(pc.is_null(rows.column(name)), True).as_py()
            raise SchemaMismatch(
                f"{where}: {what} {name!r} is null in {nulls} rows, the first is row {place}: got null, expected a "
                "value; nothing was written"
            )
