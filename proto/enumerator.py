"""The seam between whatever drives a read and the enumerator: embedded in the process, or behind gRPC.

Both implementations (`penstock.enumerator.embedded`, `penstock.proto.client.client`) pass the same contract suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.proto.model.positions import Position
    from penstock.proto.model.queries import PlanRequest
    from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription
    from penstock.proto.model.splits import Scan
    from penstock.proto.model.streams import NextBatch, StreamPoint, StreamScope, StreamStart


class Enumerator(Protocol):
    """Plans reads of tables and hands out their splits. Every method may be called from any thread.

    Errors are those of `penstock.proto.errors`, the same class from both implementations.
    """

    def describe_table(self, table: str) -> TableDescription:
        """The table now. TableNotFound if there is none."""
        ...

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        """The newest position that may be consumed; with `after`, never behind it and at most `max_commits` *data*
        commits ahead of it (0: no cap). Nothing new: `after` itself. No side effect."""
        ...

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        """Where a stream begins that nobody has read yet; with StartSnapshot the table's splits are listed now. A table
        that is not there yet is begun at EARLIEST, whatever the start. No side effect."""
        ...

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        """How far the batch behind `point` goes, within the scope's limits, and its watermark; the point itself if
        nothing new is there, or the table is not there yet. No side effect: asked again it may go further. Errors:
        LateInstant, DataInvalidated, PositionExpired (by `on_lost_range`), those of planning."""
        ...

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        """Plans a read and keeps the plan. Same table state and request: same splits, in the same order. A request id
        that opened a plan, which is still held, gives that plan again: a repeated call opens one."""
        ...

    def describe_plan(self, plan_id: str) -> Scan:
        """What all splits of a plan share. UnknownPlan if it is not held (any more)."""
        ...

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        """Entry `index` of the append-only list of (plan, slot). Asked again, by whichever attempt: the same answer.
        `index` may be at most the list's length (UnknownSplit beyond). EndOfSlot is sticky."""
        ...

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        """Takes in a reader's metrics; a repeated report of the same (plan, slot, index) replaces the first."""
        ...
