"""`penstock.create_table`: creates an empty Hudi table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from penstock.engine.write.index.index_choice import INDEX_NAMES, refuse_other_index
from penstock.engine.write.settings import RECORD_KEY_OPTION, check_key_form
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.reader.merge.ordering import check_ordering_type
from penstock.reader.values.field_paths import field_type
from penstock.table.config.change_logging import ChangeLogging
from penstock.table.config.java_properties import format_properties
from penstock.table.config.new_table import NewTable, new_table_properties
from penstock.table.config.properties import META_FOLDER, PROPERTIES_FILE
from penstock.table.files.buckets import BUCKETS, INDEX_TYPE, MAX_BUCKETS
from penstock.table.schema.avro import META_COLUMNS, OPERATION
from penstock.table.schema.avro_text import avro_schema_json, stored_arrow_schema
from penstock.table.storage.local_writes import WritableStorage, open_writable
from penstock.table.storage.uris import redacted_uri
from penstock.writer.metadata_table.create import create_metadata_table
from penstock.writer.rows.chunks import without_pandas_index
from penstock.writer.rows.key_types import check_key_type, check_partition_type
from penstock.writer.rows.row_operations import STORES_OPERATIONS
from penstock.writer.rows.timestamp_partitions import PREFIX
from penstock.writer.rows.timestamp_partitions import time_partitions as parsed_options
from penstock.writer.transaction.clock import next_time

_TYPES: Final = {"merge_on_read": "MERGE_ON_READ", "copy_on_write": "COPY_ON_WRITE"}
_CHANGELOG_PROPERTIES: Final = {STORES_OPERATIONS: "true", "hoodie.write.ignore.failed": "false"}
"""Spark's writer takes options from a table's properties. It gives rows no operation, so that it cannot append them to
logs: by default it ignores this failure, and completes a write whose rows are lost."""
_FOLDERS: Final = {1: (".aux", ".temp", ".schema", "archived"), 2: (".aux", ".temp", ".schema", "timeline/history")}


def create_table(
    path: str,
    schema: pa.Schema,
    *,
    record_key: str | Sequence[str],
    partition_by: str | Sequence[str] = (),
    ordering: str | Sequence[str] = (),
    table_type: str = "merge_on_read",
    table_version: int = 9,
    index: str = "bucket",
    buckets: int | None = None,
    name: str = "",
    hive_style_partitioning: bool = False,
    url_encode_partitions: bool = False,
    key_generator: str | None = None,
    time_partitions: Mapping[str, str] | None = None,
    change_logging: str | None = None,
    store_operations: bool = False,
    metadata_table: bool = False,
) -> None:
    """Creates an empty table at `path`, which Hudi and Penstock read and write.

    * schema: the data columns, without Hudi's meta columns.
    * record_key: the columns of the record key. partition_by: those of the partitions. ordering: those whose higher
      value wins among rows of one key; without one the newer row wins.
    * table_type: `merge_on_read` or `copy_on_write`. table_version: 9 (Hudi 1.1 and later), or 6 (0.14 and later).
    * index: `bucket`, with `buckets` of each partition, `simple`, `bloom`, `global_simple` or `global_bloom`. Hudi does
      not store it: give the same index to all writers. With a global index a key is unique in the table, with the
      others in its partition.
    * key_generator: SIMPLE, COMPLEX or NON_PARTITION, which follow from the columns, TIMESTAMP (one partition column of
      times), or CUSTOM (version 9; `partition_by` has `column:SIMPLE` and `column:TIMESTAMP`).
    * time_partitions: Hudi's options `hoodie.keygen.timebased.*` without this prefix, for times as partitions, such as
      `timestamp.type`, `output.dateformat` and `output.timezone`. The table records them.
    * name: the table's name; by default that of the folder.
    * store_operations: a changelog: files store the operation of each row, `_hoodie_operation` (I, -U, U or D), which
      writes give. Hudi does not store this option: its writers need `hoodie.allow.operation.metadata.field`=true.
    * change_logging: `op_key_only`, `data_before` or `data_before_after`: what all writers log of each changed row, for
      queries of changes (`hoodie.table.cdc.supplemental.logging.mode`); by default nothing.
    * metadata_table: whether the table has a metadata table from the start (version 9), with the partition `files`.
      Hudi adds its other partitions with its first write.

    ConfigurationError for settings that do not fit, or a folder that holds a table; SchemaMismatch for columns that a
    table cannot have. Nothing is created then.
    """
    storage = open_writable(str(path))
    where = f"table {redacted_uri(storage.base_path)}"
    keys, partitions, order = (_names(given) for given in (record_key, partition_by, ordering))
    stored = stored_arrow_schema(without_pandas_index(schema))
    _check_kind(table_type, table_version, where, metadata_table=metadata_table)
    table_name = name or storage.base_path.rstrip("/").rpartition("/")[2]
    table = NewTable(
        name=table_name,
        database="",
        table_type=_TYPES[table_type],
        version=table_version,
        record_key_fields=keys,
        partition_fields=partitions,
        ordering_fields=order,
        key_generator=(key_generator or _key_generator(keys, partitions)).upper(),
        hive_style=hive_style_partitioning,
        url_encode=url_encode_partitions,
        create_schema_json=avro_schema_json(stored, table_name, meta_columns=False),
        change_logging=_change_logging(change_logging, where),
    )
    properties = _properties(table, stored, time_partitions or {}, where)
    properties |= _index_properties(index, buckets, keys, where)
    _create(storage, properties | (_CHANGELOG_PROPERTIES if store_operations else {}), where)
    if metadata_table:
        create_metadata_table(storage, table.name, {}, next_time(datetime.now(UTC), UTC, "", where))


def _check_kind(table_type: str, version: int, where: str, *, metadata_table: bool) -> None:
    if table_type not in _TYPES:
        raise ConfigurationError(f"table_type: got {table_type[:40]!r}, expected {' or '.join(_TYPES)}")
    if metadata_table and version != 9:
        raise ConfigurationError(f"{where}: metadata_table needs version 9; got {version}")


def _properties(table: NewTable, schema: pa.Schema, times: Mapping[str, str], where: str) -> dict[str, str]:
    """The properties of the table, if a table may have these columns. Errors as `create_table`."""
    named = _time_properties(table, times, where)
    _check_columns(table, schema, named, where)
    check_key_form(table.key_generator, table.record_key_fields, table.version, where)
    return {**new_table_properties(table), **named}


def _create(storage: WritableStorage, properties: Mapping[str, str], where: str) -> None:
    """Creates the table's folders and its properties, which make it a table. ConfigurationError if it exists."""
    layout = int(properties["hoodie.timeline.layout.version"])
    names = [info.name for info in storage.list_dir(META_FOLDER)]
    if any(name.startswith("hoodie.properties") and not name.endswith(".tmp") for name in names):
        raise ConfigurationError(f"{where} exists; write into it, or give another folder")
    for folder in _FOLDERS[layout]:
        storage.make_folder(f"{META_FOLDER}/{folder}")
    try:
        storage.create(PROPERTIES_FILE, format_properties(properties, ("Properties saved",)))
    except FileExistsError:
        raise ConfigurationError(f"{where} was created by another process at the same time") from None


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _change_logging(given: str | None, where: str) -> ChangeLogging | None:
    if given is not None and given not in list(ChangeLogging):
        expected = ", ".join(ChangeLogging)
        raise ConfigurationError(f"{where}: change_logging: got {given[:40]!r}, expected one of {expected}")
    return None if given is None else ChangeLogging(given)


