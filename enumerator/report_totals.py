"""Sums of the reports of readers. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.proto.model.reports import MergeOutcomes, SplitReport


def total(reports: Iterable[SplitReport]) -> SplitReport:
    """The sum of reports, with phases sorted by name and the highest event time. Zeros if there are no reports."""
    rows = size_bytes = won = lost = duplicate = deleted = skipped_gaps = skipped_bytes = 0
    pruned_row_groups = pruned_rows = 0
    phases: dict[str, float] = {}
    counts: dict[str, int] = {}
    event_times: list[int] = []
    for report in reports:
        rows += report.rows
        size_bytes += report.size_bytes
        won += report.outcomes.won
        lost += report.outcomes.lost_event_time
        duplicate += report.outcomes.duplicate
        deleted += report.outcomes.deleted
        skipped_gaps += report.skipped_gaps
        skipped_bytes += report.skipped_bytes
        pruned_row_groups += report.pruned_row_groups
        pruned_rows += report.pruned_rows
        for phase, spent_ms in report.phase_ms:
            phases[phase] = phases.get(phase, 0.0) + spent_ms
        for name, number in report.counts:
            counts[name] = counts.get(name, 0) + number
        if report.max_event_time_us is not None:
            event_times.append(report.max_event_time_us)
    return SplitReport(
        rows=rows,
        size_bytes=size_bytes,
        phase_ms=tuple(sorted(phases.items())),
        outcomes=MergeOutcomes(won=won, lost_event_time=lost, duplicate=duplicate, deleted=deleted),
        max_event_time_us=max(event_times, default=None),
        skipped_gaps=skipped_gaps,
        skipped_bytes=skipped_bytes,
        pruned_row_groups=pruned_row_groups,
        pruned_rows=pruned_rows,
        counts=tuple(sorted(counts.items())),
    )
