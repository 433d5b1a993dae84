"""The changes of one table, round after round: first its rows, then each commit after them.

A round is a batch of a stream (`penstock.proto.enumerator.Enumerator.next_batch`). Its end is stored in the target as
text, in the same transaction as its rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa

from penstock.engine.arrow import Reading
from penstock.engine.connect import embedded_enumerator, enumerator_for, open_tables
from penstock.engine.parallel.threads import threads_of
from penstock.engine.read_tasks import OpenedRead, open_request
from penstock.engine.requests.stream import stream_limits, stream_scope, stream_start
from penstock.engine.stream_offsets import continued, offset_of, point_of, scope_id
from penstock.engine.sync.column_history import KnownColumns, check_kept, known_columns, parsed_columns
from penstock.engine.sync.job import SyncEntry
from penstock.engine.sync.layout import TargetLayout, described_layout
from penstock.enumerator.embedded import EmbeddedEnumerator, available_cpus
from penstock.proto.enumerator import Enumerator
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import Hybrid, KafkaPlace
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.streams import NoBatch, SnapshotBatch, StreamPoint, StreamScope, batch_request
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from penstock.proto.retry import Retry
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.history import parse_history

MAX_POSITION_CHARS: Final = 16 << 20
"""The longest stored position that is parsed."""
_SERVER_VARIABLE: Final = "PENSTOCK_SERVER"
_COLUMNS: Final = "columns"
"""The key of the known columns in a stored position, which is otherwise an offset of a stream."""
_ROUND_BYTES: Final = 64 << 20
_ROUND_ROWS: Final = 500_000
_FIXED: Final = {"query": "cdc", "after": "snapshot"}
_OPTIONS: Final = frozenset(
    {
        "where", "server", "serverCa", "serverCert", "serverKey", "serverToken", "retryTimeout", "splitBytes",
        "metadata", "columnsByName", "timelineTimezone", "deleteField", "deleteMarker", "batchRows",
        "onCorrupt", "maxCommitsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger", "maxRowsPerTrigger",
    }
)  # fmt: skip
"""The options of a stream with which the copy stays equal to the rows of the source."""


class NotReady(Exception):
    """The source has not answered yet: call again soon. Other sources must not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A part of the snapshot, or the changes of some commits."""

    position: str
    """The position after the round, as stored in the target."""
    columns: pa.Schema
    """The columns of the table at the end of the round, with Hudi's columns first."""
    in_snapshot: bool
    """Whether the rows are those of the snapshot: each key once, each an insert."""
    done: int
    """With `in_snapshot`, the splits of the snapshot that are delivered with this round."""
    total: int
    """With `in_snapshot`, the splits of the snapshot."""
    order_key: str
    """The order key of the instant up to which the target is complete after the round."""
    needs_unique_keys: bool = False
    """Whether the round is written only if no two rows of the target have one key."""
    _opened: OpenedRead | None = field(default=None, repr=False)
    _rows: tuple[pa.RecordBatch, ...] = field(default=(), repr=False)


