"""What travels from the enumerator to a reader: files, splits, the scan they share, the plan around them.

Values only: frozen, compared by every field. A split together with its scan is self-contained: a reader needs no
listing and no timeline. `format_version` is the first field of Split, Scan and Plan; a reader refuses one it does not
know, by name. Event times are UTC microseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.proto.model.changes import ChangesOf, GroupChanges
from penstock.proto.model.files import FileRef as FileRef
from penstock.proto.model.files import LogWrite as LogWrite
from penstock.proto.model.hybrid import KafkaRange, TopicRecords
from penstock.proto.model.positions import CommitRange, InstantTime

FORMAT_VERSION: Final = 5
"""The version this build writes. Every version from 1 up to it is decoded; a fixture of each is kept."""


RECORD_BYTES: Final = 128
"""What a record of a topic is taken to weigh: only reading it tells."""


MAX_SPLIT_BYTES: Final = 2**46
"""The most that a split is taken to weigh."""


@dataclass(frozen=True, slots=True)
class WholeFile:
    """All row groups of the split's base file."""


@dataclass(frozen=True, slots=True)
class RowGroupRun:
    """Row groups first..end-1 of a log-free base file, `size_bytes` of it on storage (0 where it is not known)."""

    first: int
    end: int
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class UnknownBounds:
    """Nothing is known of the split's event times."""


@dataclass(frozen=True, slots=True)
class NoEventTimes:
    """No row of the split has an event time: there are none, or the column is null in all of them."""


@dataclass(frozen=True, slots=True)
class EventTimeBounds:
    """No row of the split has an event time below `min_us` or above `max_us`. Bounds may be wide, never narrow."""

    min_us: int
    max_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """One file slice, a run of row groups of a log-free one, (with a scan of changes) a file group's changes, or (with
    `Scan.topic`) a range of a topic's partition, whose ordinals are offsets from its first.

    `logs` are in scan order (`hudi-format` 3.1; slices of a pending compaction in slice order): a reader never sorts
    them. `partition_values` are the decoded path segments, one for each of the scan's `partition_fields`; None is the
    null partition. `order_key` places the split in commit order. `base` is None for a log-only slice. Of a group's
    changes the files are in the steps of `part`; base and logs are empty. `ancestry` tells of rows of its base file
    that a service stamped; None if none can be among them. `left_out` tells what an end of the range inside an instant
    leaves out here.
    """

    format_version: int = FORMAT_VERSION
    split_id: str
    partition: str
    partition_values: tuple[str | None, ...]
    file_group: str
    order_key: InstantTime
    base: FileRef | None
    base_instant: str = ""
    part: WholeFile | RowGroupRun | GroupChanges | KafkaRange = WholeFile()
    logs: tuple[FileRef, ...] = ()
    event_time: EventTimeBounds | NoEventTimes | UnknownBounds = UnknownBounds()
    ancestry: RowLineage | None = None
    left_out: Exclusions | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes on storage that reading it takes, of all its files: the weight by which splits are packed. At most
        MAX_SPLIT_BYTES, so that sums over splits stay within 64 bits."""
        return min(self._stated_bytes(), MAX_SPLIT_BYTES)

    def _stated_bytes(self) -> int:
        if isinstance(self.part, RowGroupRun) and self.part.size_bytes:
            return self.part.size_bytes
        if isinstance(self.part, KafkaRange):
            return (self.part.end - self.part.first) * RECORD_BYTES
        if isinstance(self.part, GroupChanges):
            return sum({file.path: file.size_bytes for step in self.part.steps for file in step.files}.values())
        return (self.base.size_bytes if self.base else 0) + sum(log.size_bytes for log in self.logs)


@dataclass(frozen=True, slots=True)
class Origin:
    """File slices with what a service rewrote: who wrote a row that carries `service` is told by the row of its key."""

    service: InstantTime
    slices: tuple[Split, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLineage:
    """What becomes of a base file's rows that carry the instant of a service (`RowsOf.log_compactions`).

    They are rows of the range if the service is among `inside`, none of them if it is among `outside`; else those
    whose row in the service's origin is. Of a service without any of these the files that would tell are gone.
    """

    inside: frozenset[InstantTime] = frozenset()
    outside: frozenset[InstantTime] = frozenset()
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """Instants of the scan that count in part, or not at all, in one split: the range starts or ends inside them.

    Rows of `rows` (requested times) are none of the range's: this group's were, in a range before it. Of `some_rows`
    those are whose key is in the ancestry's origin of that instant; without such an origin the files that would tell
    are gone. Log blocks of `blocks` are no part of the state: they come in a later range.
    """

    rows: frozenset[InstantTime] = frozenset()
    some_rows: frozenset[InstantTime] = frozenset()
    blocks: frozenset[InstantTime] = frozenset()


@dataclass(frozen=True, slots=True)
class CommitTimeOrdering:
    """The record written last, in log order, wins (Hudi COMMIT_TIME_ORDERING)."""


@dataclass(frozen=True, slots=True)
class EventTimeOrdering:
    """The record with the highest ordering value wins, a tie goes to the newer (Hudi EVENT_TIME_ORDERING).

    Several fields compare one after the other. `dotted_numbers`: the one field is text "file.position" whose two
    numbers compare (`MySqlDebeziumAvroPayload`). `deletes_win`: a delete wins whatever it meets and whatever comes
    after it wins, as where Hudi runs a payload class.
    """

    ordering_fields: tuple[str, ...]
    dotted_numbers: bool = False
    deletes_win: bool = False


MergeMode = CommitTimeOrdering | EventTimeOrdering


@dataclass(frozen=True, slots=True)
class DeleteMarker:
    """A log record whose column `field`, as text, is `value` is a delete (Hudi `hoodie.payload.delete.field`)."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class WholeRecords:
    """The record that wins is the row."""


