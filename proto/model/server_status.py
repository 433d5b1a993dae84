"""The status of a server, and of the streams that read through it, for operators. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from penstock.proto.model.catalogs import CatalogStatus
from penstock.proto.model.group_status import GroupLag, GroupStatus, TableStatus
from penstock.proto.model.hybrid import KafkaPlace
from penstock.proto.model.positions import Position
from penstock.proto.model.streams import SnapshotPlace


class StreamState(StrEnum):
    """What the last call of a stream returned."""

    RUNNING = "running"
    """A batch."""
    IDLE = "idle"
    """Nothing new."""
    HELD = "held"
    """No batch, because the stream is ahead of its alignment set."""
    FAILED = "failed"
    """An error."""
    STOPPED = "stopped"
    """The stream has not called for a while."""
    ENDED = "ended"
    """The end of the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """A stream that read through a server."""

    table: str
    """The table's name."""
    name: str
    """The stream's name, or a generated one."""
    state: StreamState
    """What its last call returned."""
    committed: Position
    """The point after which it last requested a batch: everything before it is processed."""
    planned: Position
    """The end of its newest batch."""
    batches: int = 0
    """The number of batches since the server first saw the stream."""
    silent_ms: int = 0
    """The time since its last call."""
    watermark_us: int | None = None
    """The watermark of its newest batch, UTC microseconds; None if unknown."""
    snapshot: SnapshotPlace | None = None
    """The progress in the snapshot that it starts with; None outside of one."""
    kafka: KafkaPlace | None = None
    """The progress in the topic of a hybrid stream; None in the table."""
    lag: GroupLag | None = None
    """The lag after `committed`; None if it is not measured."""
    lag_age_ms: int = 0
    """The time since the lag was measured."""
    error_code: str = ""
    """The error of the last call, or of the last measurement of the lag; '' if none."""
    alignment: str = ""
    """The name of its alignment set; '' if none."""
    alignment_number: int = 0
    """See `GroupAlignment.set_number`."""
    ceiling_us: int | None = None
    """The highest event time that its set allowed at the last call, UTC microseconds; None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """The status of a server."""

    version: str
    """The server's version."""
    now_ms: int
    """The server's clock, since 1970 UTC."""
    uptime_ms: int
    """The time since the server started."""
    tables: tuple[TableStatus, ...] = ()
    """The tables that it serves."""
    groups: tuple[GroupStatus, ...] = ()
    """The groups on them."""
    streams: tuple[StreamStatus, ...] = ()
    """The streams on them whose callers store the points, by table and name."""
    catalogs: tuple[CatalogStatus, ...] = ()
    """Its catalogs, in the order of the configuration; only in the status of all tables."""
