"""`--profile`: prints the time of each phase of a read on stderr, as a text table or one line of JSON.

The times are sums over the split reports (`penstock.reader.report`), with planning and output around them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from penstock.engine.cli.output.terminal_text import printable
from penstock.enumerator.report_totals import total
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.reports import PHASES, SplitReport


class Profile:
    """The profile of one read, from before planning until the last row is written. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = self._planned = clock()
        self._reports: list[SplitReport] = []

    def planned(self) -> None:
        """Planning is complete; splits are read from now on."""
        self._planned = self._clock()

    def add(self, report: SplitReport) -> None:
        """Adds the report of a split."""
        self._reports.append(report)

    def summary(self) -> dict[str, object]:
        """The documented fields of the profile. Seconds by phase, in order: `planning`, the phases of the reports, and
        `output`: writing rows, and all other time."""
        whole_s = self._clock() - self._began
        together = total(self._reports)
        spent = dict(together.phase_ms)
        seconds = {"planning": self._planned - self._began} | {name: spent.get(name, 0.0) / 1000 for name in PHASES}
        seconds["output"] = max(0.0, whole_s - sum(seconds.values()))
        outcomes = together.outcomes
        return {
            "seconds": {name: round(value, 6) for name, value in seconds.items()},
            "total_seconds": round(whole_s, 6),
            "splits": len(self._reports),
            "rows": together.rows,
            "bytes": together.size_bytes,
            "log_records": {
                "won": outcomes.won,
                "lost_event_time": outcomes.lost_event_time,
                "duplicate": outcomes.duplicate,
                "deleted": outcomes.deleted,
            },
            "pruned_row_groups": together.pruned_row_groups,
            "pruned_rows": together.pruned_rows,
        }


def show_profile(summary: dict[str, object], *, as_json: bool) -> None:
    """Prints the summary on stderr."""
    if as_json:
        sys.stderr.write(json.dumps({"profile": summary}) + "\n")
        return
    seconds, whole = summary["seconds"], summary["total_seconds"]
    if not isinstance(seconds, dict) or not isinstance(whole, float):
        raise InvariantViolation("a profile without its seconds")
    width = max(map(len, seconds))
    lines = [f"{'phase':{width}}  {'seconds':>9}  {'share':>6}"]
    lines += [f"{name:{width}}  {value:9.3f}  {value / (whole or 1.0):6.1%}" for name, value in seconds.items()]
    lines.append(f"{'total':{width}}  {whole:9.3f}")
    lines.append(f"{summary['rows']:,} rows of {summary['splits']} splits, {summary['bytes']:,} bytes")
    outcomes = summary["log_records"]
    if not isinstance(outcomes, dict):
        raise InvariantViolation("a profile without its log records")
    lines.append("log records: " + ", ".join(f"{count:,} {name}" for name, count in outcomes.items()))
    lines.append(f"not decoded: {summary['pruned_row_groups']} row groups, {summary['pruned_rows']:,} rows")
    sys.stderr.writelines(printable(line) + "\n" for line in lines)
