"""The figures of a group over tables, and which of its tables are shown one by one."""

from __future__ import annotations

from dataclasses import replace

from penstock.enumerator.groups.merged_groups import hidden_tables, merged_gauges, merged_lag
from penstock.enumerator.observer import GroupGauges, SplitKind
from penstock.proto.model.groups import GroupLag

ONE = GroupGauges(
    pending_splits=1,
    assigned_splits=2,
    finished_splits=3,
    pending_bytes=4,
    issued_instant_s=100.0,
    watermark_us=50,
    issued_delay_s=1.0,
    discovery_age_s=9.0,
    poll_interval_s=10.0,
    kind=SplitKind.CDC,
    over="s.*",
)


def test_sums_and_extremes_of_the_tables() -> None:
    late = replace(ONE, discovery_age_s=3.0, poll_interval_s=1.0, issued_instant_s=200.0)
    stopped = replace(ONE, up=False, error_code="CORRUPT_FILE", discovery_age_s=None)
    assert merged_gauges([ONE, late, stopped], -7) == GroupGauges(
        pending_splits=3,
        assigned_splits=6,
        finished_splits=9,
        pending_bytes=12,
        issued_instant_s=200.0,
        watermark_us=-7,
        issued_delay_s=1.0,
        discovery_age_s=3.0,  # three intervals late
        poll_interval_s=1.0,
        kind=SplitKind.CDC,
        error_code="CORRUPT_FILE",
        tables=3,
        failing_tables=1,
    )
    assert not merged_gauges([stopped, stopped]).up
    assert merged_gauges([]) == GroupGauges(pending_splits=0, assigned_splits=0, finished_splits=0)


def test_lags_are_summed_and_the_nearest_loss_counts() -> None:
    near = GroupLag(commits=1, size_bytes=10, seconds=2.0, loss_commits=1)
    far = GroupLag(commits=5, size_bytes=1, seconds=60.0, loss_commits=9, loss_seconds=7.0)
    assert merged_lag([near, far]) == GroupLag(commits=6, size_bytes=11, seconds=60.0, loss_commits=1, loss_seconds=7.0)
    assert merged_lag([]) is None
    both = merged_lag([near, replace(far, holds_cleaner=True)])
    assert both is not None and both.holds_cleaner


def test_worst_tables_of_each_group_over_tables_are_shown() -> None:
    gauges = {(f"s.{number}", "g"): ONE for number in range(6)}
    gauges["s.5", "g"] = replace(ONE, up=False, error_code="X")
    gauges["s.4", "g"] = replace(ONE, error_code="X")
    gauges |= {("s.0", "h"): ONE, ("s.0", "alone"): replace(ONE, over="")}
    lag = GroupLag(commits=1, size_bytes=1, seconds=5.0)
    lags = {
        ("s.1", "g"): replace(lag, seconds=99.0),
        ("s.2", "g"): lag,
        ("s.3", "g"): replace(lag, seconds=1.0, loss_commits=1),
    }
    order = ["s.5", "s.4", "s.3", "s.1", "s.2", "s.0"]
    for most in range(1, 7):
        assert hidden_tables(gauges, lags, most) == {(table, "g") for table in order[most:]}
