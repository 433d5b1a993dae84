"""Decodes commit metadata: the files that a completed instant wrote and replaced. Pure.

Source: Hudi `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`. Commit, deltacommit and replacecommit files are JSON
or Avro, by their magic. `services.plans` decodes plans, requested files and cleans.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime
from penstock.proto.value_classes import dataclass
from penstock.table.files.external_names import folder_of_partition, is_external
from penstock.table.files.partitioned_stats import PartitionedStats, RawStat
from penstock.table.timeline.avro_container import is_container, single_record
from penstock.table.timeline.fields import Fields
from penstock.table.timeline.instants import Action, Instant

MAX_COMMIT_BYTES: Final = 256 << 20
"""Largest metadata file that is read, in bytes."""

SERVICE_OPERATIONS: Final = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX", "BUCKET_RESCALE", "ALTER_SCHEMA"})
"""Operations that add no rows to the table (Hudi `WriteOperationType`)."""
_KEEP_SCHEMA: Final = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT", "INDEX"})
"""Operations that cannot change the table's schema (Hudi `WriteOperationType.canUpdateSchema`)."""
_STAT_FIELDS: Final = (
    "path",
    "fileId",
    "numWrites",
    "numDeletes",
    "numInserts",
    "numUpdateWrites",
    "fileSizeInBytes",
    "baseFile",
    "logFiles",
    "prevCommit",
    "cdcStats",
    "prevBaseFile",
    "totalLogFilesCompacted",
    "totalLogBlocks",
    "totalLogRecords",
    "totalUpdatedRecordsCompacted",
    "totalLogSizeCompacted",
)
"""The fields of a write stat that are decoded; `path` is the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedLogs:
    """The logs that a compaction merged into a base file."""

    files: int
    """Number of logs."""
    blocks: int
    """Number of their blocks."""
    records: int
    """Number of their records."""
    updated: int
    """How many records became rows or deleted one."""
    size_bytes: int
    """Size of the logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStat:
    """The writes of an instant to one file (Hudi `HoodieWriteStat`)."""

    partition: str
    """Partition path."""
    file_id: str
    """The file group in the partition."""
    path: str
    """Relative to the base path, in the folder of `partition`; '' if no file was written."""
    num_writes: int
    """Number of records written."""
    num_deletes: int
    """Number of records deleted."""
    num_inserts: int
    """Number of records inserted."""
    num_update_writes: int
    """Number of records updated."""
    file_size_bytes: int
    """Size of the file; may be stale for a log that was appended to."""
    base_file: str
    """Name of the slice's base file. Table version 6 and tables with change logging record it."""
    log_files: tuple[str, ...]
    """Names of the slice's logs, recorded as `base_file`."""
    prev_commit: str
    """Instant of the previous slice; '' for a new file group."""
    change_logs: Mapping[str, int] = field(default_factory=dict)
    """Path -> size in bytes of the `.cdc` logs written together with a base file."""
    prev_base_file: str = ""
    """Name of the base file that this base file replaces; '' for a new file group. Table version 8 and later record it.
    """
    compacted_logs: CompactedLogs | None = None
    """The logs in a base file that a compaction wrote; None for other files."""

    @property
    def file_name(self) -> str:
        """The last part of `path`."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMetadata:
    """The metadata of a completed write instant."""

    requested_time: InstantTime
    """Requested time of the instant."""
    operation: str
    """Operation of the writer, upper case; '' if it recorded none."""
    compacted: bool
    """Whether the instant is a compaction."""
    schema_json: str
    """The writer's Avro schema without meta columns; '' if it recorded none."""
    extra: Mapping[str, str]
    """Extra metadata."""
    stats: Sequence[WriteStat]
    """Write stats by (partition, file id), in file order within. Of a commit that was read from a file, the stats of a
    partition are decoded when they are first used; CorruptFile then."""
    replaced: tuple[tuple[str, str], ...]
    """(partition, file id) of the file groups that a replacecommit replaces, sorted."""
    has_external_files: bool = False
    """Whether a write stat of the whole commit names a file of another writer."""

    @property
    def is_service(self) -> bool:
        """Whether the instant is a table service, which changes no row (compaction, clustering, …).

        The operation determines it, not the action: the first bulk insert of a table completes as `.commit` too.
        """
        return self.compacted or self.operation in SERVICE_OPERATIONS

    @property
    def partitions(self) -> Collection[str]:
        """The partitions that have write stats. Decodes none."""
        if isinstance(self.stats, PartitionedStats):
            return self.stats.partitions
        return {stat.partition for stat in self.stats}

    def decode(self) -> None:
        """Decodes all write stats. CorruptFile."""
        if isinstance(self.stats, PartitionedStats):
            self.stats.decode()

    def within(self, partitions: Collection[str]) -> CommitMetadata:
        """The commit with the write stats of these partitions only. Decodes none."""
        if isinstance(self.stats, PartitionedStats):
            stats = self.stats.within(partitions)
            return self if stats is self.stats else replace(self, stats=stats)
        stats = tuple(stat for stat in self.stats if stat.partition in partitions)
        return self if len(stats) == len(self.stats) else replace(self, stats=stats)

    @property
    def may_change_schema(self) -> bool:
        """Whether the recorded schema and its history can be newer than those of earlier instants.

        True for every write, and for `ALTER TABLE`, which changes no row.
        """
        return not (self.compacted or self.operation in _KEEP_SCHEMA)


