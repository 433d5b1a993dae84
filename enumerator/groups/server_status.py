"""What a server does now, put together from its groups and what was kept of their activity."""

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
    """The status; `tables` are those that are served, by name, with code and text of why one cannot be opened."""
    now_ms, known = activity.now_ms(), activity.groups()
    seen = activity.tables()
    found: list[GroupStatus] = []
    for described, key in groups:
        status = GroupStatus(
            summary=described.summary,
            pending_splits=described.pending_splits,
            held_splits=described.held_splits,
            error_code=described.error_code,
        )
        did = known.get((key.table, key.group))
        if did is not None:
            rows_s, bytes_s = did.rates(now_ms)
            issued_s = None if did.gauges is None else did.gauges.issued_instant_s
            status = GroupStatus(
                summary=described.summary,
                pending_splits=described.pending_splits,
                held_splits=described.held_splits,
                error_code=described.error_code,
                lag=did.lag,
                issued_ms=None if issued_s is None else round(issued_s * 1000),
                rows=did.rows,
                size_bytes=did.size_bytes,
                finished_splits=did.finished,
                expired_splits=did.expired,
                fenced=did.fenced,
                rows_per_second=rows_s,
                bytes_per_second=bytes_s,
                lag_age_ms=None if did.lag is None else max(0, now_ms - did.lag_at_ms),
            )
        found.append(status)
    return ServerStatus(
        version=version,
        now_ms=now_ms,
        uptime_ms=max(0, now_ms - activity.started_ms),
        tables=tuple(TableStatus(name, _watermark_ms(seen, name), *trouble) for name, trouble in tables.items()),
        groups=tuple(found),
    )


def _watermark_ms(seen: Mapping[str, tuple[object, tuple[tuple[int, int], ...]]], table: str) -> int | None:
    marks = seen[table][1] if table in seen else ()
    return marks[-1][1] if marks else None
