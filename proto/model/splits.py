"""Splits and the scan that they share, which the enumerator sends to readers.

A split and its scan are self-contained: a reader needs no listing and no timeline. A reader refuses a `format_version`
that it does not support. Event times are in UTC microseconds.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.model.changes import ChangesOf, GroupChanges
from penstock.proto.model.files import FileRef as FileRef
from penstock.proto.model.files import LogWrite as LogWrite
from penstock.proto.model.hybrid import KafkaRange, TopicRecords
from penstock.proto.model.positions import CommitRange, CompletionTimes, InstantTime
from penstock.proto.value_classes import dataclass

FORMAT_VERSION: Final = 6
"""The highest version that this release writes, that of scans of a bootstrapped table. It decodes every version from 1;
tests keep a fixture of each."""
PLAIN_VERSION: Final = 5
"""The version of everything else: readers of an earlier release read it."""


RECORD_BYTES: Final = 128
"""The assumed size of a record of a topic, which is not known before it is read."""


MAX_SPLIT_BYTES: Final = 2**46
"""The largest size that is assumed for a split."""


@dataclass(frozen=True, slots=True)
class WholeFile:
    """All row groups of the split's base file."""


@dataclass(frozen=True, slots=True)
class RowGroupRun:
    """A run of row groups of a base file without logs."""

    first: int
    """The first row group."""
    end: int
    """The end, exclusive."""
    size_bytes: int = 0
    """The bytes of these row groups on storage; 0: unknown."""


@dataclass(frozen=True, slots=True)
class UnknownBounds:
    """The split's event times are unknown."""


@dataclass(frozen=True, slots=True)
class NoEventTimes:
    """No row of the split has an event time: there are no rows, or the column is null in all of them."""


@dataclass(frozen=True, slots=True)
class EventTimeBounds:
    """Bounds of the event times of all rows of the split. They may be wider than the rows require."""

    min_us: int
    """The lower bound, inclusive."""
    max_us: int
    """The upper bound, inclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """A unit of reading: a file slice, a run of row groups of a slice without logs, the changes of a file group (with a
    scan of changes), or a range of a topic's partition (with `Scan.topic`), whose ordinals are offsets from its first.
    """

    format_version: int = PLAIN_VERSION
    """The version of the format."""
    split_id: str
    """The split's id, unique in its plan."""
    partition: str
    """The partition's path, '' for a table without partitions."""
    partition_values: tuple[str | None, ...]
    """The decoded path segments, one for each of `Scan.partition_fields`; None is the null partition."""
    file_group: str
    """The file group's id."""
    order_key: InstantTime
    """The split's position in commit order."""
    base: FileRef | None
    """The base file; None: a slice of log files only, changes, or a range of a topic."""
    base_instant: str = ""
    """The requested time of the instant that wrote the base file, or ''."""
    part: WholeFile | RowGroupRun | GroupChanges | KafkaRange = WholeFile()
    """The part that is read. The files of a group's changes are in its steps."""
    logs: tuple[FileRef, ...] = ()
    """The log files in scan order (those of a pending compaction in slice order); a reader never sorts them."""
    event_time: EventTimeBounds | NoEventTimes | UnknownBounds = UnknownBounds()
    """The bounds of the event times."""
    ancestry: RowLineage | None = None
    """The lineage of the base file's rows that a table service stamped; None: there are no such rows."""
    left_out: Exclusions | None = None
    """The instants that are excluded here, because the range starts or ends inside them; None: none."""

    @property
    def size_bytes(self) -> int:
        """Bytes on storage of all files to read: the weight by which splits are assigned to slots. At most
        MAX_SPLIT_BYTES, so that sums over splits fit into 64 bits."""
        return min(self._stated_bytes(), MAX_SPLIT_BYTES)

    def _stated_bytes(self) -> int:
        if isinstance(self.part, RowGroupRun) and self.part.size_bytes:
            return self.part.size_bytes
        if isinstance(self.part, KafkaRange):
            return (self.part.end - self.part.first) * RECORD_BYTES
        if isinstance(self.part, GroupChanges):
            return sum({file.path: file.read_bytes for step in self.part.steps for file in step.files}.values())
        return (self.base.read_bytes if self.base else 0) + sum(log.size_bytes for log in self.logs)


