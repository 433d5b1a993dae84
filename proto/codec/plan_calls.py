"""Requests and answers of the plan API's calls as messages of `penstock.v1`.

The client sets `request_id` and `client_version`, and only the server's log reads them; they are not part of a value.
"""

from __future__ import annotations

from typing import Final

from penstock.proto.codec import checks as check
from penstock.proto.codec.checks import position_from_message, position_to_message
from penstock.proto.codec.hybrid.messages import hybrid_from_message, hybrid_to_message
from penstock.proto.codec.queries import query_from_message, set_query
from penstock.proto.codec.splits import (
    marker_from_message,
    marker_to_message,
    scan_from_message,
    scan_to_message,
    split_from_message,
    split_to_message,
)
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.reports import (
    EndOfSlot,
    MergeOutcomes,
    NextSplit,
    OpenedPlan,
    SplitAnswer,
    SplitReport,
    TableDescription,
)
from penstock.proto.model.splits import Scan
from penstock.proto.v1 import penstock_pb2 as pb

EVENT_TIME_UNITS: Final = ("", "s", "ms", "us")
_DEFAULT_SPLIT_BYTES = PlanRequest(table="", query=Snapshot()).target_split_bytes


def table_from_message(message: pb.DescribeTableRequest) -> str:
    """The name of the requested table."""
    return check.name("describe table", "table", message.table, check.MAX_PATH_CHARS)


def description_to_message(description: TableDescription) -> pb.DescribeTableResponse:
    """A table's description."""
    with check.encoding(f"description of table {description.table!r}"):
        return pb.DescribeTableResponse(
            table=description.table,
            base_path=description.base_path,
            hudi_name=description.hudi_name,
            table_type=description.table_type,
            table_version=description.table_version,
            timeline_layout=description.timeline_layout,
            timeline_timezone=description.timeline_timezone,
            merge_mode=description.merge_mode,
            record_key_fields=description.record_key_fields,
            partition_fields=description.partition_fields,
            ordering_fields=description.ordering_fields,
            schema_json=description.schema_json,
            newest=position_to_message(description.newest),
        )


def description_from_message(message: pb.DescribeTableResponse) -> TableDescription:
    """ConfigurationError for a field that cannot be."""
    what = f"description of table {message.table[:80]!r}"
    if not message.HasField("newest"):
        raise check.breach(what, "newest", "nothing", "a position")
    return TableDescription(
        table=check.name(what, "table", message.table, check.MAX_PATH_CHARS),
        base_path=check.name(what, "base_path", message.base_path, check.MAX_PATH_CHARS),
        hudi_name=check.text(what, "hudi_name", message.hudi_name),
        table_type=check.name(what, "table_type", message.table_type),
        table_version=check.number(what, "table_version", message.table_version, check.MAX_INDEX),
        timeline_layout=check.number(what, "timeline_layout", message.timeline_layout, check.MAX_INDEX),
        timeline_timezone=check.text(what, "timeline_timezone", message.timeline_timezone),
        merge_mode=check.text(what, "merge_mode", message.merge_mode),
        record_key_fields=check.names(what, "record_key_fields", message.record_key_fields),
        partition_fields=check.names(what, "partition_fields", message.partition_fields),
        ordering_fields=check.names(what, "ordering_fields", message.ordering_fields),
        schema_json=check.text(what, "schema_json", message.schema_json, check.MAX_SCHEMA_CHARS),
        newest=position_from_message(what, "newest", message.newest),
    )


def newest_to_message(table: str, after: Position | None, max_commits: int) -> pb.NewestPositionRequest:
    """A request for the newest position."""
    with check.encoding("newest position"):
        return pb.NewestPositionRequest(
            table=table, after=None if after is None else position_to_message(after), max_commits=max_commits
        )


def newest_from_message(message: pb.NewestPositionRequest) -> tuple[str, Position | None, int]:
    """(table, after, max_commits) of such a request."""
    what = "newest position"
    table = check.name(what, "table", message.table, check.MAX_PATH_CHARS)
    after = position_from_message(what, "after", message.after) if message.HasField("after") else None
    return table, after, check.number(what, "max_commits", message.max_commits, check.MAX_INDEX)


def newest_answer_from_message(message: pb.NewestPositionResponse) -> Position:
    """The position that was answered."""
    if not message.HasField("position"):
        raise check.breach("newest position", "position", "nothing", "a position")
    return position_from_message("newest position", "position", message.position)