@dataclass(frozen=True, slots=True)
class FillNulls:
    """Nulls of the winner take the other record's values; the row shows the meta columns of the record written last
    (`PartialUpdateAvroPayload`)."""


@dataclass(frozen=True, slots=True)
class FillDefaults:
    """Values of the winner that are their column's default take the other record's (Hudi IGNORE_DEFAULTS).

    `by_identity`: only those defaults count that Java's `==` takes for one: null, booleans, whole numbers from -128 to
    127 (version 9); else every value equal to the default (`OverwriteNonDefaultsWithLatestAvroPayload`).
    """

    by_identity: bool


@dataclass(frozen=True, slots=True)
class FillMarked:
    """Text and bytes of the winner that equal `marker` take the other record's value (Hudi FILL_UNAVAILABLE).

    `from_newer`: also where the winner is the older record (version 9; not in `PostgresDebeziumAvroPayload`).
    """

    marker: str
    from_newer: bool


FillMode = WholeRecords | FillNulls | FillDefaults | FillMarked


@dataclass(frozen=True, slots=True)
class VisibleInstants:
    """Which instants' log blocks count: (members, or older than the active timeline) and not behind `not_after`.

    All three compare *requested* times. `archived_before` is the first non-savepoint write instant (Hudi
    `committed()`); `not_after` is the as-of time, or all nines.
    """

    members: frozenset[InstantTime]
    archived_before: str = ""
    not_after: str = "9" * 24

    def holds(self, requested_time: str) -> bool:
        """Whether a block with this INSTANT_TIME is part of the answer."""
        return requested_time <= self.not_after and (
            requested_time < self.archived_before or requested_time in self.members
        )


@dataclass(frozen=True, slots=True)
class AllRows:
    """Every merged row."""


@dataclass(frozen=True, slots=True)
class RowsOf:
    """Merged rows whose `_hoodie_commit_time` is one of these requested times: set membership, never a range.

    `log_compactions` are services that may have moved rows of the range and put their own instant into
    `_hoodie_commit_time` (log compactions and bucket rescales of Hudi 1.2), so that a row that carries one does not
    tell who wrote it: the split's `ancestry` does.
    """

    instants: frozenset[InstantTime]
    log_compactions: frozenset[InstantTime] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What all splits of a plan share.

    `schema_json` is the table's Avro schema with the meta columns in front; `columns` the output columns in order
    (never empty), those of changes (`table.schema.changes`) where `rows` are changes; `where` a filter's text, or ''.
    Columns named in `partition_fields` take the split's
    `partition_values`, cast to the column's type, instead of the file's values. `skip_corrupt`: what is damaged in a
    log is passed over whatever was lost, as Hudi does; else a loss is an error. `key_fields` are the columns that the
    record key is made of; empty where rows store it. `schema_history` (JSON) tells the ids of columns by the instants
    of files: where it is not empty, columns are found by id. `keys_may_be_named`: a delete may call a key of one column
    `name:value`, as some releases' complex key generators do. `topic`: the splits are ranges of a topic;
    None: of files.
    """

    format_version: int = FORMAT_VERSION
    table: str
    base_path: str
    table_version: int
    schema_json: str
    columns: tuple[str, ...]
    where: str = ""
    merge: MergeMode
    visible: VisibleInstants
    rows: AllRows | RowsOf | ChangesOf = AllRows()
    partition_fields: tuple[str, ...] = ()
    delete_marker: DeleteMarker | None = None
    fill: FillMode = WholeRecords()
    skip_corrupt: bool = False
    key_fields: tuple[str, ...] = ()
    schema_history: str = ""
    keys_may_be_named: bool = False
    topic: TopicRecords | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The answer to one request: splits in commit order (order key, then split id).

    `upto` is the range that was resolved (a snapshot's range ends at the newest position and starts at EARLIEST).
    """

    format_version: int = FORMAT_VERSION
    scan: Scan
    commit_range: CommitRange
    splits: tuple[Split, ...]
