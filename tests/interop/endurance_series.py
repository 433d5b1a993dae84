"""What grows in an endurance run: named series of measurements, and a limit for each kind of them.

A series is judged after the first WARM_S seconds, if MEASURED_S more were measured: processes fill their caches first.
Measures nothing: `endurance_harness` does.
"""

from __future__ import annotations

import csv
import pathlib
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tests.interop.soak_samples import slope_of

WARM_S: Final = 600.0
MEASURED_S: Final = 600.0
MB: Final = 1_000_000.0
KB: Final = 1000.0


class Limit(NamedTuple):
    """The most that series of a kind may grow: `minute` by the fitted slope in a minute (Theil-Sen), `more` from the
    median of the first quarter to that of the last, `ratio` the last median divided by the first."""

    by: str
    most: float
    unit: float = 1.0
    """What a printed value is divided by."""
    least: float = 0.0
    """Medians below it count as it in a ratio."""


LIMITS: Final = {
    "memory": Limit("minute", MB, MB),
    "threads": Limit("more", 8),
    "files": Limit("more", 8),
    "sockets": Limit("more", 8),
    "store": Limit("minute", 64 * KB, KB),
    "checkpoint": Limit("minute", 64 * KB, KB),
    "state": Limit("ratio", 1.5, KB, 64 * KB),
    "latency": Limit("ratio", 2.0, 1.0, 0.5),
    "live heap": Limit("minute", MB, MB),
    "native memory": Limit("minute", MB, MB),
    "freed memory": Limit("minute", MB, MB),
    "unexplained memory": Limit("minute", MB, MB),
    "data files": Limit("ratio", 1.25, 1.0, 20.0),
    "active instants": Limit("more", 8),
    "other files": Limit("more", 8),
    "processor time": Limit("ratio", 1.5, 1.0, 0.05),
}
"""By kind. Bytes for memory, the server's store, checkpoints and state; seconds for latency. The heap of the JVM is
what is live after a collection; its native memory is that of a category of the JVM's own report; its freed memory is
what malloc returns when it is asked to; the rest of its resident memory is unexplained. Data files of a table, instants
of its active timeline and other files of its metadata folder are numbers; processor time is that of a request in
seconds."""


class Growth(NamedTuple):
    """How a series grew after its warm-up."""

    kind: str
    name: str
    seconds: float
    first: float
    """The median of the first quarter."""
    last: float
    """The median of the last quarter."""
    a_minute: float
    """The fitted slope."""

    @property
    def value(self) -> float:
        """What the limit of its kind limits."""
        limit = LIMITS[self.kind]
        match limit.by:
            case "minute":
                return self.a_minute
            case "more":
                return self.last - self.first
        return max(self.last, limit.least) / max(self.first, limit.least, 1e-9)

    @property
    def is_flat(self) -> bool:
        """Whether it is within the limit of its kind."""
        return self.value <= LIMITS[self.kind].most

    def __str__(self) -> str:
        limit = LIMITS[self.kind]
        scale = 1.0 if limit.by == "ratio" else limit.unit
        return (
            f"{self.kind:18} {self.name:28} {self.first / limit.unit:9.2f} to {self.last / limit.unit:9.2f} in "
            f"{self.seconds:.0f} s: {limit.by} {self.value / scale:+.3f}, at most {limit.most / scale:g}"
            f"{'' if self.is_flat else '  GROWS'}"
        )


@dataclass
class Measurements:
    """All measurements of a run, by kind and name. Times are seconds since its begin."""

    points: defaultdict[tuple[str, str], list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, name: str, at_s: float, value: float) -> None:
        """Adds one. KeyError: the kind has no limit."""
        assert LIMITS[kind]
        self.points[kind, name].append((at_s, value))

    def growths(self, warm_s: float = WARM_S, measured_s: float = MEASURED_S) -> list[Growth]:
        """The growth of every series that is long enough. The warm-up of a process begins with its first point."""
        growths = []
        for (kind, name), points in sorted(self.points.items()):
            warm = [point for point in points if point[0] >= points[0][0] + warm_s]
            if warm and warm[-1][0] - warm[0][0] >= measured_s:
                growths.append(growth_of(kind, name, warm))
        return growths

    def write(self, path: pathlib.Path) -> None:
        """Writes at most 400 points of each series as CSV."""
        with path.open("w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["seconds", "kind", "name", "value"])
            for (kind, name), points in sorted(self.points.items()):
                for at_s, value in points[:: -(-len(points) // 400)]:
                    table.writerow([f"{at_s:.0f}", kind, name, f"{value:.6g}"])


def growth_of(kind: str, name: str, points: Sequence[tuple[float, float]]) -> Growth:
    """The growth of points in the order of their times."""
    quarter = max(1, len(points) // 4)
    first, last = (statistics.median(value for _, value in part) for part in (points[:quarter], points[-quarter:]))
    return Growth(kind, name, points[-1][0] - points[0][0], first, last, 60 * slope_of(points))
