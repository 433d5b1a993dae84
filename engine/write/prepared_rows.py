"""The rows of a write, ready to be assigned to file groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.operations import Operation
from penstock.engine.write.settings import WriteSettings
from penstock.proto.errors import ConfigurationError, InvariantViolation, SchemaMismatch
from penstock.reader.merge.fold import RecordKind
from penstock.reader.values.record_keys import NoKey
from penstock.table.log.block_encoder import delete_decimals
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import OPERATION, RecordSchema
from penstock.writer.rows.keyed_rows import (
    IS_DELETED,
    Deletes,
    KeyedRows,
    check_keys,
    combined,
    compacted,
    kinds_of,
    marked_deletes,
)
from penstock.writer.rows.partition_paths import RowPartitions
from penstock.writer.rows.row_operations import INSERTED, has_operations, removes_row, with_operations
from penstock.writer.rows.write_schema import WriteSchema, check_required, write_schema


@dataclass(frozen=True, slots=True)
class RowPreparation:
    """How data becomes rows that are assigned to file groups. Rows that are prepared can be prepared again."""

    settings: WriteSettings
    """The table's settings."""
    operation: Operation
    """The operation."""
    in_table: bool = False
    """Whether a key is unique in the table, not in its partition."""

    def rows(self, current: CurrentTable, data: pa.Table, first_row: int = 0) -> tuple[WriteSchema, KeyedRows]:
        """The write's schema, and its rows with keys, partitions and ordering values. Rows of one key are not combined.

        SchemaMismatch for data that does not fit the table, a null in a key or ordering column, or a key column that is
        missing. Of deletes, only the columns of keys and partitions are used; with a global index those of keys. Of
        deleted partitions, only the partition columns are used, and no rows remain. `first_row`: the number of the
        first row in error texts.
        """
        settings, where = self.settings, self.settings.where
        if self.operation.deletes_partitions:
            return _named_partitions(settings, current, data)
        check_present(data, self._identity, where)
        data = self.stored(data)
        stores = settings.stores_operations or current.stores_operations
        schema = write_schema(current.record, data.schema, settings.properties.name, where, stores_operations=stores)
        _check_types(current.record, schema, self._identity, settings.ordering_fields, where)
        conformed = schema.conformed(data, where, stored=not self.operation.deletes)
        if stores and not self.operation.deletes:
            conformed = self._with_operations(conformed, first_row)
        rows = compacted(conformed.to_batches(), conformed.schema)
        keys = _keys(settings, data, rows, schema.stored, first_row)
        deletes = Deletes.ALL if self.operation.deletes else Deletes.MARKED
        ordering = settings.ordering(schema.columns)
        parts: list[list[pa.Array]] = []
        if ordering and deletes is Deletes.MARKED:
            check_required(conformed, settings.ordering_fields, "ordering column", where, first_row)
            parts = [ordering.parts(batch) for batch in rows.select(list(ordering.names)).to_batches()]
        default = [ordering.without_value(some) for some in parts]
        keyed = KeyedRows(
            rows=rows,
            keys=keys,
            partitions=settings.paths.of_rows(rows, where),
            kinds=kinds_of(
                rows,
                deletes,
                marked_deletes(rows) | removes_row(rows),
                np.concatenate(default) if default else np.ones(len(rows), bool),
            ),
            ordering=tuple(pa.chunked_array(list(chunks)) for chunks in zip(*parts, strict=True)),
        )
        if settings.properties.is_merge_on_read:
            _check_deletes(keyed, where)
        return schema, keyed

    def checked_columns(self, current: CurrentTable, columns: pa.Schema) -> tuple[str, ...]:
        """The columns of the data that decide how rows are written, or that may have values that do not fit. `rows` of
        these alone has the same keys, partitions, kinds and errors as of all."""
        used = self.stored(columns.empty_table())
        schema, _ = self.rows(current, used)
        deciding = {*used_columns(used, self._identity).schema.names, *self.settings.ordering_fields}
        deciding |= {IS_DELETED, OPERATION}
        return tuple(field.name for field in used.schema if field.name in deciding or not schema.always_fits(field))

    def combined(self, rows: KeyedRows) -> KeyedRows:
        """One row for each key of a partition, or of the table, if the operation combines rows."""
        return combined(rows, self.settings.mode, in_table=self.in_table) if self.combines(rows) else rows

    def combines(self, rows: KeyedRows) -> bool:
        """Whether rows of one key are combined. Logs keep each row that has an operation."""
        is_changelog = self.settings.properties.is_merge_on_read and has_operations(rows.rows)
        return self.operation.combines and not is_changelog

    def stored(self, data: pa.Table) -> pa.Table:
        """The columns that the operation uses."""
        return used_columns(data, self._identity) if self.operation.deletes else data

    def stored_schema(self, current: CurrentTable, columns: pa.Schema) -> pa.Schema:
        """The columns of prepared rows that the operation uses, for data with these columns."""
        return self.stored(self.rows(current, columns.empty_table())[1].rows).schema

    def _with_operations(self, rows: pa.Table, first_row: int) -> pa.Table:
        """The rows with their operations. Files of a copy-on-write table store none of the rows that they get."""
        is_log = self.settings.properties.is_merge_on_read and not (
            self.operation.replaces or self.operation.only_new_groups
        )
        default = "" if self.operation.searches_keys else INSERTED
        marked = marked_deletes(rows)
        return with_operations(rows, marked, self.settings.where, first_row, default=default, required=is_log)

    @property
    def _identity(self) -> tuple[str, ...]:
        """The columns that a row needs. A delete whose key is searched in all partitions needs no partition."""
        if self.in_table and self.operation.deletes:
            return self.settings.key_fields
        return (*self.settings.key_fields, *self.settings.paths.fields)


