"""The figures of a group over tables, from those of its tables, and the tables that are shown one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.enumerator.observer import GroupGauges, SplitKind
from penstock.enumerator.streams.stream_monitor import is_close
from penstock.proto.model.group_status import GroupLag

MAX_SHOWN_TABLES: Final = 20
"""Tables of a group over tables that have figures of their own: the worst ones."""
_Key = tuple[str, str]
"""Table and group."""


def merged_lag(lags: Sequence[GroupLag]) -> GroupLag | None:
    """The sums of commits and bytes, the longest time, the nearest loss, and whether one holds a cleaner; None
    without lags."""
    if not lags:
        return None
    return GroupLag(
        commits=sum(lag.commits for lag in lags),
        size_bytes=sum(lag.size_bytes for lag in lags),
        seconds=max(lag.seconds for lag in lags),
        loss_commits=min((lag.loss_commits for lag in lags if lag.loss_commits is not None), default=None),
        loss_seconds=min((lag.loss_seconds for lag in lags if lag.loss_seconds is not None), default=None),
        holds_cleaner=any(lag.holds_cleaner for lag in lags),
    )


def merged_gauges(tables: Sequence[GroupGauges], watermark_us: int | None = None) -> GroupGauges:
    """The sums of splits, and of other gauges the extremes. The group is up while one of its tables is, and its
    discovery is as late as that of its latest table. `watermark_us`: see `over_tables.watermark_of`."""
    checked = [(each.discovery_age_s, each.poll_interval_s) for each in tables if each.discovery_age_s is not None]
    age_s, interval_s = max(checked, key=lambda each: each[0] / (each[1] or 1.0), default=(None, None))
    aligned = [each.alignment for each in tables if each.alignment is not None]
    issued_s = [each.issued_instant_s for each in tables if each.issued_instant_s is not None]
    delays_s = [each.issued_delay_s for each in tables if each.issued_delay_s is not None]
    return GroupGauges(
        pending_splits=sum(each.pending_splits for each in tables),
        assigned_splits=sum(each.assigned_splits for each in tables),
        finished_splits=sum(each.finished_splits for each in tables),
        pending_bytes=sum(each.pending_bytes for each in tables),
        issued_instant_s=max(issued_s, default=None),
        watermark_us=watermark_us,
        issued_delay_s=max(delays_s, default=None),
        discovery_age_s=age_s,
        poll_interval_s=interval_s,
        kind=tables[0].kind if tables else SplitKind.MOR,
        up=not tables or any(each.up for each in tables),
        error_code=next((each.error_code for each in tables if each.error_code), ""),
        alignment=next((each for each in aligned if each.held), aligned[0] if aligned else None),
        tables=len(tables),
        failing_tables=sum(bool(each.error_code) for each in tables),
    )


def hidden_tables(
    gauges: Mapping[_Key, GroupGauges], lags: Mapping[_Key, GroupLag | None], most: int = MAX_SHOWN_TABLES
) -> frozenset[_Key]:
    """The groups of tables that are not shown one by one: of each group over tables all but the worst `most`. Worse
    are those that are stopped, then those that fail, that are about to lose data, and that lag most."""

    def rank(key: _Key) -> tuple[bool, bool, bool, float, str]:
        each, lag = gauges[key], lags.get(key)
        seconds = 0.0 if lag is None else lag.seconds
        return each.up, not each.error_code, lag is None or not is_close(lag), -seconds, key[0]

    members: dict[_Key, list[_Key]] = {}
    for key, each in gauges.items():
        if each.over:
            members.setdefault((each.over, key[1]), []).append(key)
    return frozenset(key for keys in members.values() if len(keys) > most for key in sorted(keys, key=rank)[most:])