def request_to_message(request: PlanRequest) -> pb.OpenPlanRequest:
    """A plan request; the query is its one of `query`. Settings of Kafka clients are not sent."""
    with check.encoding(f"plan request for table {request.table!r}"):
        message = pb.OpenPlanRequest(
            table=request.table,
            columns=request.columns,
            where=request.where,
            slots=request.slots,
            event_time=request.event_time,
            event_time_unit=request.event_time_unit,
            scan_event_time=request.scan_event_time,
            of_stream=request.of_stream,
            target_split_bytes=request.target_split_bytes,
            without_metadata=not request.metadata,
            record_index=request.record_index,
            delete_marker=None if request.delete_marker is None else marker_to_message(request.delete_marker),
            skip_corrupt=request.skip_corrupt,
            columns_by_name=request.columns_by_name,
            without_meta=not request.meta,
            hybrid=None if request.hybrid is None else hybrid_to_message(request.hybrid),
            completion_time=request.completion_time,
            timeline_timezone=request.timeline_timezone,
        )
        set_query(message, request.query)
        return message


def request_from_message(message: pb.OpenPlanRequest) -> PlanRequest:
    """ConfigurationError for a field that cannot be, or a query kind that this build does not know."""
    what = f"plan request for table {message.table[:80]!r}"
    return PlanRequest(
        table=check.name(what, "table", message.table, check.MAX_PATH_CHARS),
        query=query_from_message(what, message),
        columns=check.names(what, "columns", message.columns, check.MAX_COLUMNS),
        where=check.text(what, "where", message.where, check.MAX_WHERE_CHARS),
        slots=check.number(what, "slots", message.slots, check.MAX_INDEX),
        event_time=check.text(what, "event_time", message.event_time),
        event_time_unit=check.one_of(what, "event_time_unit", message.event_time_unit, EVENT_TIME_UNITS),
        scan_event_time=message.scan_event_time,
        of_stream=check.text(what, "of_stream", message.of_stream),
        target_split_bytes=check.number(what, "target_split_bytes", message.target_split_bytes) or _DEFAULT_SPLIT_BYTES,
        metadata=not message.without_metadata,
        record_index=message.record_index,
        delete_marker=marker_from_message(what, message.delete_marker) if message.HasField("delete_marker") else None,
        skip_corrupt=message.skip_corrupt,
        columns_by_name=message.columns_by_name,
        meta=not message.without_meta,
        hybrid=hybrid_from_message(what, message.hybrid) if message.HasField("hybrid") else None,
        completion_time=message.completion_time,
        timeline_timezone=check.text(what, "timeline_timezone", message.timeline_timezone),
    )


def request_id_of(message: pb.OpenPlanRequest) -> str:
    """The id of the call, '' where the client gave none. ConfigurationError for one that is too long."""
    return check.text("plan request", "request_id", message.request_id)


def opened_to_message(opened: OpenedPlan) -> pb.OpenPlanResponse:
    """An opened plan."""
    with check.encoding(f"opened plan {opened.plan_id}"):
        return pb.OpenPlanResponse(
            plan_id=opened.plan_id,
            slots=opened.slots,
            splits=opened.splits,
            size_bytes=opened.size_bytes,
            scan=scan_to_message(opened.scan),
        )


def opened_from_message(message: pb.OpenPlanResponse) -> OpenedPlan:
    """ConfigurationError for a field that cannot be."""
    what = f"opened plan {message.plan_id[:80]!r}"
    if not message.HasField("scan"):
        raise check.breach(what, "scan", "nothing", "a scan")
    splits = check.number(what, "splits", message.splits, check.MAX_SPLITS)
    slots = check.number(what, "slots", message.slots, check.MAX_INDEX)
    if slots > splits or (splits and not slots):
        raise check.breach(what, "slots", f"{slots} for {splits} splits", "1 to one a split, 0 only without splits")
    return OpenedPlan(
        plan_id=check.name(what, "plan_id", message.plan_id),
        slots=slots,
        splits=splits,
        size_bytes=check.number(what, "size_bytes", message.size_bytes),
        scan=scan_from_message(message.scan),
    )


def plan_id_from_message(message: pb.DescribePlanRequest) -> str:
    """The plan whose scan is requested."""
    return check.name("describe plan", "plan_id", message.plan_id)


