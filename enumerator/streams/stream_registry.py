"""The streams that read through a server, in bounded memory: streams register by the calls that they make anyway.

Nothing is stored: a stream that calls after a restart of the server is registered again. Any thread.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from penstock.enumerator.streams.alignment import set_number
from penstock.proto.model.groups import GroupLag
from penstock.proto.model.names import sanitized_name
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.model.streams import NextBatch, Progress, StreamPoint, StreamScope

MAX_STREAMS: Final = 2_000
"""Registered streams. Beyond it a caller with most streams loses the one that has been silent longest."""
STOPPED_MS: Final = 10 * 60_000
"""A stream without a call for so long is shown as stopped."""
FORGET_MS: Final = 24 * 3_600_000
"""A named stream without a call for so long is forgotten."""
FORGET_UNNAMED_MS: Final = 3_600_000
"""The same for a stream with a generated name, which is another one after each restart of its query."""


class StreamKey(NamedTuple):
    """Identifies a stream of a server."""

    table: str
    """The table's name."""
    name: str
    """The stream's name, or a generated one."""
    principal: str
    """Who calls: streams of different callers are different."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredStream:
    """A stream as of its last call. Times are those of the registry's clock."""

    named: bool
    """Whether the caller gave the name."""
    seen_ms: int
    """The time of the last call."""
    committed: StreamPoint
    """The point after which the stream last requested a batch."""
    planned: StreamPoint
    """The end of its newest batch."""
    state: StreamState
    """What the last call returned."""
    batches: int = 0
    """The number of batches."""
    error_code: str = ""
    """The error of the last call; '' if it succeeded."""
    alignment: str = ""
    """The name of the alignment set; '' if none."""
    ceiling_us: int | None = None
    """The highest event time that the set allowed at the last call; None if unknown."""
    lag: GroupLag | None = None
    """The newest lag after `committed`; None if it is not measured."""
    lag_at_ms: int = 0
    """When the lag was measured."""
    lag_error: str = ""
    """The code of the error of the last measurement; '' if it succeeded."""


def stream_key(scope: StreamScope) -> StreamKey:
    """The key of a stream. A stream without a name gets one from the id that its reader sends with each request, or
    from what it reads."""
    request = scope.request
    if scope.name:
        return StreamKey(request.table, scope.name, scope.principal)
    if request.of_stream:
        return StreamKey(request.table, f"stream-{sanitized_name(request.of_stream)[:12]}", scope.principal)
    text = repr((type(request.query).__name__, request.columns, request.where, request.event_time))
    name = f"unnamed-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    return StreamKey(request.table, name, scope.principal)


class StreamRegistry:
    """The streams of a server. `clock_ms` never runs backwards."""

    def __init__(self, clock_ms: Callable[[], int], max_streams: int = MAX_STREAMS) -> None:
        self._clock_ms, self._max_streams = clock_ms, max_streams
        self._lock = threading.Lock()
        self._streams: OrderedDict[StreamKey, RegisteredStream] = OrderedDict()

    def started(self, scope: StreamScope, point: StreamPoint) -> None:
        """A stream started at a point. A stream of the same name on the table is replaced."""
        self._put(scope, point, point, StreamState.IDLE)

    def answered(self, scope: StreamScope, point: StreamPoint, batch: NextBatch) -> None:
        """A stream requested the batch after a point, and got one, or none."""
        if batch.point.ended:
            state = StreamState.ENDED
        elif batch.held:
            state = StreamState.HELD
        else:
            state = StreamState.IDLE if batch.point == point else StreamState.RUNNING
        self._put(scope, point, batch.point, state)

    def failed(self, scope: StreamScope, point: StreamPoint, error_code: str) -> None:
        """A request for the batch after a point failed."""
        self._put(scope, point, point, StreamState.FAILED, error_code)

    def _put(
        self, scope: StreamScope, point: StreamPoint, planned: StreamPoint, state: StreamState, error_code: str = ""
    ) -> None:
        key, now_ms = stream_key(scope), self._clock_ms()
        with self._lock:
            before = self._streams.pop(key, None)
            if before is None:
                self._make_room()
            self._streams[key] = RegisteredStream(
                named=bool(scope.name),
                seen_ms=now_ms,
                committed=point,
                planned=planned,
                state=state,
                batches=(before.batches if before is not None else 0) + (planned != point),
                error_code=error_code,
                alignment=scope.alignment.set if scope.alignment is not None else "",
                ceiling_us=scope.ceiling.until_us if scope.ceiling is not None else None,
                lag=before.lag if before is not None else None,
                lag_at_ms=before.lag_at_ms if before is not None else 0,
            )

    def _make_room(self) -> None:
        """Removes the stream that has been silent longest, of the caller with most streams, if the registry is full."""
        if len(self._streams) < self._max_streams:
            return
        most = Counter(key.principal for key in self._streams).most_common(1)[0][0]
        del self._streams[next(key for key in self._streams if key.principal == most)]

    def _forget(self, now_ms: int) -> None:
        for key, stream in list(self._streams.items()):
            silent_ms = now_ms - stream.seen_ms
            if silent_ms < FORGET_UNNAMED_MS:
                return  # the streams are in the order of their last calls
            if silent_ms >= (FORGET_MS if stream.named else FORGET_UNNAMED_MS):
                del self._streams[key]

    def positions(self) -> dict[StreamKey, Progress]:
        """The progress of each stream up to which its batches are processed. Streams that have ended are left out."""
        with self._lock:
            self._forget(self._clock_ms())
            return {
                key: stream.committed.progress
                for key, stream in self._streams.items()
                if stream.state is not StreamState.ENDED
            }

    def measured(self, key: StreamKey, lag: GroupLag | None, error_code: str = "") -> None:
        """Sets the lag of a stream, or None and the error of its measurement."""
        with self._lock:
            stream = self._streams.get(key)
            if stream is not None:
                self._streams[key] = replace(
                    stream, lag=lag, lag_at_ms=self._clock_ms(), lag_error=error_code
                )  # keeps its place in the order

    def statuses(self, table: str = "") -> tuple[StreamStatus, ...]:
        """The streams of a table, or of all tables, by table and name."""
        now_ms = self._clock_ms()
        with self._lock:
            self._forget(now_ms)
            streams = [(key, stream) for key, stream in self._streams.items() if table in ("", key.table)]
        return tuple(_status(key, stream, now_ms) for key, stream in sorted(streams, key=lambda item: item[0]))


def _status(key: StreamKey, stream: RegisteredStream, now_ms: int) -> StreamStatus:
    silent_ms = max(0, now_ms - stream.seen_ms)
    stopped = silent_ms >= STOPPED_MS and stream.state is not StreamState.ENDED
    return StreamStatus(
        table=key.table,
        name=key.name,
        state=StreamState.STOPPED if stopped else stream.state,
        committed=stream.committed.progress.position,
        planned=stream.planned.progress.position,
        batches=stream.batches,
        silent_ms=silent_ms,
        watermark_us=stream.planned.watermark.at_us,
        snapshot=stream.planned.snapshot,
        kafka=stream.planned.progress.kafka,
        lag=stream.lag,
        lag_age_ms=0 if stream.lag is None else max(0, now_ms - stream.lag_at_ms),
        error_code=stream.error_code or stream.lag_error,
        alignment=stream.alignment,
        alignment_number=set_number(key.principal, stream.alignment) if stream.alignment else 0,
        ceiling_us=stream.ceiling_us,
    )
