"""The data of the status page as one JSON document: the activity of a server's groups. Pure.

The document is private to the page and may change with it. Other programs use /metrics and `DescribeServer`. Its size
is bounded by `Activity`; each series has at most MAX_POINTS points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from penstock.enumerator.groups.activity import FULL, Activity, GroupActivity, Sample
from penstock.enumerator.groups.merged_groups import hidden_tables
from penstock.proto.model.server_status import StreamStatus
from penstock.proto.model.service_splits import ServiceSplitSummary
from penstock.proto.model.writes import WriteState

MAX_POINTS: Final = 240
"""Points of a series, for up to FULL groups or tables; with more of them each has fewer."""
LEAST_POINTS: Final = 8
MAX_BARS: Final = 1_000
MAX_STREAMS: Final = 200
MAX_SERVICES: Final = 200
_T = TypeVar("_T")


def page_data(activity: Activity) -> dict[str, object]:
    """The document. Times are milliseconds since 1970 UTC. A comment states the order of each list of numbers."""
    now_ms, all_groups, tables = activity.now_ms(), activity.groups(), activity.tables()
    gauges = {key: each.gauges for key, each in all_groups.items() if each.gauges is not None}
    hidden = hidden_tables(gauges, {key: each.lag for key, each in all_groups.items()})
    groups = {key: each for key, each in all_groups.items() if key not in hidden}
    members = _members(all_groups)
    group_points, table_points = _points(len(groups)), _points(len(tables))
    bars = sorted(activity.bars(), key=lambda bar: bar.begin_ms)[-MAX_BARS:]
    return {
        "now_ms": now_ms,
        "started_ms": activity.started_ms,
        "groups": [
            _group(activity, table, group, summary, members.get((table, group), [summary]), now_ms, group_points)
            for (table, group), summary in sorted(groups.items())
        ],
        "catalogs": [
            {
                "catalog": seen.listing.catalog,
                "error": seen.listing.code,
                "tables": seen.listing.tables,
                "problems": seen.listing.problems,
                "listed_ms": seen.listed_ms,
                "spent_s": round(seen.listing.spent_s, 1),
            }
            for seen in activity.catalogs()
        ],
        "writes": [
            {
                "table": table,
                **{state.value: each.writes.get(state, 0) for state in WriteState if not state.has_ended},
                "groups": each.groups,
                "oldest_s": max(each.oldest_s.values(), default=0.0),
                "stuck_s": max(each.oldest_s.get(state, 0.0) for state in (WriteState.DECIDED, WriteState.FAILED)),
            }
            for table, each in activity.writes()[:MAX_STREAMS]
        ],
        "streams": [_stream(status) for status in activity.streams()[:MAX_STREAMS]],
        "services": [_service(split) for split in activity.services()[:MAX_SERVICES]],
        "health": [{"table": table, "error": code} for table, code in sorted(activity.health().items())],
        "tables": [
            {
                "table": table,
                # time, time of its newest instant or null, commits, splits
                "rounds": [
                    [round_.at_ms, round_.discovered.instant_ms, round_.discovered.commits, round_.discovered.splits]
                    for round_ in thinned(rounds, table_points)
                ],
                "watermarks": [list(pair) for pair in thinned(watermarks, table_points)],  # time, watermark
            }
            for table, (rounds, watermarks) in sorted(tables.items())
        ],
        "bars": [
            {
                "table": bar.table,
                "group": bar.group,
                "over": gauges[bar.table, bar.group].over if (bar.table, bar.group) in gauges else "",
                "reader": bar.reader_id,
                "split": f"{bar.plan_id}#{bar.index}",
                "begin_ms": bar.begin_ms,
                "end_ms": bar.end_ms,
                "how": bar.how or "held",
            }
            for bar in bars
        ],
    }


def _service(split: ServiceSplitSummary) -> dict[str, object]:
    return {
        "table": split.id.table,
        "service": split.id.service.value,
        "instant": split.id.instant,
        "state": split.state.value,
        "member": split.member,
        "age_ms": split.age_ms,
        "failures": split.failures,
        "error": split.error,
    }


def _points(owners: int) -> int:
    return MAX_POINTS if owners <= FULL else max(LEAST_POINTS, MAX_POINTS * FULL // owners)


def _members(groups: Mapping[tuple[str, str], GroupActivity]) -> dict[tuple[str, str], list[GroupActivity]]:
    """The activities of the tables of each group over tables, by its pattern and name."""
    members: dict[tuple[str, str], list[GroupActivity]] = {}
    for (_, group), each in groups.items():
        if each.gauges is not None and each.gauges.over:
            members.setdefault((each.gauges.over, group), []).append(each)
    return members


def _group(
    activity: Activity,
    table: str,
    group: str,
    summary: GroupActivity,
    counted: Sequence[GroupActivity],
    now_ms: int,
    points: int,
) -> dict[str, object]:
    """The group. Its counters are those of `counted`: the group itself, or the tables of a group over tables."""
    gauges, lag = summary.gauges, summary.lag
    aligned = None if gauges is None else gauges.alignment
    rates = [each.rates(now_ms) for each in counted]
    return {
        "table": table,
        "group": group,
        "over": "" if gauges is None else gauges.over,
        "tables": 0 if gauges is None else gauges.tables,
        "failing": 0 if gauges is None else gauges.failing_tables,
        "up": gauges is None or gauges.up,
        "error": "" if gauges is None else gauges.error_code,
        "pending": 0 if gauges is None else gauges.pending_splits,
        "held": 0 if gauges is None else gauges.assigned_splits,
        "finished": sum(each.finished for each in counted),
        "expired": sum(each.expired for each in counted),
        "fenced": sum(each.fenced for each in counted),
        "rows": sum(each.rows for each in counted),
        "rows_per_second": round(sum(rows_s for rows_s, _ in rates), 1),
        "bytes_per_second": round(sum(bytes_s for _, bytes_s in rates), 1),
        "lag": None
        if lag is None
        else {"commits": lag.commits, "size_bytes": lag.size_bytes, "seconds": round(lag.seconds, 1)},
        "issued_ms": None
        if gauges is None or gauges.issued_instant_s is None
        else round(gauges.issued_instant_s * 1000),
        "watermark_ms": None if gauges is None or gauges.watermark_us is None else gauges.watermark_us // 1000,
        "alignment": None
        if aligned is None
        else {
            "set": aligned.set,
            "ceiling_ms": None if aligned.ceiling_us is None else aligned.ceiling_us // 1000,
            "held": aligned.held,
        },
        # time, pending, held, finished, lag in seconds or null, newest instant planned or null, watermark or null
        "samples": [_numbers(sample) for sample in thinned(activity.samples(table, group), points)],
    }


def _stream(status: StreamStatus) -> dict[str, object]:
    lag = status.lag
    return {
        "table": status.table,
        "stream": status.name,
        "state": status.state.value,
        "error": status.error_code,
        "position": str(status.committed),
        "batches": status.batches,
        "silent_s": round(status.silent_ms / 1000, 1),
        "watermark_ms": None if status.watermark_us is None else status.watermark_us // 1000,
        "lag": None
        if lag is None
        else {
            "commits": lag.commits,
            "seconds": round(lag.seconds, 1),
            "loss_commits": lag.loss_commits,
            "loss_seconds": None if lag.loss_seconds is None else round(lag.loss_seconds, 1),
            "holds_cleaner": lag.holds_cleaner,
        },
        "alignment": status.alignment,
        "ceiling_ms": None if status.ceiling_us is None else status.ceiling_us // 1000,
    }


def _numbers(sample: Sample) -> list[object]:
    lag_seconds, issued_ms, watermark_ms = sample.lag_seconds, sample.issued_ms, sample.watermark_ms
    return [sample.at_ms, sample.pending, sample.held, sample.finished, lag_seconds, issued_ms, watermark_ms]


def thinned(values: Sequence[_T], most: int = MAX_POINTS) -> list[_T]:
    """At most `most` evenly spaced values, including the newest."""
    if len(values) <= most:
        return list(values)
    step = len(values) / most
    return [values[len(values) - 1 - int(step * (most - 1 - number))] for number in range(most)]