class TableFeed:
    """The rounds of a table. One thread at a time; needs no closing.

    `table` is a path or URI, or with the option `server` a name. `given` are options of a stream
    (docs/reference/options.md). ConfigurationError for an option with which the copy would not be equal to the table.
    """

    def __init__(self, table: str, given: Mapping[str, object], environment: Mapping[str, str] = os.environ) -> None:
        self.table = table
        self._options = stream_options(given, environment)
        self._retry = Retry(policy=self._options.retry_if_given)
        self._embedded = _embedded(self._options)
        self._enumerator: Enumerator = self._embedded or enumerator_for(self._options.server, self._options.access)
        self._scope: StreamScope | None = None

    def layout(self, entry: SyncEntry) -> TargetLayout | None:
        """The layout for the table's columns now; None: no commit has recorded a schema yet."""
        return described_layout(self._describe(), entry.key, entry.source_column)

    def description(self) -> TableDescription:
        """The table as it is now."""
        return self._describe()

    def start(self) -> str:
        """The position before the first round: the snapshot of the table now."""
        scope = self._streamed()
        start = stream_start(self.table, self._options, self._describe)
        point = self._retry.call(partial(self._enumerator.start_stream, scope, start))
        return self._text(point)

    def next_round(self, position: str) -> Round | None:
        """The round after a position; None: there is nothing new. Errors: see `Enumerator.next_batch`; SchemaMismatch
        if a column of the rows before the position is gone, or is another column now."""
        scope, (point, before) = self._streamed(), self._point(position)
        limited = replace(scope, limits=_limits(self._options))
        batch = self._retry.call(partial(self._enumerator.next_batch, limited, point))
        if batch.point == point:
            return None
        place, opened = batch.point.snapshot, self._opened(batch.point)
        columns = arrow_schema(parse_record_schema(batch.schema_json, f"schema of table {self.table}"))
        known = before if opened is None else self._checked_columns(columns, opened, before)
        return Round(
            position=self._text(batch.point, known),
            columns=columns,
            in_snapshot=isinstance(batch.point.content, SnapshotBatch),
            done=0 if place is None else place.done,
            total=0 if place is None else place.total,
            order_key=str(batch.point.progress.position.order_key),
            _opened=opened,
        )

    def batches(self, of: Round) -> Generator[pa.RecordBatch, None, None]:
        """The rows of a round, in no order between file groups: `_change_type`, `_change_seq` and the columns."""
        if of._opened is None:
            return
        threads = threads_of(self._options, of._opened, available_cpus(), ahead=True)
        with closing(Reading(of._opened, threads, ordered=False).batches()) as batches:
            yield from batches

    def is_loaded(self, position: str) -> bool:
        """Whether the snapshot is delivered."""
        place = self._point(position)[0].snapshot
        return place is None or place.done == place.total

    def has_reached(self, position: str, newest: Position) -> bool:
        """Whether everything up to `newest` is delivered."""
        return self._point(position)[0].progress.position >= newest

    def hand_over(self, position: str, hybrid: Hybrid) -> KafkaPlace | None:
        """The offsets of the topic at which the table of this position ends, whatever is delivered of its snapshot;
        None: the table has no commit. Errors of `penstock.enumerator.handover`."""
        scope, (point, _) = self._streamed(), self._point(position)
        scope = replace(scope, request=replace(scope.request, hybrid=hybrid))
        at_end = replace(point, snapshot=None, content=NoBatch())
        return self._retry.call(partial(self._enumerator.next_batch, scope, at_end)).point.progress.kafka

    def _opened(self, point: StreamPoint) -> OpenedRead | None:
        """The read of the round that ends at `point`; None: it has no rows."""
        request = batch_request(self._streamed(), point)
        return None if request is None else open_request(replace(request, slots=1), self._options, self._embedded)

    def _checked_columns(self, columns: pa.Schema, opened: OpenedRead, before: KnownColumns | None) -> KnownColumns:
        text = opened.shared.scan.schema_history
        history = parse_history(text, f"table {self.table}") if text else None
        now = known_columns(columns.names, history)
        if before is not None:
            check_kept(self.table, before, now, history)
        return now

    def _describe(self) -> TableDescription:
        return self._retry.call(partial(self._enumerator.describe_table, self.table))

    def _streamed(self) -> StreamScope:
        if self._scope is None:
            self._scope = stream_scope(self.table, self._options, self._describe)
        return self._scope

    def _text(self, point: StreamPoint, columns: KnownColumns | None = None) -> str:
        offset = offset_of(point, scope_id(self._streamed()))
        known = {} if columns is None else {_COLUMNS: columns.as_json()}
        return json.dumps({**offset, **known}, separators=(",", ":"))

    def _point(self, position: str) -> tuple[StreamPoint, KnownColumns | None]:
        if len(position) > MAX_POSITION_CHARS:
            raise ConfigurationError(f"position of table {self.table}: got {len(position)} characters")
        scope = scope_id(self._streamed())
        try:
            offset = json.loads(position)
            columns = parsed_columns(offset.pop(_COLUMNS, None)) if isinstance(offset, dict) else None
            return continued(offset, point_of(offset, scope), None), columns
        except (ValueError, ConfigurationError) as error:
            raise ConfigurationError(
                f"table {self.table}: the target's position does not fit: it was stored with another `where`, or is "
                f"not one of a sync: correct the job, or load the table again (--restart): got {position[:100]!r}"
            ) from error


def stream_options(given: Mapping[str, object], environment: Mapping[str, str]) -> ParsedOptions:
    """The options of the stream of a sync.

    Without `server` in `given` the table is a path: the environment's server does not count. ConfigurationError for an
    option with which the copy would not be equal to the table.
    """
    if not any(name.casefold() == "server" for name in given):
        environment = {name: value for name, value in environment.items() if name != _SERVER_VARIABLE}
    given_alone = parse_options(given, entry_point=EntryPoint.STREAM, environment=environment)
    other = sorted(given_alone.explicit - _OPTIONS)
    if other:
        raise ConfigurationError(
            f"option {other[0]}: not for a sync, which reads all columns of the snapshot and then every change: leave "
            f"it out; expected some of {', '.join(sorted(_OPTIONS))}"
        )
    return parse_options({**given, **_FIXED}, entry_point=EntryPoint.STREAM, environment=environment)


def _limits(options: ParsedOptions) -> RoundLimits:
    limits = stream_limits(options)
    return replace(limits, max_bytes=limits.max_bytes or _ROUND_BYTES, max_rows=limits.max_rows or _ROUND_ROWS)


def _embedded(options: ParsedOptions) -> EmbeddedEnumerator | None:
    return None if options.server is not None else embedded_enumerator(open_tables(max_tables=1))