@dataclass(frozen=True, slots=True)
class Origin:
    """The file slices that a table service rewrote. A row that carries the service's instant was written by the instant
    of the row with the same key in these slices."""

    service: InstantTime
    """The service's requested time."""
    slices: tuple[Split, ...]
    """The slices before the rewrite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLineage:
    """How a reader treats rows of a base file that carry the instant of a table service (`RowsOf.log_compactions`).

    For a service in none of the three fields, the files that would decide are deleted.
    """

    inside: frozenset[InstantTime] = frozenset()
    """Services all of whose rows belong to the range."""
    outside: frozenset[InstantTime] = frozenset()
    """Services none of whose rows belong to the range."""
    origins: tuple[Origin, ...] = ()
    """Services whose rows belong to the range if the row with the same key in the origin does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """Instants of the scan that are excluded from one split, in whole or in part, because the range starts or ends
    inside them. All are requested times."""

    rows: frozenset[InstantTime] = frozenset()
    """Instants whose rows do not belong to the range: an earlier range contained this group's."""
    some_rows: frozenset[InstantTime] = frozenset()
    """Instants whose rows belong to the range only if their key is in the lineage's origin of that instant. Without
    such an origin, the files that would decide are deleted."""
    blocks: frozenset[InstantTime] = frozenset()
    """Instants whose log blocks are not part of the state: a later range contains them."""


@dataclass(frozen=True, slots=True)
class CommitTimeOrdering:
    """The last record in log order wins (Hudi COMMIT_TIME_ORDERING)."""


@dataclass(frozen=True, slots=True)
class EventTimeOrdering:
    """The record with the highest ordering value wins; of equal values the newer one (Hudi EVENT_TIME_ORDERING)."""

    ordering_fields: tuple[str, ...]
    """The ordering fields, compared in this order."""
    dotted_numbers: bool = False
    """Whether the one field is text "file.position", compared as two numbers (`MySqlDebeziumAvroPayload`)."""
    deletes_win: bool = False
    """Whether a delete wins over any older record, and any newer record over a delete, as in Hudi's payload classes."""


OrderingMode = CommitTimeOrdering | EventTimeOrdering
"""The modes in which one of two records wins whole, by its place or its ordering value."""


@dataclass(frozen=True, slots=True)
class CustomMerge:
    """A function of the reader's merges records of one key (Hudi CUSTOM; `penstock.reader.merge.mergers`)."""

    name: str
    """What the table names: a merge strategy id in lower case, or a payload class. It is never imported."""
    of_payload: bool
    """Whether it is a payload class: then a record that follows a delete stands alone, as in Hudi."""
    ordering_fields: tuple[str, ...]
    """The ordering fields of the table: columns, fields of structs (`s.seq`), or names that the table lacks."""


MergeMode = OrderingMode | CustomMerge


@dataclass(frozen=True, slots=True)
class DeleteMarker:
    """Marks log records that are deletes (Hudi `hoodie.payload.delete.field`)."""

    field: str
    """The column."""
    value: str
    """The column's value, as text, of a delete."""


@dataclass(frozen=True, slots=True)
class WholeRecords:
    """The winning record is the row."""


@dataclass(frozen=True, slots=True)
class FillNulls:
    """Nulls of the winner are filled from the other record. The row's meta columns are those of the record written last
    (`PartialUpdateAvroPayload`)."""


@dataclass(frozen=True, slots=True)
class FillDefaults:
    """Values of the winner that are their column's default are filled from the other record (Hudi IGNORE_DEFAULTS)."""

    by_identity: bool
    """Whether only defaults that are identical in Java (`==`) are filled: null, Booleans and integers from -128 to 127
    (version 9); else every equal value (`OverwriteNonDefaultsWithLatestAvroPayload`)."""


