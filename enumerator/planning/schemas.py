"""What a table's schema takes from its data files: the whole of it if no commit recorded one, else whether the rows
have the column `_hoodie_operation`.

Shell: reads one footer or one log file at a time. Source: Hudi `TableSchemaResolver` (`getTableSchemaFromDataFile`,
`hasOperationField`). Not here: which recorded schema counts (`table.schema.tables`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.enumerator.planning.event_time.bounds import read_footer
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.errors import CorruptBlock, CorruptFile, SchemaMismatch, StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.splits import FileRef
from penstock.table.files.external_names import stored_path
from penstock.table.files.names import LogName, parse_file_name
from penstock.table.hudi_table import HudiTable
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from penstock.table.log.remote_bytes import RemoteBytes, RemoteRangeTooLong
from penstock.table.parquet.checks import is_storage_failure
from penstock.table.schema.avro import OPERATION, parse_record_schema
from penstock.table.schema.changes import CHANGE_INSTANT, CHANGE_SEQ, CHANGE_TYPE
from penstock.table.schema.tables import has_operation
from penstock.table.storage.filesystem import Storage
from penstock.table.timeline.commits import CommitMetadata, WriteStat

_AVRO_KEYS: Final = (b"parquet.avro.schema", b"avro.schema")
_MOST_LOG_BYTES: Final = 2 << 30
_LAST: Final = "9" * 24
_MOST_FILES: Final = 8
"""Files of one commit that are opened in search of one that is still there and whole."""
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


def stores_operation(table: HudiTable, facts: TimelineFacts, upto: str | None = None) -> bool:
    """Whether the rows of the table have the column `_hoodie_operation`: as the files say of the newest active commit
    (of those requested up to `upto`, if given) that inserted or updated rows, whatever instant the query is as of.
    False if none of these files can be read.

    One file is opened for each newest write, as `commit_has_operation` says. StorageError.
    """
    if not table.properties.populate_meta_fields:
        return False
    timeline = facts.timeline
    last = upto if upto is not None else _LAST
    active = [item for item in timeline.completed_writes if timeline.first_active <= item.requested_time <= last]
    newest = next((item for item in reversed(active) if _written(facts.commits[item.requested_time])), None)
    if newest is None:
        return False
    return bool(commit_has_operation(table, facts, newest.requested_time))


def commit_has_operation(table: HudiTable, facts: TimelineFacts, instant: InstantTime) -> bool | None:
    """Whether the files that this write filled have the column `_hoodie_operation`; None if none of them can be read.

    The answer is kept with the table until another clean completes. StorageError.
    """
    last_clean = max((item.requested_time for item in facts.timeline.completed_cleans), default="")
    stats = _written(facts.commits[instant])
    key = ("operation", instant, last_clean)
    return table.derived_once(key, lambda: _files_have_operation(table.storage, stats))


def _written(commit: CommitMetadata) -> list[WriteStat]:
    """The stats of files with inserted or updated rows (`TableSchemaResolver.commitHasInsertOrUpdate`)."""
    return [stat for stat in commit.stats if stat.path and (stat.num_inserts > 0 or stat.num_update_writes > 0)]


def _files_have_operation(storage: Storage, stats: Sequence[WriteStat]) -> bool | None:
    """The answer of the first file that has a schema. One writer wrote them all, so cheap files are read first."""
    by_cost = sorted(stats, key=lambda stat: (stat.file_name.startswith("."), stat.path))
    for stat in by_cost[:_MOST_FILES]:
        try:
            found = _file_has_operation(storage, stored_path(stat.path), stat)
        except CorruptFile:
            continue
        if found is not None:
            return found
    return None


def _file_has_operation(storage: Storage, path: str, stat: WriteStat) -> bool | None:
    """None for a log without a block of rows. CorruptFile for a file that is gone or damaged; StorageError."""
    name = parse_file_name(stat.file_name)
    if not isinstance(name, LogName):
        schema = read_footer(storage, FileRef(path, max(stat.file_size_bytes, 0))).schema
        return any(schema.column(place).path == OPERATION for place in range(len(schema)))
    try:
        with storage.open_input(path) as source:
            schema_json = _last_schema(RemoteBytes(source), path)
    except (CorruptBlock, RemoteRangeTooLong, FileNotFoundError) as error:
        raise CorruptFile(f"log file {path} tells no schema: {str(error)[:200]}") from error
    except (OSError, pa.ArrowException) as error:
        detail = str(error).partition("\n")[0][:200]
        if isinstance(error, OSError) and not is_storage_failure(error):
            raise CorruptFile(f"log file {path} tells no schema: {detail}") from error
        raise StorageError(f"log file {path} cannot be read: {detail}; asking again may help") from error
    return has_operation(schema_json, f"log file {path}") if schema_json else None


def schema_of_newest_file(storage: Storage, facts: TimelineFacts, instants: Iterable[str]) -> str:
    """The Avro schema (JSON) of the first file that the commits of these instants wrote, are still there and tell one;
    '' if none does. CorruptFile for one that cannot be read, SchemaMismatch for a type that Avro has not."""
    for instant in instants:
        for stat in facts.commits[instant].stats:
            name = parse_file_name(stat.file_name) if stat.path else None
            path = stored_path(stat.path)
            info = storage.file_info(path) if name is not None else None
            if info is None:
                continue
            if isinstance(name, LogName):
                found = "" if name.is_cdc else _schema_of_log(storage, path)
            else:
                found = schema_of_footer(read_footer(storage, FileRef(path, info.size_bytes)), path)
            if found:
                return found
    return ""


def schema_of_footer(footer: pq.FileMetaData, path: str) -> str:
    """The Avro schema that the writer left in a Parquet footer, else one of the same columns."""
    metadata = footer.metadata or {}
    written = next((metadata[key] for key in _AVRO_KEYS if key in metadata), None)
    if written is not None:
        return str(written, "utf-8", "replace")
    fields = [_field(field, path, str(place)) for place, field in enumerate(footer.schema.to_arrow_schema())]
    return json.dumps({"type": "record", "name": "table", "fields": fields})


def _schema_of_log(storage: Storage, path: str) -> str:
    return _last_schema(memoryview(storage.read_bytes(path, _MOST_LOG_BYTES)), path)


def _last_schema(data: memoryview | RemoteBytes, path: str) -> str:
    """The Avro schema of a log's last block of rows, '' if none has one (Hudi `readSchemaFromLogFile`)."""
    found = ""
    for block in read_blocks(data, path):
        if isinstance(block, LogBlock) and block.kind in (BlockKind.AVRO_DATA, BlockKind.PARQUET_DATA):
            found = block.header.schema_json if not block.header.is_partial else found
    return found


