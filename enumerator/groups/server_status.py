"""The status of a server, from its groups and their recent activity. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.groups.activity import Activity
from penstock.proto.model.groups import GroupDescription, GroupStatus, ServerStatus, TableStatus


def status_of(
    groups: Sequence[tuple[GroupDescription, GroupKey]],
    activity: Activity,
    tables: Mapping[str, tuple[str, str]],
    version: str = "",
) -> ServerStatus:
    """The status. `tables`: code and text of the error by served table; ('', '') if it can be opened."""
    now_ms, activities = activity.now_ms(), activity.groups()
    recent_tables = activity.tables()
    statuses: list[GroupStatus] = []
    for described, key in groups:
        status = GroupStatus(
            summary=described.summary,
            pending_splits=described.pending_splits,
            held_splits=described.held_splits,
            error_code=described.error_code,
        )
        recent = activities.get((key.table, key.group))
        if recent is not None:
            rows_s, bytes_s = recent.rates(now_ms)
            issued_s = None if recent.gauges is None else recent.gauges.issued_instant_s
            status = GroupStatus(
                summary=described.summary,
                pending_splits=described.pending_splits,
                held_splits=described.held_splits,
                error_code=described.error_code,
                lag=recent.lag,
                issued_ms=None if issued_s is None else round(issued_s * 1000),
                rows=recent.rows,
                size_bytes=recent.size_bytes,
                finished_splits=recent.finished,
                expired_splits=recent.expired,
                fenced=recent.fenced,
                rows_per_second=rows_s,
                bytes_per_second=bytes_s,
                lag_age_ms=None if recent.lag is None else max(0, now_ms - recent.lag_at_ms),
            )
        statuses.append(status)
    return ServerStatus(
        version=version,
        now_ms=now_ms,
        uptime_ms=max(0, now_ms - activity.started_ms),
        tables=tuple(
            TableStatus(name, _watermark_ms(recent_tables, name), *trouble) for name, trouble in tables.items()
        ),
        groups=tuple(statuses),
    )


def _watermark_ms(recent_tables: Mapping[str, tuple[object, tuple[tuple[int, int], ...]]], table: str) -> int | None:
    marks = recent_tables[table][1] if table in recent_tables else ()
    return marks[-1][1] if marks else None
