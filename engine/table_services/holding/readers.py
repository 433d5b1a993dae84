"""The readers that a call names to hold the cleaner of a table, and where they are."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.engine.group.connect import GroupEnumerator, group_enumerator_for
from penstock.engine.table_services.cleaning.clean_inputs import archived_writes
from penstock.engine.table_services.holding.checkpoints import checkpoint_position
from penstock.engine.table_services.serviced_table import ServicedTable
from penstock.proto.errors import ConfigurationError, UnknownGroup
from penstock.proto.model.access import NO_ACCESS, ServerAccess
from penstock.proto.model.hybrid import KafkaPlace
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.options.hold_bound import HoldBound
from penstock.proto.options.registry import EntryPoint, parse_options
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata
from penstock.table.timeline.services.recorded_holds import RecordedHold, encode_holds
from penstock.writer.table_services.cleaner_holds import (
    CleanerHold,
    HoldState,
    ReaderKind,
    ReaderPosition,
    hold_of,
    hold_text,
    is_unbounded,
    oldest_held,
)

__all__ = ["CleanerHold", "Held", "HoldOptions", "checked_hold_options", "held_by", "hold_options", "stream_position"]

log = logging.getLogger("penstock.writer")

_MAX_READERS = 100
_FILE = "file://"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldOptions:
    """Which readers hold the cleaner."""

    readers: tuple[str, ...] = ()
    """Names of consumer groups and streams of the server."""
    checkpoints: tuple[str, ...] = ()
    """Folders of checkpoints of Spark queries."""
    at_most: HoldBound | None = None
    """How long one may hold the cleaner; None without readers."""
    server: str | None = None
    """The server's address; None without `readers`."""
    server_table: str | None = None
    """The table's name on the server; None: the table that the server reads at the path of the call."""
    access: ServerAccess = field(default=NO_ACCESS, repr=False)
    """How the server is reached."""


def hold_options(
    hold_for: Sequence[str],
    hold_checkpoints: Sequence[str],
    hold_at_most: str | None,
    server: str | None,
    server_table: str | None,
    server_options: Mapping[str, str] | None,
) -> HoldOptions:
    """The options of a call. ConfigurationError if a reader is named without a bound, or a group without a server."""
    parsed = parse_options({**(server_options or {}), "server": server}, entry_point=EntryPoint.CONSUMER)
    return checked_hold_options(hold_for, hold_checkpoints, hold_at_most, parsed.server, server_table, parsed.access)


def checked_hold_options(
    hold_for: Sequence[str],
    hold_checkpoints: Sequence[str],
    hold_at_most: str | None,
    server: str | None,
    server_table: str | None,
    access: ServerAccess,
    most: int = _MAX_READERS,
) -> HoldOptions:
    """The options of a call that has parsed those of the server: which readers hold the cleaner, and how the server is
    reached. ConfigurationError if a reader is named without a bound, or a group without a server, and for more readers
    than `most`."""
    for name, values in (("hold_for", hold_for), ("hold_checkpoints", hold_checkpoints)):
        if isinstance(values, str):
            raise ConfigurationError(f"{name}: got the text {values[:80]!r}, expected a list of texts")
    readers, folders = tuple(dict.fromkeys(hold_for)), tuple(dict.fromkeys(hold_checkpoints))
    if not readers and not folders:
        if hold_at_most is not None:
            raise ConfigurationError("hold_at_most without a reader: give hold_for or hold_checkpoints")
        return HoldOptions()
    if hold_at_most is None:
        raise ConfigurationError(
            "hold_at_most is not given: say how long a reader may hold the cleaner, such as 48h or 200 commits; it has "
            "no default, because a reader that stays behind for longer loses its range, and without a bound the table "
            "keeps all files"
        )
    if readers and server is None:
        raise ConfigurationError(
            f"hold_for={readers[0][:80]!r} without a server: give the option server (HOST:PORT), which stores the group"
        )
    if len(readers) + len(folders) > most:
        raise ConfigurationError(f"{len(readers) + len(folders)} readers hold the cleaner, at most {most} may")
    return HoldOptions(
        readers=readers,
        checkpoints=folders,
        at_most=HoldBound.parse(hold_at_most),
        server=server,
        server_table=server_table,
        access=access,
    )


