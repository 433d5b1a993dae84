"""The schema of a table: recorded by commits or the table's properties, or taken from its data files.

Schemas are read from data files in two cases: no commit recorded one, or it is unknown whether the rows have the column
`_hoodie_operation`. One footer or one log file is read at a time. Source: Hudi `TableSchemaResolver`
(`getTableSchemaFromDataFile`, `hasOperationField`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.enumerator.planning.selection import TimelineFacts
from penstock.enumerator.planning.table_state import TableSchema
from penstock.proto.errors import CorruptBlock, CorruptFile, SchemaMismatch, StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import COMPLETION_TIME, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.splits import FileRef
from penstock.table.base_formats import is_parquet, read_other_footer
from penstock.table.files.external_names import stored_path
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.hudi_table import HudiTable
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from penstock.table.log.remote_bytes import RemoteBytes, RemoteRangeTooLong
from penstock.table.parquet.checks import is_storage_failure
from penstock.table.parquet.footer import read_base_footer
from penstock.table.schema.avro import OPERATION
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE
from penstock.table.schema.history import history_json
from penstock.table.schema.history_files import history_files, read_history_file
from penstock.table.schema.tables import SCHEMA_HISTORY_KEY, has_operation, table_schema_json
from penstock.table.storage.filesystem import Storage
from penstock.table.timeline.commits import CommitMetadata, WriteStat

_AVRO_KEYS: Final = (b"parquet.avro.schema", b"avro.schema")
_MAX_LOG_BYTES: Final = 2 << 30
_DATA_KINDS: Final = (BlockKind.AVRO_DATA, BlockKind.HFILE_DATA, BlockKind.PARQUET_DATA)
_ALL_NINES: Final = "9" * 24
_MAX_FILES: Final = 8
"""Files of one commit that are opened to find one that exists and is undamaged."""
_PRIMITIVES: Final[dict[pa.DataType, object]] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.time32("ms"): {"type": "int", "logicalType": "time-millis"},
    pa.time64("us"): {"type": "long", "logicalType": "time-micros"},
}


def table_schema_text(
    table: HudiTable, facts: TimelineFacts, as_of: str | None = None, *, files_upto: str | None = None
) -> str:
    """The table's schema as JSON: recorded by commits or the table's properties, else that of its newest data file.

    `_hoodie_operation` is a column if the newest data file has it; with `files_upto`, only files of instants requested
    up to that time are considered. SchemaMismatch if there is no schema.
    """
    recorded = recorded_schemas(facts, as_of)
    if any(text.strip() for text in recorded) or table.properties.create_schema.strip():
        return table_schema_json(
            recorded, table.properties, stores_operation=stores_operation(table, facts, files_upto)
        )
    file_schema = _schema_of_newest_file(table.storage, facts, _schema_order(facts, as_of))
    has_column = bool(file_schema) and has_operation(file_schema, f"the newest data file of table {facts.table}")
    return table_schema_json([file_schema], table.properties, stores_operation=has_column)


def recorded_schemas(facts: TimelineFacts, as_of: str | None = None) -> list[str]:
    """Schemas that active commits recorded, in order of preference.

    Newest first; those of services last, because a service may have started before the schema changed
    (`HoodieActiveTimeline.getLastCommitMetadataWithValidSchema`). As of a requested time: that instant's and older
    ones, newest first, then newer ones, oldest first. As of a time before every commit there are no rows.
    """
    commits = [facts.commits[instant] for instant in _schema_order(facts, as_of)]
    if as_of is None:
        commits.sort(key=lambda commit: not commit.may_change_schema)
    return [commit.schema_json for commit in commits]


def _schema_order(facts: TimelineFacts, as_of: str | None) -> list[InstantTime]:
    recorded = [item.requested_time for item in facts.timeline.completed_writes]
    if as_of is None:
        return recorded[::-1]
    visible = sum(instant <= as_of for instant in recorded)
    return [*recorded[:visible][::-1], *recorded[visible:]]


def schema_history(table: HudiTable, facts: TimelineFacts, as_of: str | None) -> str:
    """The schema-on-read history (`table.schema.history`) of the schema that `recorded_schemas` prefers, as JSON.

    '' if the table had none at that time, or if a writer without schema-on-read wrote after it: Hudi then resolves
    columns by name. Commits that cannot change a schema do not count, as in
    `TableSchemaResolver.getTableInternalSchemaFromCommitMetadata`. CorruptFile if the stored history is missing.
    """
    order = [facts.commits[item] for item in _schema_order(facts, as_of)]
    with_schema = (commit for commit in order if commit.schema_json.strip())
    writer = next((commit for commit in with_schema if commit.may_change_schema), None)
    chosen = writer or next((commit for commit in order if commit.schema_json.strip()), None)
    if chosen is None:
        return ""
    current = chosen.extra.get(SCHEMA_HISTORY_KEY, "")
    if not current.strip():
        return ""
    stored = history_files(table.storage)
    if not stored:
        raise CorruptFile(
            f"table {facts.table}: commit {chosen.requested_time} uses a schema-on-read history, and .hoodie/.schema "
            "holds none: restore it, or read with columnsByName=on"
        )
    return history_json(current, read_history_file(table.storage, stored[-1][1]), f"table {facts.table}")


def stores_operation(table: HudiTable, facts: TimelineFacts, upto: str | None = None) -> bool:
    """Whether the rows of the table have the column `_hoodie_operation`.

    The files of the newest active commit that inserted or updated rows decide, whatever instant the query is as of;
    with `upto`, the newest of those requested up to that time. False if none of these files can be read. Opens one file
    (`commit_has_operation`). StorageError.
    """
    if not table.properties.populate_meta_fields:
        return False
    timeline = facts.timeline
    last = upto if upto is not None else _ALL_NINES
    active = [item for item in timeline.completed_writes if timeline.first_active <= item.requested_time <= last]
    newest = next((item for item in reversed(active) if _written(facts.commits[item.requested_time])), None)
    if newest is None:
        return False
    return bool(commit_has_operation(table, facts, newest.requested_time))


def commit_has_operation(table: HudiTable, facts: TimelineFacts, instant: InstantTime) -> bool | None:
    """Whether the files of this commit have the column `_hoodie_operation`; None if none of them can be read.

    The answer is cached for this version of the commit's file, until another clean completes. StorageError.
    """
    last_clean = max((item.requested_time for item in facts.timeline.completed_cleans), default="")
    stats = _written(facts.commits[instant])
    completed = facts.timeline.completed_write(instant)
    key = ("operation", instant, completed and table.listed_file(completed), last_clean)
    return table.derived_once(key, lambda: _files_have_operation(table.storage, stats))


def _written(commit: CommitMetadata) -> list[WriteStat]:
    """The stats of files with inserted or updated rows (`TableSchemaResolver.commitHasInsertOrUpdate`)."""
    return [stat for stat in commit.stats if stat.path and (stat.num_inserts > 0 or stat.num_update_writes > 0)]


def _files_have_operation(storage: Storage, stats: Sequence[WriteStat]) -> bool | None:
    """The answer of the first file that has a schema. One writer wrote all of them, so cheap files are read first."""
    by_cost = sorted(stats, key=lambda stat: (stat.file_name.startswith("."), stat.path))
    for stat in by_cost[:_MAX_FILES]:
        try:
            has_column = _file_has_operation(storage, stored_path(stat.path), stat)
        except CorruptFile:
            continue
        if has_column is not None:
            return has_column
    return None


def _file_has_operation(storage: Storage, path: str, stat: WriteStat) -> bool | None:
    """None for a log without a data block. CorruptFile for a missing or damaged file; StorageError."""
    name = parse_file_name(stat.file_name)
    if not isinstance(name, LogName):
        file = FileRef(path, max(stat.file_size_bytes, 0))
        if not is_parquet(path):
            return OPERATION in read_other_footer(storage, file).names
        schema = read_base_footer(storage, file).schema
        return any(schema.column(place).path == OPERATION for place in range(len(schema)))
    try:
        with storage.open_input(path) as source:
            schema_json = _last_schema(RemoteBytes(source), path)
    except (CorruptBlock, RemoteRangeTooLong, FileNotFoundError) as error:
        raise CorruptFile(f"log file {path} has no readable schema: {str(error)[:200]}") from error
    except (OSError, pa.ArrowException) as error:
        detail = str(error).partition("\n")[0][:200]
        if isinstance(error, OSError) and not is_storage_failure(error):
            raise CorruptFile(f"log file {path} has no readable schema: {detail}") from error
        raise StorageError(f"log file {path} cannot be read: {detail}; a retry may succeed") from error
    return has_operation(schema_json, f"log file {path}") if schema_json else None


def _schema_of_newest_file(storage: Storage, facts: TimelineFacts, instants: Iterable[str]) -> str:
    """The Avro schema (JSON) of the first existing file of these instants' commits that has one; '' if none has.

    CorruptFile for a file that cannot be read; SchemaMismatch for a type without an Avro form.
    """
    for instant in instants:
        for stat in facts.commits[instant].stats:
            name = parse_file_name(stat.file_name) if stat.path else None
            path = stored_path(stat.path)
            info = storage.file_info(path) if name is not None else None
            if info is None:
                continue
            if isinstance(name, LogName):
                file_schema = "" if name.is_cdc else _schema_of_log(storage, path)
            elif is_parquet(path):
                file_schema = schema_of_footer(read_base_footer(storage, FileRef(path, info.size_bytes)), path)
            else:
                file_schema = read_other_footer(storage, FileRef(path, info.size_bytes)).avro_json
            if file_schema:
                return file_schema
    return ""


def schema_of_footer(footer: pq.FileMetaData, path: str) -> str:
    """The Avro schema that the writer stored in a Parquet footer, else one derived from the footer's columns."""
    metadata = footer.metadata or {}
    written = next((metadata[key] for key in _AVRO_KEYS if key in metadata), None)
    if written is not None:
        return str(written, "utf-8", "replace")
    fields = [_field(field, path, str(place)) for place, field in enumerate(footer.schema.to_arrow_schema())]
    return json.dumps({"type": "record", "name": "table", "fields": fields})


