"""Commit metadata: what a completed instant wrote (Hudi `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`).

Pure: bytes in, values out; JSON and Avro by magic. Belongs here: completed commit, deltacommit and replacecommit
files. Not here: plans, requested files and cleans (`plans`), reading the file (`hudi_table`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.table.files.external_names import folder_of_partition
from penstock.table.timeline.avro_container import is_container, single_record
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action, Instant

MAX_COMMIT_BYTES: Final = 256 << 20
"""Largest metadata file that is read."""

SERVICE_OPERATIONS: Final = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX", "BUCKET_RESCALE", "ALTER_SCHEMA"})
"""Operations that add no rows to the table (Hudi `WriteOperationType`)."""
_KEEP_SCHEMA: Final = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX"})
"""Operations that cannot change the table's schema (`WriteOperationType.canUpdateSchema`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """What an instant wrote to one file (Hudi `HoodieWriteStat`).

    `path` is relative to the base path, its folder is `partition`; '' where nothing was written. `base_file` and
    `log_files` are bare names, filled by version 6 and by tables with change logging. `prev_commit` is '' for a new
    file group. `file_size_bytes` may be stale for a log that was appended to. `change_logs` maps the paths of the
    `.cdc` logs that it wrote with a base file to their sizes.
    """

    partition: str
    file_id: str
    path: str
    num_writes: int
    num_deletes: int
    num_inserts: int
    num_update_writes: int
    file_size_bytes: int
    base_file: str
    log_files: tuple[str, ...]
    prev_commit: str
    change_logs: Mapping[str, int] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The last part of `path`."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """What a completed instant did. `stats` are sorted by (partition, file id), in file order within.

    `schema_json` is the writer's Avro schema without meta columns, '' if it recorded none. `replaced` holds
    (partition, file id) of the groups that a replacecommit ends, sorted. `operation` is upper case, '' if unrecorded.
    """

    requested_time: InstantTime
    operation: str
    compacted: bool
    schema_json: str
    extra: Mapping[str, str]
    stats: tuple[WriteStat, ...]
    replaced: tuple[tuple[str, str], ...]

    @property
    def is_service(self) -> bool:
        """Whether the instant only rearranges rows (compaction, clustering, …). By operation, never by action: a
        table's first bulk insert completes as `.commit` too."""
        return self.compacted or self.operation in SERVICE_OPERATIONS

    @property
    def may_change_schema(self) -> bool:
        """Whether the schema recorded here, and its history, can be newer than that of the instants before: of every
        write, and of `ALTER TABLE`, which is a service by its rows."""
        return not (self.compacted or self.operation in _KEEP_SCHEMA)


def parse_commit(data: bytes, instant: Instant, table: str = "") -> CommitMetadata:
    """The metadata in a completed instant's file. `table` is for error texts.

    Unknown fields are ignored. CorruptFile, naming instant and file, for bytes that are not one whole record, a
    required field that is missing (partitionToWriteStats, fileId, and partitionToReplaceFileIds of a replacecommit),
    a field of the wrong type, a path that leaves the table.
    """
    return commit_of(decode_metadata(data, instant, table), instant)


def commit_of(fields: Fields, instant: Instant) -> CommitMetadata:
    """The metadata in decoded fields of a completed instant. CorruptFile as `parse_commit`."""
    replaces = instant.action is Action.REPLACE_COMMIT
    replaced = [
        (partition, file_id)
        for partition, entry in fields.partitions("partitionToReplaceFileIds", required=replaces)
        for file_id in entry.texts("of")
    ]
    stats = [
        _write_stat(partition, stat)
        for partition, entry in fields.partitions("partitionToWriteStats", required=True)
        for stat in entry.records("of")
    ]
    extra = _extra(fields)
    return CommitMetadata(
        requested_time=instant.requested_time,
        operation=fields.text("operationType").upper(),
        compacted=fields.flag("compacted"),
        schema_json=extra.get("schema", ""),
        extra=extra,
        stats=tuple(sorted(stats, key=lambda stat: (stat.partition, stat.file_id))),
        replaced=tuple(sorted(set(replaced))),
    )


def decode_metadata(data: bytes, instant: Instant, table: str) -> Fields:
    """The top-level fields of a timeline file, JSON or Avro by its first bytes."""
    where = describe_file(instant, table)
    if len(data) > MAX_COMMIT_BYTES:
        raise CorruptFile(f"{where}: got {len(data)} bytes, at most {MAX_COMMIT_BYTES} are read")
    if not data:
        raise CorruptFile(f"{where} is empty: got 0 bytes, expected metadata; was its writer or a copy interrupted?")
    if is_container(data):
        return Fields(single_record(data, where), where)
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CorruptFile(
            f"{where} is damaged or truncated: got {len(data)} bytes starting with {data[:8]!r} ({str(error)[:200]}), "
            "expected one JSON object or an Avro file"
        ) from error
    if not isinstance(value, dict):
        raise CorruptFile(f"{where}: got a JSON {type(value).__name__}, expected an object")
    return Fields(value, where)


def describe_file(instant: Instant, table: str) -> str:
    """The file of an instant for an error text: action, requested time, file name, table."""
    of_table = f" of table {table}" if table else ""
    return f"{instant.action} {instant.requested_time}, file {instant.file_name}{of_table}"


def _without_scheme(path: str, partition: str) -> str:
    """`file:PARTITION/NAME` as `PARTITION/NAME`: what Hudi 1.2.0 writes on version 6 for a log file that a marker told
    it of, such as that of a rolled back attempt, when the partition path is no valid URI (a space in it)."""
    scheme, colon, rest = path.partition(":")
    named = colon and scheme.isascii() and scheme.isalpha() and rest.rpartition("/")[0] == partition != ""
    return rest if named else path


def _write_stat(partition: str, stat: Fields) -> WriteStat:
    path = _without_scheme(stat.file_path("path"), partition)
    if path and folder_of_partition(path) != partition:
        raise CorruptFile(
            f"{stat.where}, field {stat.path}path: got {path[:200]!r}, expected a file in partition {partition[:200]!r}"
        )
    prev_commit = stat.text("prevCommit")
    return WriteStat(
        partition=partition,
        file_id=stat.required_text("fileId"),
        path=path,
        num_writes=stat.count("numWrites"),
        num_deletes=stat.count("numDeletes"),
        num_inserts=stat.count("numInserts"),
        num_update_writes=stat.count("numUpdateWrites"),
        file_size_bytes=stat.file_bytes("fileSizeInBytes"),
        base_file=stat.file_name("baseFile"),
        log_files=stat.file_names("logFiles"),
        prev_commit="" if prev_commit == "null" else prev_commit,
        change_logs=_change_logs(partition, stat),
    )


def _change_logs(partition: str, stat: Fields) -> dict[str, int]:
    sizes = Fields(stat.mapping("cdcStats"), stat.where, f"{stat.path}cdcStats.")
    found: dict[str, int] = {}
    for path in sizes.values:
        checked = _without_scheme(sizes.checked("path", path), partition)
        if checked.rpartition("/")[0] != partition:
            raise CorruptFile(
                f"{stat.where}, field {stat.path}cdcStats: got {path[:200]!r}, expected a file in partition "
                f"{partition[:200]!r}"
            )
        found[checked] = max(sizes.file_bytes(path), 0)
    return found


def _extra(fields: Fields) -> dict[str, str]:
    """extraMetadata without null values."""
    known = Fields(fields.mapping("extraMetadata"), fields.where, "extraMetadata.")
    return {key: known.text(key) for key, value in known.values.items() if value is not None}
