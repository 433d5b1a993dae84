"""The rows of a write, ready to be assigned to file groups."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.operations import Operation
from penstock.engine.write.settings import WriteSettings
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.reader.values.record_keys import NoKey
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema
from penstock.writer.rows.keyed_rows import (
    Deletes,
    KeyedRows,
    check_keys,
    combined,
    kinds_of,
    marked_deletes,
    one_batch,
)
from penstock.writer.rows.partition_paths import RowPartitions
from penstock.writer.rows.write_schema import WriteSchema, check_required, write_schema


def prepared_rows(
    settings: WriteSettings, operation: Operation, current: CurrentTable, data: pa.Table
) -> tuple[WriteSchema, KeyedRows]:
    """The write's schema, and its rows with keys, partitions and ordering values.

    Rows of one key are combined if the operation says so. SchemaMismatch for data that does not fit the
    table, a null in a key or ordering column, or a key column that is missing; nothing was written then. Of deletes,
    only the columns of keys and partitions are used. Of deleted partitions, only the partition columns are used, and no
    rows remain.
    """
    where = settings.where
    if operation.deletes_partitions:
        return _named_partitions(settings, current, data)
    identity = (*settings.key_fields, *settings.paths.fields)
    check_present(data, identity, where)
    if operation.deletes:
        tops = {top_column(data, name) for name in identity}
        data = data.select([place for place, name in enumerate(data.schema.names) if name in tops])
    schema = write_schema(current.record, data.schema, settings.properties.name, where)
    _check_types(current.record, schema, (*identity, *settings.ordering_fields), where)
    rows = schema.conformed(data, where, stored=not operation.deletes).combine_chunks()
    keys = _keys(settings, data, rows, schema.stored)
    deletes = Deletes.ALL if operation.deletes else Deletes.MARKED
    ordering = settings.ordering(schema.columns)
    parts: tuple[pa.Array, ...] = ()
    if ordering and deletes is Deletes.MARKED:
        check_required(data, settings.ordering_fields, "ordering column", where)
        parts = tuple(ordering.parts(one_batch(rows.select(list(ordering.names)), where)))
    marked = marked_deletes(rows)
    default = ordering.without_value(list(parts)) if parts else np.ones(rows.num_rows, bool)
    keyed = KeyedRows(
        rows=rows,
        keys=keys,
        partitions=settings.paths.of_rows(rows, where),
        kinds=kinds_of(rows, deletes, marked, default),
        ordering=parts,
    )
    return schema, combined(keyed, settings.mode) if operation.combines else keyed


def _named_partitions(settings: WriteSettings, current: CurrentTable, data: pa.Table) -> tuple[WriteSchema, KeyedRows]:
    """No rows, in the partitions of the data. ConfigurationError for a table without partitions."""
    where, fields = settings.where, settings.paths.fields
    if not fields:
        raise ConfigurationError(
            f"{where} has no partitions, which delete_partition could delete: use insert_overwrite_table without rows"
        )
    check_present(data, fields, where)
    tops = {top_column(data, name) for name in fields}
    named = data.select([place for place, name in enumerate(data.schema.names) if name in tops])
    schema = write_schema(current.record, named.schema, settings.properties.name, where)
    rows = schema.conformed(named, where, stored=False).combine_chunks()
    paths = settings.paths.of_rows(rows, where).paths if rows.num_rows else ()
    none = np.zeros(0, np.int64)
    keyed = KeyedRows(
        rows=rows.slice(0, 0),
        keys=pa.array([], pa.string()),
        partitions=RowPartitions(paths, none),
        kinds=none.astype(np.uint8),
        ordering=(),
    )
    return schema, keyed


def _check_types(record: RecordSchema | None, schema: WriteSchema, names: tuple[str, ...], where: str) -> None:
    """SchemaMismatch for another type of a key, partition or ordering column, unless both are whole numbers: the text
    of a key, or the order of values, would change."""
    for field in arrow_schema(record) if record is not None else ():
        if field.name in names:
            changed = schema.columns.field(field.name).type
            if changed != field.type and not (pa.types.is_integer(changed) and pa.types.is_integer(field.type)):
                raise SchemaMismatch(
                    f"{where}: column {field.name!r} is {changed}, and {field.type} in the table: a column of keys, "
                    "partitions or ordering keeps its type; cast the column; nothing was written"
                )


def check_present(data: pa.Table, fields: tuple[str, ...], where: str) -> None:
    """SchemaMismatch if a key or partition column is missing from the data."""
    for name in fields:
        if top_column(data, name) not in data.schema.names:
            check_required(data, [name], "column", where)


def top_column(data: pa.Table, name: str) -> str:
    """The column that holds a field: itself, or the first part of its path."""
    return name if name in data.schema.names else name.partition(".")[0]


def _keys(settings: WriteSettings, data: pa.Table, rows: pa.Table, record: RecordSchema) -> pa.Array:
    where, fields = settings.where, settings.key_fields
    maker = settings.keys(record)
    if len(fields) == 1 and fields[0] in data.schema.names:
        check_required(data, fields, "key column", where)
    try:
        keys = maker.keys(one_batch(rows.select(list(maker.columns())), where))
    except NoKey as error:
        raise SchemaMismatch(f"{where}: a row {error}, which is a key column: nothing was written") from None
    if settings.key_is_named:
        keys = pc.binary_join_element_wise(f"{fields[0]}:", keys, "")
    check_keys(keys, fields, where)
    return keys