def _schema_of_log(storage: Storage, path: str) -> str:
    return _last_schema(memoryview(storage.read_bytes(path, _MAX_LOG_BYTES)), path)


def _last_schema(data: memoryview | RemoteBytes, path: str) -> str:
    """The Avro schema of a log's last data block that is not partial; '' without one (Hudi `readSchemaFromLogFile`)."""
    last = ""
    for block in read_blocks(data, path):
        if isinstance(block, LogBlock) and block.kind in _DATA_KINDS:
            last = block.header.schema_json if not block.header.is_partial else last
    return last


def _field(field: pa.Field, path: str, number: str) -> dict[str, object]:
    kind = _avro(field.type, f"{path}: column {field.name!r}", number)
    if field.nullable:
        return {"name": field.name, "type": ["null", kind], "default": None}
    return {"name": field.name, "type": kind}


def _slot(field: pa.Field, where: str, number: str) -> object:
    kind = _avro(field.type, where, number)
    return ["null", kind] if field.nullable else kind


def _avro(kind: pa.DataType, where: str, number: str) -> object:
    """The Avro type of an Arrow type. `number` makes the names of nested records unique."""
    if pa.types.is_timestamp(kind):
        unit = "millis" if kind.unit == "ms" else "micros"
        return {"type": "long", "logicalType": f"{'' if kind.tz else 'local-'}timestamp-{unit}"}
    if pa.types.is_decimal128(kind):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    if pa.types.is_fixed_size_binary(kind):
        return {"type": "fixed", "name": f"fixed{number}", "size": kind.byte_width}
    if pa.types.is_map(kind):
        return {"type": "map", "values": _slot(kind.item_field, where, f"{number}_0")}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _slot(kind.value_field, where, f"{number}_0")}
    if pa.types.is_struct(kind):
        fields = [_field(child, where, f"{number}_{place}") for place, child in enumerate(kind)]
        return {"type": "record", "name": f"record{number}", "fields": fields}
    if kind not in _PRIMITIVES:
        raise SchemaMismatch(f"{where}: no schema is recorded, and type {kind} of the newest file has no Avro form")
    return _PRIMITIVES[kind]


def schema_instant(request: PlanRequest, facts: TimelineFacts, newest: TableSchema) -> InstantTime | None:
    """The instant whose schema a range is read with, if the `newest` schema lacks a requested column.

    It is the requested time of the range's last instant by order key. None if no column is lacking, and for queries
    without an explicit end.
    """
    query = request.query
    if not isinstance(query, Incremental | Changes) or not isinstance(query.upto, Position):
        return None
    if isinstance(query, Changes) and query.format is ChangeFormat.HUDI:
        return None
    change_columns = (CHANGE_TYPE, CHANGE_INSTANT, CHANGE_SEQ) if isinstance(query, Changes) else ()
    names = {field.name.lower() for field in newest.record.fields}
    names.update(change_columns)
    if request.completion_time:
        names.add(COMPLETION_TIME)
    if all(name.lower() in names for name in request.columns):
        return None
    inside = [
        (facts.timeline.order_key(item), item.requested_time)
        for item in facts.timeline.completed_writes
        if facts.timeline.order_key(item) <= query.upto.order_key
    ]
    return max(inside)[1] if inside else None