@dataclass(frozen=True, slots=True)
class FillMarked:
    """Text and bytes of the winner that equal a marker are filled from the other record (Hudi FILL_UNAVAILABLE)."""

    marker: str
    """The marker."""
    from_newer: bool
    """Whether the older record is also filled if it wins (version 9; not in `PostgresDebeziumAvroPayload`)."""


FillMode = WholeRecords | FillNulls | FillDefaults | FillMarked


@dataclass(frozen=True, slots=True)
class VisibleInstants:
    """The instants whose log blocks are visible: members and archived instants, up to `not_after`. All times are
    *requested* times."""

    members: frozenset[InstantTime]
    """The completed instants of the active timeline."""
    archived_before: str = ""
    """The first write instant of the active timeline that is not a savepoint (Hudi `committed()`); earlier instants are
    archived, and visible."""
    not_after: str = "9" * 24
    """The as-of time, or all nines."""

    def holds(self, requested_time: str) -> bool:
        """Whether a block with this INSTANT_TIME is visible."""
        return requested_time <= self.not_after and (
            requested_time < self.archived_before or requested_time in self.members
        )


@dataclass(frozen=True, slots=True)
class AllRows:
    """Every merged row."""


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Merged rows of certain instants: set membership, never a range."""

    instants: frozenset[InstantTime]
    """The requested times; a row belongs to the range if its `_hoodie_commit_time` is one of them."""
    log_compactions: frozenset[InstantTime] = frozenset()
    """Table services that may have rewritten rows of the range with their own instant in `_hoodie_commit_time` (log
    compactions and bucket rescales of Hudi 1.2). `Split.ancestry` decides about such rows."""


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Scan:
    """What all splits of a plan share."""

    format_version: int = PLAIN_VERSION
    """The version of the format."""
    table: str
    """The table's name."""
    base_path: str
    """The table's base path."""
    table_version: int
    """Hudi's table version."""
    schema_json: str
    """The table's Avro schema, with the meta columns first."""
    columns: tuple[str, ...]
    """The output columns in order, never empty; those of changes (`penstock.table.schema.changes`) if `rows` are
    changes."""
    where: str = ""
    """The filter's text, or ''."""
    merge: MergeMode
    """How records of a key are ordered."""
    visible: VisibleInstants
    """The instants whose log blocks are visible."""
    rows: AllRows | RowsOf | ChangesOf = AllRows()
    """The rows to return."""
    partition_fields: tuple[str, ...] = ()
    """Columns whose values are the split's `partition_values`, cast to the column's type, instead of the file's."""
    delete_marker: DeleteMarker | None = None
    """Marks deletes in the log."""
    fill: FillMode = WholeRecords()
    """How the winning record is completed from the other one."""
    skip_corrupt: bool = False
    """Whether damaged parts of a log are skipped even if records are lost, as in Hudi; else that is an error."""
    key_fields: tuple[str, ...] = ()
    """The columns of the record key; empty if rows store the key."""
    schema_history: str = ""
    """JSON with the ids of columns by instant; if it is not empty, columns of files are found by id."""
    keys_may_be_named: bool = False
    """Whether a delete may contain a key of one column as `name:value`, as some complex key generators write it."""
    topic: TopicRecords | None = None
    """How records become rows, if the splits are ranges of a topic; None: they are files."""
    completion_times: CompletionTimes | None = None
    """The completion times of instants, if the rows may have the column `_completion_time`; None: they do not."""
    bootstrap_base_path: str = ""
    """The folder of the files in `FileRef.source`, as the table's properties state it; '' if no file has a source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to a plan request."""

    format_version: int = PLAIN_VERSION
    """The version of the format."""
    scan: Scan
    """What all splits share."""
    commit_range: CommitRange
    """The resolved range; that of a snapshot is from EARLIEST to the newest position."""
    splits: tuple[Split, ...]
    """The splits in commit order (order key, then split id)."""
