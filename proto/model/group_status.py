"""The states of consumer groups, of their readers and of a server, for operators. Values only."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.model.positions import Position


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderState:
    """A reader in the description of a group."""

    reader_id: str
    """The reader's id."""
    epoch: int
    """The reader's epoch."""
    held_splits: int
    """The number of splits that it holds."""
    lease_left_ms: int
    """The time until its lease ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind its table, and how close it is to losing data to the table's cleaner."""

    commits: int
    """Commits that the group has not committed."""
    size_bytes: int
    """Bytes of those commits."""
    seconds: float
    """Seconds since the oldest of those commits completed."""
    loss_commits: int | None = None
    """Commits until the cleaner deletes files of the next range; None: unknown, or the table has no known cleaner."""
    loss_seconds: float | None = None
    """Seconds until the cleaner deletes files of the next range; None: as for `loss_commits`."""
    holds_cleaner: bool = False
    """Whether the reader is behind and holds the cleaner of Penstock, by the newest clean: `loss_commits` or
    `loss_seconds` is then what is left of its bound."""


@dataclass(frozen=True, slots=True)
class GroupAlignment:
    """How far an aligned group may read now."""

    set: str
    """The name of its alignment set."""
    ceiling_us: int | None
    """The highest event time that the set allows, UTC microseconds; None: not known. The slowest group may read one
    split beyond it."""
    held: bool
    """Whether splits are pending, and all of them wait for slower members of the set; of a group over tables: whether
    a table waits so."""
    set_number: int = 0
    """A number of the set that differs for sets of the same name of different callers; 0: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in a list of groups."""

    table: str
    """The table's name."""
    group: str
    """The group's name."""
    state: str
    """running, paused (back-pressure), waiting (the table does not exist yet), stopped or ended."""
    committed: Position
    """The position up to which all splits are finished."""
    planned: Position
    """The position up to which rounds are planned."""
    readers: int
    """The number of readers."""
    tables: int = 0
    """Of a group over tables: the number of its tables. Its `table` is then the pattern of their names."""
    over: str = ""
    """Of the group of a table: the pattern of the group over tables to which it belongs; '' if to none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """The activity of a group. Counters start with the server's process; rates are of the last minute."""

    summary: GroupSummary
    """The group's name, state and positions."""
    pending_splits: int
    """The number of splits that no reader holds."""
    held_splits: int
    """The number of splits that readers hold."""
    lag: GroupLag | None = None
    """The lag, as last measured; None: not measured yet."""
    issued_ms: int | None = None
    """The time of the newest instant that is planned, since 1970 UTC."""
    rows: int = 0
    """Rows of finished splits."""
    size_bytes: int = 0
    """Bytes of finished splits."""
    finished_splits: int = 0
    """Finished splits."""
    expired_splits: int = 0
    """Splits whose reader's lease ended."""
    fenced: int = 0
    """Calls that were refused because the member's epoch was not current."""
    rows_per_second: float = 0.0
    """Rows per second."""
    bytes_per_second: float = 0.0
    """Bytes per second."""
    error_code: str = ""
    """The code of the error that stopped the group, or ''."""
    lag_age_ms: int | None = None
    """The time since the lag was measured; None: unknown."""
    watermark_us: int | None = None
    """The watermark, UTC microseconds; None: the group has none, or it is not known yet."""
    alignment: GroupAlignment | None = None
    """How far the group may read; None: it is not aligned."""


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table of a server."""

    table: str
    """The table's name."""
    watermark_ms: int | None = None
    """The watermark, since 1970 UTC, of the stream whose batch was planned last."""
    error_code: str = ""
    """The code of the error by which the table cannot be opened now, or ''."""
    error: str = ""
    """The text of that error, or ''."""
