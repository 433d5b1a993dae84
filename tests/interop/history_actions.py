"""The actions of a history as values: shapes of tables, rows, actions. Pure.

`histories` decides their order, `history_writer` runs them in Hudi.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.interop.history_options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The table's configuration, and the release of Hudi that writes it.

    `index`: `simple` looks up keys in base files, `global` over all partitions (a key that moves is deleted in its old
    partition), `bucket` hashes them, `memory` stores them in memory (its inserts go to logs). `small_files`: inserts
    are added to small file groups. `many_groups`: a few inserts create several file groups. `wide`: has nested columns.
    `archives`: automatic cleaning and archival. `changes`: the mode of change data logging; empty: no logging.
    `has_flags`: there is a column `_hoodie_is_deleted`. `options`: the other options.
    """

    release: str
    version: int
    merge_on_read: bool
    event_time: bool
    ordering: str
    partitioned: bool
    hive_style: bool
    index: str
    small_files: bool
    record_positions: bool
    metadata_table: bool
    wide: bool
    duplicates: bool
    small_blocks: bool
    many_groups: bool
    many_writers: bool
    null_partition: bool
    archives: bool
    changes: str
    has_flags: bool
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a write. `ordering` decides merges by event time, `is_deleted` is `_hoodie_is_deleted`."""

    key: str
    ordering: int
    value: int
    partition: str | None
    is_deleted: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A write operation. `inline` names the services that Hudi runs with it; `columns` is the number of schema
    changes."""

    operation: str
    rows: tuple[Row, ...]
    inline: tuple[str, ...] = ()
    columns: int = 0


@dataclass(frozen=True, slots=True)
class PartialUpdate:
    """`MERGE INTO` that sets some columns of keys that may exist."""

    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class DropPartition:
    """`delete_partition` of one partition."""

    partition: str


@dataclass(frozen=True, slots=True)
class Service:
    """Compaction or clustering by a procedure: `schedule`, `execute` or `scheduleAndExecute`."""

    kind: str
    step: str


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """The log blocks of each slice become one, after an upsert without rows."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A savepoint at the newest commit."""


@dataclass(frozen=True, slots=True)
class Restore:
    """The table is restored to the newest savepoint."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The table is upgraded in place to a newer version, by this write."""

    version: int
    write: Write


@dataclass(frozen=True, slots=True)
class EmptyCommit:
    """An upsert without rows that commits."""


@dataclass(frozen=True, slots=True)
class Crash:
    """A write that never completes. The next writer rolls it back; with several writers only a clean does."""

    write: Write


@dataclass(frozen=True, slots=True)
class Race:
    """Two writers: `slow` is requested first and completes last."""

    slow: Write
    fast: Write


@dataclass(frozen=True, slots=True)
class Rollback:
    """The newest commit is rolled back."""


Action = (
    Write
    | PartialUpdate
    | DropPartition
    | Service
    | LogCompaction
    | Savepoint
    | Restore
    | Upgrade
    | EmptyCommit
    | Crash
    | Race
    | Rollback
)


@dataclass(frozen=True, slots=True)
class History:
    """The shape of a table and its actions."""

    seed: int
    shape: Shape
    actions: tuple[Action, ...]

    def text(self) -> str:
        """The history as text, for error messages."""
        return "\n".join([f"seed {self.seed}: {self.shape}", *(f"  {n}. {a}" for n, a in enumerate(self.actions, 1))])
