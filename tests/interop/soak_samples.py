"""Samples of a soak's processes: memory, open files, threads; and their growth.

Measures processes, computes growth, and prints one line per kind for a report. `soak_harness` kills the processes,
`soak_plot` draws the samples.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import pathlib
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import psutil

WARM_S: Final = 300.0
"""The time in which a process fills its caches; later usage must not grow."""
MEASURED_S: Final = 240.0
"""Minimum number of seconds after WARM_S for a verdict on growth."""
RSS_BYTES_A_MINUTE: Final = 1_000_000
SPARKS: Final = "▁▂▃▄▅▆▇█"
PLANNER: Final = "python_streaming_source_runner"
DAEMON: Final = "pyspark.daemon"
"""The module that starts Spark's Python workers."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of one process. `age_s` is the time since its first sample."""

    at_s: float
    kind: str
    pid: int
    age_s: float
    rss_bytes: int
    files: int
    threads: int


@dataclass
class Samples:
    """All samples of a run. `began` is in seconds of time.monotonic()."""

    began: float
    samples: list[Sample] = field(default_factory=list)
    _first: dict[tuple[str, int], float] = field(default_factory=dict)

    def sample(self, processes: Iterable[tuple[str, psutil.Process]]) -> None:
        """Samples each process that still runs."""
        now = time.monotonic()
        for kind, process in processes:
            with contextlib.suppress(psutil.Error), process.oneshot():
                first = self._first.setdefault((kind, process.pid), now)
                size, files, threads = process.memory_info().rss, process.num_fds(), process.num_threads()
                sample = Sample(now - self.began, kind, process.pid, now - first, size, files, threads)
                self.samples.append(sample)

    def write(self, path: pathlib.Path) -> None:
        """Writes the samples as CSV."""
        with path.open("w", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["seconds", "process", "pid", "rss_mib", "files", "threads"])
            for one in self.samples:
                table.writerow(
                    [f"{one.at_s:.0f}", one.kind, one.pid, f"{one.rss_bytes / 2**20:.1f}", one.files, one.threads]
                )

    def lines(self) -> list[str]:
        """One line per kind of process: its memory as a sparkline, from its minimum to its maximum."""
        kinds: defaultdict[str, list[Sample]] = defaultdict(list)
        for one in self.samples:
            kinds[one.kind].append(one)
        lines = []
        for kind, samples in kinds.items():
            sizes = [one.rss_bytes / 2**20 for one in samples]
            processes = len({one.pid for one in samples})
            last = [one for one in samples if one.pid == samples[-1].pid]
            lines.append(
                f"{kind:16} {sparks(sizes)} RSS {min(sizes):.0f}-{max(sizes):.0f} MiB in {processes} processes; of the "
                f"last, {last[-1].age_s:.0f} s old: {last[-1].files} files, {last[-1].threads} threads"
            )
        return lines

    def growths(self) -> list[Growth]:
        """The growth of each process that ran long enough."""
        by_process: defaultdict[tuple[str, int], list[Sample]] = defaultdict(list)
        for one in self.samples:
            if one.age_s >= WARM_S:
                by_process[one.kind, one.pid].append(one)
        return [_growth(series) for series in by_process.values() if series[-1].at_s - series[0].at_s >= MEASURED_S]


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a process after its warm-up: memory per minute, and files and threads in total."""

    kind: str
    seconds: float
    rss_bytes_a_minute: float
    files: float
    threads: float

    @property
    def is_flat(self) -> bool:
        """The memory of a JVM is reported, but not checked: its collector and pools use what they may."""
        if self.kind == "driver JVM":
            return self.files <= 32 and self.threads <= 32
        return self.rss_bytes_a_minute < RSS_BYTES_A_MINUTE and self.files <= 8 and self.threads <= 8

    def __str__(self) -> str:
        return (
            f"{self.kind}: over {self.seconds:.0f} s after the first {WARM_S:.0f} RSS "
            f"{self.rss_bytes_a_minute / 1e6:+.2f} MB a minute, {self.files:+.0f} files, {self.threads:+.0f} threads"
        )


def _growth(series: Sequence[Sample]) -> Growth:
    quarter = max(1, len(series) // 4)
    ends = (series[:quarter], series[-quarter:])
    files, threads = (
        statistics.median(getattr(one, name) for one in ends[1])
        - statistics.median(getattr(one, name) for one in ends[0])
        for name in ("files", "threads")
    )
    slope = slope_of([(one.at_s, one.rss_bytes) for one in series]) * 60
    return Growth(series[0].kind, series[-1].at_s - series[0].at_s, slope, files, threads)


def slope_of(points: Sequence[tuple[float, float]]) -> float:
    """The median of the slopes of all pairs (Theil-Sen), of at most 300 evenly spread points: one jump has no
    effect."""
    thinned = points[:: max(1, len(points) // 300)]
    pairs = itertools.combinations(thinned, 2)
    return statistics.median([(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairs if b[0] > a[0]] or [0.0])


def sparks(values: Sequence[float], width: int = 60) -> str:
    """The values as a sparkline: each character is the maximum of its part."""
    if not values:
        return ""
    least, most = min(values), max(values)
    count = min(width, len(values))
    ends = [len(values) * n // count for n in range(count + 1)]
    shares = [values[begin:end] for begin, end in itertools.pairwise(ends)]
    scale = (len(SPARKS) - 1) / ((most - least) or 1.0)
    return "".join(SPARKS[round((max(share) - least) * scale)] for share in shares)


def processes_of(server: int | None, driver: int | None) -> list[tuple[str, psutil.Process]]:
    """The processes to sample, by kind. `executor`: the Python workers that read rows."""
    processes: list[tuple[str, psutil.Process]] = []
    with contextlib.suppress(psutil.Error):
        if server is not None:
            processes.append(("server", psutil.Process(server)))
    with contextlib.suppress(psutil.Error):
        if driver is not None:
            root = psutil.Process(driver)
            processes.append(("driver", root))
            for child in root.children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if kind := _kind(child, driver):
                        processes.append((kind, child))
    return processes


def _kind(process: psutil.Process, driver: int) -> str:
    arguments = process.cmdline()
    words = " ".join(arguments)
    if PLANNER in words:
        return "planner"
    if _is_daemon(arguments) and "pyspark.worker" in words:
        parent = process.parent()
        return "executor" if parent is not None and _is_daemon(parent.cmdline()) else "executors' parent"
    return "driver JVM" if "SparkSubmit" in words and process.ppid() == driver else ""


def _is_daemon(arguments: list[str]) -> bool:
    return DAEMON in arguments