def _key_generator(keys: Sequence[str], partitions: Sequence[str]) -> str:
    if not partitions:
        return "NON_PARTITION"
    return "SIMPLE" if len(keys) == 1 and len(partitions) == 1 else "COMPLEX"


def _time_properties(table: NewTable, options: Mapping[str, str], where: str) -> dict[str, str]:
    """The properties of time partitions. ConfigurationError if they do not fit the key generator."""
    named = {f"{PREFIX}{name.removeprefix(PREFIX)}": value for name, value in options.items()}
    has_times = table.key_generator == "TIMESTAMP" or any(
        name.endswith(":TIMESTAMP") for name in table.partition_fields
    )
    if table.key_generator == "CUSTOM" and table.version < 9:
        raise ConfigurationError(
            f"{where}: key generator CUSTOM needs version 9: tables of version {table.version} do not record which "
            "partition columns are times"
        )
    if named and not has_times:
        raise ConfigurationError(f"{where}: got time_partitions, and no partition column is a TIMESTAMP")
    return named


def _check_columns(table: NewTable, schema: pa.Schema, times: Mapping[str, str], where: str) -> None:
    """SchemaMismatch or UnsupportedFeature for a column that a write would refuse."""
    reserved = [name for name in schema.names if name in (*META_COLUMNS, OPERATION)]
    if reserved:
        raise SchemaMismatch(f"{where}: column {reserved[0]!r} is one of Hudi's own: leave it out")
    partitions = [column.partition(":")[0] for column in table.partition_fields]
    for what, names in (("partition_by", partitions), ("ordering", table.ordering_fields)):
        for column in names:
            if column not in schema.names:
                raise _no_column(what, column, schema, where)
    for column in table.record_key_fields:
        kind = field_type(schema, column)
        if kind is None:
            raise _no_column("record_key", column, schema, where)
        check_key_type(kind, f"{where}: key column {column!r}")
    for column, field in zip(partitions, table.partition_fields, strict=True):
        is_time = table.key_generator == "TIMESTAMP" or field.endswith(":TIMESTAMP")
        form = parsed_options(times, where) if is_time else None
        check_partition_type(schema.field(column).type, form, f"{where}: partition column {column!r}")
    for column in table.ordering_fields:
        kind = schema.field(column).type
        check_ordering_type(kind, f"{where}: ordering column {column!r}")
        if pa.types.is_date(kind):
            raise SchemaMismatch(
                f"{where}: ordering column {column!r} is a date: releases of Hudi read the ordering values of deletes "
                "differently then; order by a timestamp or a number"
            )


def _no_column(what: str, column: str, schema: pa.Schema, where: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"{where}: {what} names column {column!r}, and the schema has {', '.join(schema.names)[:500]}"
    )


def _index_properties(index: str, buckets: int | None, keys: Sequence[str], where: str) -> dict[str, str]:
    """The index, which Hudi's writers and procedures then use. Its procedures know the record key only from the option
    of writers, and fail without it on a bucket index (Hudi `HoodieIndexConfig.validateBucketIndexConfig`)."""
    refuse_other_index(index, where)
    if index in INDEX_NAMES[1:] and buckets is None:
        return {INDEX_TYPE: index.upper()}
    if index == "bucket" and buckets is not None and 1 <= buckets < MAX_BUCKETS:
        return {INDEX_TYPE: "BUCKET", BUCKETS: str(buckets), RECORD_KEY_OPTION: ",".join(keys)}
    others = ", ".join(INDEX_NAMES[1:])
    raise ConfigurationError(
        f"{where}: got index={index[:40]!r} and buckets={buckets}, expected index='bucket' with the number of "
        f"buckets of a partition (about its final size in GB), or one of {others} without"
    )