def parse_commit(data: bytes, instant: Instant, table: str = "") -> CommitMetadata:
    """Decodes the file of a completed instant. `table` is for error texts.

    Unknown fields are ignored. CorruptFile, with instant and file, for bytes that are not one complete record, a
    missing required field (partitionToWriteStats, fileId, and partitionToReplaceFileIds of a replacecommit), a field of
    the wrong type, or a path outside of the table.
    """
    commit = parse_commit_lazily(data, instant, table)
    commit.decode()
    return commit


def parse_commit_lazily(data: bytes, instant: Instant, table: str = "") -> CommitMetadata:
    """As `parse_commit`, but a field of a write stat raises CorruptFile when its partition's stats are first used."""
    return commit_of(decode_metadata(data, instant, table), instant)


def commit_of(fields: Fields, instant: Instant) -> CommitMetadata:
    """The metadata of a completed instant from its decoded fields. CorruptFile as `parse_commit_lazily`."""
    replaces = instant.action is Action.REPLACE_COMMIT
    replaced = [
        (partition, file_id)
        for partition, entry in fields.partitions("partitionToReplaceFileIds", required=replaces)
        for file_id in entry.texts("of")
    ]
    raw: dict[str, list[RawStat] | tuple[WriteStat, ...]] = {
        partition: [_raw_stat(entry, index, item) for index, item in enumerate(entry.items("of"))]
        for partition, entry in fields.partitions("partitionToWriteStats", required=True)
    }
    stats = PartitionedStats(raw, _write_stats, fields.where) if any(raw.values()) else None
    extra = _extra(fields)
    if "schema" in extra:
        extra["schema"] = sys.intern(extra["schema"])  # all commits of a table repeat their schema
    return CommitMetadata(
        requested_time=instant.requested_time,
        operation=fields.text("operationType").upper(),
        compacted=fields.flag("compacted"),
        schema_json=extra.get("schema", ""),
        extra=extra,
        stats=stats or (),
        replaced=tuple(sorted(set(replaced))),
        has_external_files=stats is not None
        and any(isinstance(path, str) and is_external(path) for path in stats.raw(0)),
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
    """Describes the file of an instant for an error text: action, requested time, file name, table."""
    of_table = f" of table {table}" if table else ""
    return f"{instant.action} {instant.requested_time}, file {instant.file_name}{of_table}"


def _without_scheme(path: str, partition: str) -> str:
    """Converts `file:PARTITION/NAME` to `PARTITION/NAME`.

    Hudi 1.2.0 writes the former on version 6 for a log file that it takes from a marker, such as that of a rolled back
    attempt, if the partition path is not a valid URI (it has a space).
    """
    if ":" not in path:
        return path
    scheme, _, rest = path.partition(":")
    has_scheme = scheme.isascii() and scheme.isalpha() and rest.rpartition("/")[0] == partition != ""
    return rest if has_scheme else path


def _raw_stat(entry: Fields, index: int, item: object) -> RawStat:
    """The fields of a write stat that are decoded, in the order of `_STAT_FIELDS`. CorruptFile if it is no record."""
    values = item if isinstance(item, dict) else entry.nested(f"of[{index}]", item).values
    return tuple(map(values.get, _STAT_FIELDS))


def _write_stats(partition: str, raw: Sequence[RawStat], where: str) -> tuple[WriteStat, ...]:
    """The write stats of a partition by file id, in file order within."""
    path = f"partitionToWriteStats[{partition[:100]}].of"
    records = (Fields(dict(zip(_STAT_FIELDS, stat, strict=True)), where, f"{path}[{i}].") for i, stat in enumerate(raw))
    return tuple(sorted((_write_stat(partition, record) for record in records), key=lambda stat: stat.file_id))


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
        prev_base_file=stat.text("prevBaseFile").rpartition("/")[2],
        compacted_logs=_compacted_logs(stat),
    )


def _compacted_logs(stat: Fields) -> CompactedLogs | None:
    files = stat.count("totalLogFilesCompacted")
    if files <= 0:
        return None
    return CompactedLogs(
        files=files,
        blocks=stat.count("totalLogBlocks"),
        records=stat.count("totalLogRecords"),
        updated=stat.count("totalUpdatedRecordsCompacted"),
        size_bytes=stat.file_bytes("totalLogSizeCompacted"),
    )


def _change_logs(partition: str, stat: Fields) -> dict[str, int]:
    values = stat.mapping("cdcStats")
    if not values:
        return {}
    sizes = Fields(values, stat.where, f"{stat.path}cdcStats.")
    logs: dict[str, int] = {}
    for path in sizes.values:
        checked = _without_scheme(sizes.checked("path", path), partition)
        if checked.rpartition("/")[0] != partition:
            raise CorruptFile(
                f"{stat.where}, field {stat.path}cdcStats: got {path[:200]!r}, expected a file in partition "
                f"{partition[:200]!r}"
            )
        logs[checked] = max(sizes.file_bytes(path), 0)
    return logs


def _extra(fields: Fields) -> dict[str, str]:
    """The entries of extraMetadata that are not null."""
    extra = Fields(fields.mapping("extraMetadata"), fields.where, "extraMetadata.")
    return {key: extra.text(key) for key, value in extra.values.items() if value is not None}