@dataclass(frozen=True, slots=True)
class Held:
    """What the named readers need."""

    holds: tuple[CleanerHold, ...] = ()
    """The readers, in the order of their names in the call."""
    position: Position | None = None
    """The position of the one that is furthest behind, of those within the bound; None without one."""
    readers: tuple[ReaderPosition, ...] = ()
    """Where they are, in the order of `holds`."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    """The entry of a clean's extra metadata by which servers tell the readers' lags."""


def held_by(serviced: ServicedTable, options: HoldOptions) -> Held:
    """Asks the server and reads the checkpoints. A reader beyond the bound is logged as a warning.

    Errors, and the caller must not clean: UnknownGroup for a name that the server does not have, those of calls to the
    server, and those of `checkpoint_position`.
    """
    bound = options.at_most
    if bound is None:
        return Held()
    table = serviced.table.pinned()
    positions = _on_server(serviced, options) if options.readers else []
    positions += [
        ReaderPosition(ReaderKind.CHECKPOINT, redacted_uri(folder), checkpoint_position(folder, table.properties.name))
        for folder in options.checkpoints
    ]

    timeline, environment = table.timeline(), serviced.environment
    archived = _unread_archived(table, timeline, positions)
    pairs = [
        (
            reader,
            hold_of(
                timeline,
                reader,
                bound,
                lambda instant: _has_rows(table.commit(instant)),
                environment.now(),
                environment.zone,
                archived,
            ),
        )
        for reader in positions
    ]
    for _, hold in pairs:
        if hold.state is HoldState.EXCEEDED or is_unbounded(hold):
            log.warning("%s: %s", serviced.where, hold_text(hold))
    records = encode_holds(
        RecordedHold(kind=reader.kind.value, name=reader.name, commits=bound.commits, seconds=bound.seconds)
        for reader in positions
    )
    return Held(tuple(hold for _, hold in pairs), oldest_held(pairs), tuple(positions), records)


def _unread_archived(
    table: HudiTable, timeline: Timeline, readers: Sequence[ReaderPosition]
) -> dict[InstantTime, InstantTime]:
    """Requested time -> order key of the archived writes with rows that one of the readers has not read."""
    oldest = min((reader.position for reader in readers if reader.position is not None), default=None)
    if oldest is None:
        return {}
    archived = archived_writes(table, timeline)
    unread = {time: key for time, key in archived.items() if not oldest.holds(key)}
    commits = table.archive().commits if unread else {}
    return {time: key for time, key in unread.items() if time not in commits or _has_rows(commits[time])}


def _has_rows(commit: CommitMetadata) -> bool:
    """Whether a write has rows of its own; compactions and clusterings have none."""
    return not commit.is_service and bool(commit.stats or commit.replaced)


def _on_server(serviced: ServicedTable, options: HoldOptions) -> list[ReaderPosition]:
    enumerator = group_enumerator_for(options.server, options.access)
    table = options.server_table or _table_of(enumerator, serviced, options)
    described = enumerator.describe_table(table)
    if described.hudi_name != serviced.table.properties.name:
        raise ConfigurationError(
            f"{serviced.where}: table {table} of server {options.server} is table {described.hudi_name!r}, this one is "
            f"{serviced.table.properties.name!r}: give server_table, the table's name on the server"
        )
    status = enumerator.describe_server(table)
    groups = {each.summary.group for each in status.groups if each.summary.table == table}
    streams: dict[str, list[StreamStatus]] = {}
    for each in status.streams:
        if each.table == table:
            streams.setdefault(each.name, []).append(each)
    for name in options.readers:
        if name not in groups and name not in streams:
            raise UnknownGroup(
                f"{serviced.where}: server {options.server} has neither a consumer group nor a stream {name[:80]!r} on "
                f"table {table}: nothing was cleaned. `penstock groups list` and `penstock streams list` show them. A "
                "server forgets a stream when it restarts, and after 24 hours without a call. Leave the name out if "
                "the reader is gone; if a Spark query only stopped, name its checkpoint (hold_checkpoints, "
                "--hold-checkpoint) instead"
            )
    readers = [_group(enumerator, table, name) for name in options.readers if name in groups]
    return readers + [stream_position(streams[name], options.at_most) for name in options.readers if name in streams]


def _group(enumerator: GroupEnumerator, table: str, name: str) -> ReaderPosition:
    """Where a group is. While it reads the state of the table with which it starts, it needs this state and the commits
    after it; a server of an older version does not tell the position of the state."""
    description = enumerator.describe_group(table, name)
    committed = description.summary.committed
    is_done = description.summary.state == "ended" or _reads_topic(committed, description.kafka)
    return ReaderPosition(ReaderKind.GROUP, name, None if is_done else description.snapshot_at or committed)


def stream_position(streams: Sequence[StreamStatus], bound: HoldBound | None) -> ReaderPosition:
    """The lowest position of the streams with one name: those of different callers can have the same. Pure.

    A stream needs nothing more when it has processed its last batch. A server sets a stream to ENDED when it plans that
    batch. So the stream counts until it requests a batch after it, or has been silent for longer than the bound.
    """
    positions = [status.committed for status in streams if not _is_done(status, bound)]
    return ReaderPosition(ReaderKind.STREAM, streams[0].name, min(positions, default=None))


def _is_done(status: StreamStatus, bound: HoldBound | None) -> bool:
    if _reads_topic(status.committed, status.kafka):
        return True
    if status.state is not StreamState.ENDED:
        return False
    if bound is not None and bound.seconds is not None and status.silent_ms > bound.seconds * 1000:
        return True
    return status.committed >= status.planned and status.snapshot is None


def _reads_topic(committed: Position, kafka: KafkaPlace | None) -> bool:
    """Whether a hybrid reader has processed the table up to the hand-over. Positions in a topic are above it."""
    return kafka is not None and committed >= kafka.lake


def _table_of(enumerator: GroupEnumerator, serviced: ServicedTable, options: HoldOptions) -> str:
    """The name of the table on the server, by its path, among those that have one of the readers. ConfigurationError if
    that is not exactly one."""
    status, names = enumerator.describe_server(), {*options.readers}
    tables = {each.summary.table for each in status.groups if each.summary.group in names and not each.summary.tables}
    tables |= {each.table for each in status.streams if each.name in names}
    path = _real(serviced.storage.base_path)
    matching = [name for name in sorted(tables) if _real(enumerator.describe_table(name).base_path) == path]
    if len(matching) != 1:
        raise ConfigurationError(
            f"{serviced.where}: of the tables of server {options.server} with a group or stream "
            f"{', '.join(options.readers)[:300]} ({', '.join(sorted(tables))[:300] or 'none'}) {len(matching)} are at "
            "this path: give server_table, the table's name on the server"
        )
    return matching[0]


def _real(path: str) -> str:
    return os.path.realpath(path.removeprefix(_FILE))