def scan_answer_from_message(message: pb.DescribePlanResponse) -> Scan:
    """The scan that was answered."""
    if not message.HasField("scan"):
        raise check.breach("describe plan", "scan", "nothing", "a scan")
    return scan_from_message(message.scan)


def place_from_message(message: pb.NextSplitRequest | pb.FinishSplitRequest) -> tuple[str, int, int]:
    """(plan id, slot, index) of a request about one entry of a slot's list."""
    what = f"split request of plan {message.plan_id[:80]!r}"
    return (
        check.name(what, "plan_id", message.plan_id),
        check.number(what, "slot", message.slot, check.MAX_INDEX),
        check.number(what, "index", message.index, check.MAX_INDEX),
    )


def answer_to_message(answer: SplitAnswer) -> pb.NextSplitResponse:
    """A split, or the end of the slot."""
    match answer:
        case NextSplit(split):
            with check.encoding(f"split {split.split_id!r}"):
                return pb.NextSplitResponse(split=split_to_message(split))
        case EndOfSlot():
            return pb.NextSplitResponse(end_of_slot=pb.EndOfSlot())


def answer_from_message(message: pb.NextSplitResponse) -> SplitAnswer:
    """ConfigurationError if it is neither: never taken for the end."""
    match message.WhichOneof("answer"):
        case "split":
            return NextSplit(split_from_message(message.split))
        case "end_of_slot":
            return EndOfSlot()
        case None:
            raise check.breach("next split", "answer", "no answer that this build knows", "a split or the end of slot")
        case other:
            raise InvariantViolation(f"the stubs know answer {other!r}, the codec does not")


def report_to_message(report: SplitReport) -> pb.SplitReport:
    """A split's report. Of two phases with one name the later counts."""
    with check.encoding("report on a split"):
        return pb.SplitReport(
            rows=report.rows,
            size_bytes=report.size_bytes,
            phase_ms=dict(report.phase_ms),
            won=report.outcomes.won,
            lost_event_time=report.outcomes.lost_event_time,
            duplicate=report.outcomes.duplicate,
            deleted=report.outcomes.deleted,
            max_event_time_us=report.max_event_time_us,
            skipped_gaps=report.skipped_gaps,
            skipped_bytes=report.skipped_bytes,
            pruned_row_groups=report.pruned_row_groups,
            pruned_rows=report.pruned_rows,
            counts=dict(report.counts),
        )


def report_from_message(message: pb.FinishSplitRequest) -> SplitReport:
    """The report of a FinishSplit request, phases sorted by name. ConfigurationError for a field that cannot be."""
    what = f"report on plan {message.plan_id[:80]!r}"
    if not message.HasField("report"):
        raise check.breach(what, "report", "nothing", "a report")
    return checked_report(what, message.report)


def checked_report(what: str, report: pb.SplitReport) -> SplitReport:
    """A report, wherever it stands."""
    if len(report.phase_ms) > check.MAX_PHASES:
        raise check.breach(what, "phase_ms", f"{len(report.phase_ms)} phases", f"at most {check.MAX_PHASES}")
    if len(report.counts) > check.MAX_PHASES:
        raise check.breach(what, "counts", f"{len(report.counts)} names", f"at most {check.MAX_PHASES}")
    phases, counts = sorted(report.phase_ms.items()), sorted(report.counts.items())
    return SplitReport(
        rows=check.number(what, "rows", report.rows),
        size_bytes=check.number(what, "size_bytes", report.size_bytes),
        phase_ms=tuple((check.name(what, "phase_ms", k), check.duration(what, f"phase_ms[{k}]", v)) for k, v in phases),
        outcomes=MergeOutcomes(
            won=check.number(what, "won", report.won),
            lost_event_time=check.number(what, "lost_event_time", report.lost_event_time),
            duplicate=check.number(what, "duplicate", report.duplicate),
            deleted=check.number(what, "deleted", report.deleted),
        ),
        max_event_time_us=report.max_event_time_us if report.HasField("max_event_time_us") else None,
        skipped_gaps=check.number(what, "skipped_gaps", report.skipped_gaps),
        skipped_bytes=check.number(what, "skipped_bytes", report.skipped_bytes),
        pruned_row_groups=check.number(what, "pruned_row_groups", report.pruned_row_groups),
        pruned_rows=check.number(what, "pruned_rows", report.pruned_rows),
        counts=tuple((check.name(what, "counts", k), check.number(what, f"counts[{k}]", n)) for k, n in counts if n),
    )