def rows_of_partitions(preparation: RowPreparation, current: CurrentTable, chunks: Iterable[pa.Table]) -> pa.Table:
    """A row of each partition that the data names, with the partition columns only. Errors of `RowPreparation.rows`."""
    named: pa.Table | None = None
    for chunk in chunks:
        preparation.rows(current, chunk)
        columns = _stored_partition_columns(preparation.settings, current, chunk)
        named = columns if named is None else pa.concat_tables([named, columns])
        named = named.take(pa.array(one_of_each_partition(preparation, current, named)))
    if named is None:
        raise InvariantViolation("data without a chunk")
    return named


def one_of_each_partition(preparation: RowPreparation, current: CurrentTable, data: pa.Table) -> np.ndarray:
    """The place of one row of each partition that the data names. SchemaMismatch for a row that names none."""
    settings = preparation.settings
    rows = _stored_partition_columns(settings, current, data)
    return np.unique(settings.paths.of_rows(rows, settings.where).numbers, return_index=True)[1]


def _stored_partition_columns(settings: WriteSettings, current: CurrentTable, data: pa.Table) -> pa.Table:
    """The partition columns of the data as the table stores them."""
    some = used_columns(data, settings.paths.fields)
    schema = write_schema(current.record, some.schema, settings.properties.name, settings.where)
    return schema.conformed(some, settings.where, stored=False).select(some.schema.names)


def used_columns(data: pa.Table, fields: tuple[str, ...]) -> pa.Table:
    """The columns of the data that hold these fields."""
    tops = {top_column(data, name) for name in fields}
    return data.select([place for place, name in enumerate(data.schema.names) if name in tops])


def _named_partitions(settings: WriteSettings, current: CurrentTable, data: pa.Table) -> tuple[WriteSchema, KeyedRows]:
    """No rows, in the partitions of the data. ConfigurationError for a table without partitions."""
    where, fields = settings.where, settings.paths.fields
    if not fields:
        raise ConfigurationError(
            f"{where} has no partitions, which delete_partition could delete: use insert_overwrite_table without rows"
        )
    check_present(data, fields, where)
    named = used_columns(data, fields)
    schema = write_schema(current.record, named.schema, settings.properties.name, where)
    rows = schema.conformed(named, where, stored=False)
    paths = settings.paths.of_rows(rows, where).paths if rows.num_rows else ()
    none = np.zeros(0, np.int64)
    keyed = KeyedRows(
        rows=rows.slice(0, 0),
        keys=pa.chunked_array([], pa.string()),
        partitions=RowPartitions(paths, none),
        kinds=none.astype(np.uint8),
        ordering=(),
    )
    return schema, keyed


def _check_types(
    record: RecordSchema | None, schema: WriteSchema, names: tuple[str, ...], ordering: tuple[str, ...], where: str
) -> None:
    """SchemaMismatch for another type of a key or partition column, unless both are whole numbers: the text of a key
    would change. Also for another type of an ordering column: the ordering values of deletes in logs keep theirs, and
    no reader compares an int with a long."""
    for field in arrow_schema(record) if record is not None else ():
        if field.name in names or field.name in ordering:
            changed = schema.columns.field(field.name).type
            widens = pa.types.is_integer(changed) and pa.types.is_integer(field.type) and field.name not in ordering
            if changed != field.type and not widens:
                raise SchemaMismatch(
                    f"{where}: column {field.name!r} is {changed}, and {field.type} in the table: a column of keys, "
                    "partitions or ordering keeps its type; cast the column; nothing was written"
                )


def _check_deletes(rows: KeyedRows, where: str) -> None:
    """SchemaMismatch for the ordering value of a delete that no log can hold, before the timeline changes."""
    deleted = pa.array(rows.kinds == RecordKind.DELETE)
    for column in rows.ordering:
        if pa.types.is_decimal128(column.type):
            try:
                for chunk in column.filter(deleted).chunks:
                    delete_decimals(chunk)
            except SchemaMismatch as error:
                raise SchemaMismatch(f"{where}: ordering value of a delete: {error}; nothing was written") from None


def check_present(data: pa.Table, fields: tuple[str, ...], where: str) -> None:
    """SchemaMismatch if a key or partition column is missing from the data."""
    for name in fields:
        if top_column(data, name) not in data.schema.names:
            check_required(data, [name], "column", where)


def top_column(data: pa.Table, name: str) -> str:
    """The column that holds a field: itself, or the first part of its path."""
    return name if name in data.schema.names else name.partition(".")[0]


def _keys(
    settings: WriteSettings, data: pa.Table, rows: pa.Table, record: RecordSchema, first_row: int
) -> pa.ChunkedArray:
    where, fields = settings.where, settings.key_fields
    maker = settings.keys(record)
    if len(fields) == 1 and fields[0] in data.schema.names:
        check_required(data, fields, "key column", where, first_row)
    try:
        chunks = [maker.keys(batch) for batch in rows.select(list(maker.columns())).to_batches()]
    except NoKey as error:
        raise SchemaMismatch(f"{where}: a row {error}, which is a key column: nothing was written") from None
    if settings.key_is_named:
        chunks = [pc.binary_join_element_wise(f"{fields[0]}:", keys, "") for keys in chunks]
    keys = pa.chunked_array(chunks, pa.string())
    check_keys(keys, fields, where, first_row)
    return keys
