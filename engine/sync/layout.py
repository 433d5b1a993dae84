"""The columns and the key of a target table, and how they follow those of the source. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.proto.model.reports import TableDescription
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import META_COLUMNS, parse_record_schema

RECORD_KEY: Final = ("_hoodie_record_key", "_hoodie_partition_path")
"""The key of a table whose key or partition fields are not columns."""


@dataclass(frozen=True, slots=True)
class TargetLayout:
    """The columns of a target table."""

    columns: pa.Schema
    """The columns in order."""
    key: tuple[str, ...]
    """The columns whose values identify a row. They may be null."""
    source_column: str = ""
    """The column with the name of the source, the first one of columns and key; '': the table has one source."""


@dataclass(frozen=True, slots=True)
class LayoutChange:
    """How a target table changes before rows are written."""

    layout: TargetLayout
    """The layout after the change."""
    added: tuple[str, ...] = ()
    """Columns to add."""
    widened: tuple[str, ...] = ()
    """Columns whose type becomes the one of `layout`."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing changes."""
        return not self.added and not self.widened


def key_of(table: TableDescription, given: tuple[str, ...], columns: pa.Schema) -> tuple[str, ...]:
    """The key: the `given` columns, else the fields of the record key and the partition.

    Both together identify a row for every index of Hudi. If one of them is not a column with single values (a nested
    field, a struct, a table without key fields), the key is Hudi's `_hoodie_record_key` and `_hoodie_partition_path`,
    which the target then has. ConfigurationError for a given column that does not exist, and for a given key without
    the partition: a round may add a row to one partition, and the next round remove it from another one.
    """
    single = [one.name for one in columns if not pa.types.is_nested(one.type)]
    missing = [name for name in given if name not in single]
    if missing:
        raise ConfigurationError(
            f"table {table.table}: key {', '.join(missing)}: expected columns with single values: {', '.join(single)}"
        )
    if given:
        if not set(table.partition_fields) <= set(given) and RECORD_KEY[1] not in given:
            raise ConfigurationError(
                f"table {table.table}: key {', '.join(given)}: a row that moves to another partition could be lost: "
                f"add {', '.join(table.partition_fields)}"
            )
        return given
    fields = tuple(dict.fromkeys((*table.record_key_fields, *table.partition_fields)))
    return fields if table.record_key_fields and set(fields) <= set(single) else RECORD_KEY


def described_layout(table: TableDescription, given: tuple[str, ...], source_column: str) -> TargetLayout | None:
    """The layout for a table with this description; None: no commit has recorded a schema yet."""
    if not table.schema_json:
        return None
    columns = arrow_schema(parse_record_schema(table.schema_json, f"schema of table {table.table}"))
    return layout_of(columns, key_of(table, given, columns), source_column)


def layout_of(columns: pa.Schema, key: tuple[str, ...], source_column: str = "") -> TargetLayout:
    """The layout for a source with these columns: without Hudi's columns, but those of the key.

    `source_column` is added as the first column and becomes part of the key, if it is not ''. ConfigurationError if
    the source has a column of its name.
    """
    fields = [one for one in columns if one.name not in META_COLUMNS or one.name in key]
    if not source_column:
        return TargetLayout(pa.schema(fields), key)
    if any(one.name.casefold() == source_column.casefold() for one in fields):
        raise ConfigurationError(
            f"source_column {source_column!r}: the table has a column of this name; give another source_column"
        )
    columns = pa.schema([pa.field(source_column, pa.string()), *fields])
    return TargetLayout(columns, (source_column, *key), source_column)


def followed(table: str, old: TargetLayout, new: TargetLayout) -> LayoutChange:
    """How `old`, the layout of the target, becomes one that holds the rows of `new` too.

    Columns may be added, and widened as Hudi's schema evolution does. With a source column, a source may lack columns
    of the others, or have narrower ones. SchemaMismatch for everything else: another key, a column that is gone,
    another type.
    """
    _check_identity(table, old, new)
    known = {one.name: one.type for one in old.columns}
    gone = [name for name in known if name not in new.columns.names and not old.source_column]
    if gone:
        raise SchemaMismatch(
            f"table {table}: the source no longer has column {', '.join(gone)}: load the table again (--restart)"
        )
    added: list[pa.Field] = []
    widened: dict[str, pa.DataType] = {}
    for one in new.columns:
        before, is_key = known.get(one.name), one.name in old.key
        if before is None:
            added.append(one)
        elif one.type != before and not (old.source_column and _holds(before, one.type, is_key)):
            if not _holds(one.type, before, is_key):
                raise SchemaMismatch(
                    f"table {table}: column {one.name} is {before} in the target, {one.type} in the source, and the "
                    "stored values cannot be converted as Hudi converts them: load the table again (--restart)"
                )
            widened[one.name] = one.type
    columns = [pa.field(one.name, widened.get(one.name, one.type)) for one in old.columns]
    layout = TargetLayout(pa.schema([*columns, *added]), old.key, old.source_column)
    return LayoutChange(layout, tuple(one.name for one in added), tuple(widened))


def _check_identity(table: str, old: TargetLayout, new: TargetLayout) -> None:
    """SchemaMismatch if the two layouts identify rows in different ways."""
    if old.source_column != new.source_column:
        raise SchemaMismatch(
            f"table {table}: the target's source column is {old.source_column!r}, the job's {new.source_column!r}: "
            "load the table again (--restart), or correct the job"
        )
    if set(old.key) != set(new.key):
        raise SchemaMismatch(
            f"table {table}: the target's rows have the key ({', '.join(old.key)}), the source now has "
            f"({', '.join(new.key)}): load the table again (--restart)"
        )


def _holds(wider: pa.DataType, narrower: pa.DataType, is_key: bool) -> bool:
    """Whether a column of type `wider` holds values of type `narrower`. Keys do not become floats: two could be one."""
    return wider == narrower or (widens(narrower, wider) and not (is_key and pa.types.is_floating(wider)))


def widens(old: pa.DataType, new: pa.DataType) -> bool:
    """Whether a cast of stored values of type `old` to `new` gives what Hudi reads after this change of the schema."""
    if pa.types.is_decimal(old) and pa.types.is_decimal(new):
        return bool(new.scale >= old.scale and new.precision - new.scale >= old.precision - old.scale)
    return (str(old), str(new)) in _WIDER


_WIDER: Final = frozenset(
    {
        ("int32", "int64"),
        ("int32", "float"),
        ("int32", "double"),
        ("int32", "string"),
        ("int64", "float"),
        ("int64", "double"),
        ("int64", "string"),
        ("date32[day]", "string"),
    }
)
"""Not floats to doubles, and floats and decimals to text: Hudi converts floats by their text in Java, so 1.1 becomes
another double than by a cast."""
