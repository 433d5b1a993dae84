"""`Enumerator`, the plan API: the interface between an engine and the enumerator, in process or over gRPC.

Both implementations (`penstock.enumerator.embedded`, `penstock.proto.client.client`) pass the same contract suite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.proto.model.positions import Position
    from penstock.proto.model.queries import PlanRequest
    from penstock.proto.model.reports import OpenedPlan, SplitAnswer, SplitReport, TableDescription, TimelinePage
    from penstock.proto.model.splits import Scan
    from penstock.proto.model.streams import NextBatch, StreamPoint, StreamScope, StreamStart


class Enumerator(Protocol):
    """Plans reads of tables and assigns their splits. Every method may be called from any thread.

    Both implementations raise the same classes of `penstock.proto.errors`.
    """

    def describe_table(self, table: str) -> TableDescription:
        """The table now. TableNotFound if there is none."""
        ...

    def newest_position(self, table: str, after: Position | None = None, max_commits: int = 0) -> Position:
        """The newest position that may be consumed. No side effect.

        With `after`: at or after it, and at most `max_commits` *data* commits after it (0: no limit); `after` itself if
        there is nothing new.
        """
        ...

    def list_instants(self, table: str, *, after: str = "", as_of: str = "", max_instants: int = 0) -> TimelinePage:
        """The instants of the active timeline now that were requested after `after` and at or before `as_of` (digits;
        '': no bound), by requested time. No side effect.

        At most `max_instants` (0: no limit here; a server has a limit of its own), except that instants with one
        requested time are never separated. If `more`, the next page begins after the last requested time.
        """
        ...

    def start_stream(self, scope: StreamScope, start: StreamStart) -> StreamPoint:
        """The first point of a new stream. No side effect.

        With StartSnapshot the table's splits are listed now. A table that does not exist yet starts at EARLIEST,
        whatever `start` is.
        """
        ...

    def next_batch(self, scope: StreamScope, point: StreamPoint) -> NextBatch:
        """The end of the batch after `point`, within the scope's limits, and its watermark. No side effect.

        Returns `point` itself if there is nothing new or the table does not exist yet: no instant that completed before
        the call is missed. A server may wait for its next look at the table, at most a second. A repeated call may
        return a later end. Errors: LateInstant, DataInvalidated, PositionExpired (by `on_lost_range`), those of
        planning.
        """
        ...

    def open_plan(self, request: PlanRequest, request_id: str = "") -> OpenedPlan:
        """Plans a read and holds the plan. The same table state and request give the same splits in the same order.

        A repeated call with the same request id returns the plan that the first call opened, while it is held.
        """
        ...

    def describe_plan(self, plan_id: str) -> Scan:
        """The scan of a plan: what all its splits share. UnknownPlan if the plan is not held."""
        ...

    def next_split(self, plan_id: str, slot: int, index: int) -> SplitAnswer:
        """Entry `index` of the append-only list of splits of (plan, slot).

        Repeated calls, also by another attempt of the task, return the same answer. `index` is at most the length of
        the list (else UnknownSplit). EndOfSlot is final.
        """
        ...

    def finish_split(self, plan_id: str, slot: int, index: int, report: SplitReport) -> None:
        """Records a reader's metrics; a repeated report for the same (plan, slot, index) replaces the first."""
        ...