def _field(field: pa.Field, path: str, number: str) -> dict[str, object]:
    kind = _avro(field.type, f"{path}: column {field.name!r}", number)
    if field.nullable:
        return {"name": field.name, "type": ["null", kind], "default": None}
    return {"name": field.name, "type": kind}


def _slot(field: pa.Field, where: str, number: str) -> object:
    kind = _avro(field.type, where, number)
    return ["null", kind] if field.nullable else kind


def _avro(kind: pa.DataType, where: str, number: str) -> object:
    """The Avro type of an Arrow type; `number` tells records apart that would bear one name."""
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


def schema_instant(request: PlanRequest, facts: TimelineFacts, newest: str) -> InstantTime | None:
    """The requested time of the last instant of the range, by order key, if the schema `newest` lacks a column that is
    asked for; None if it does not, and for queries without an end of their own."""
    query = request.query
    if not isinstance(query, Incremental | Changes) or not isinstance(query.upto, Position):
        return None
    if isinstance(query, Changes) and query.format is ChangeFormat.HUDI:
        return None
    own = (CHANGE_TYPE, CHANGE_INSTANT, CHANGE_SEQ) if isinstance(query, Changes) else ()
    held = {field.name.lower() for field in parse_record_schema(newest).fields}
    held.update(own)
    if all(name.lower() in held for name in request.columns):
        return None
    inside = [
        (facts.timeline.order_key(item), item.requested_time)
        for item in facts.timeline.completed_writes
        if facts.timeline.order_key(item) <= query.upto.order_key
    ]
    return max(inside)[1] if inside else None
