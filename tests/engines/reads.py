"""A record of what adapters request, and of what splits report."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.proto.model.reports import SplitReport
from penstock.proto.options.registry import ParsedOptions


@dataclass
class Reads:
    """What adapters requested, and what splits reported."""

    options: list[ParsedOptions] = field(default_factory=list)
    """The options of each planned read."""
    reports: list[SplitReport] = field(default_factory=list)
    """The report of each split that was read to its end."""
    started: list[str] = field(default_factory=list)
    """The splits that were opened."""

    @property
    def pruned_rows(self) -> int:
        """The rows of row groups that were not decoded."""
        return sum(report.pruned_rows for report in self.reports)

    def clear(self) -> None:
        """Forgets everything."""
        self.options.clear()
        self.reports.clear()
        self.started.clear()
