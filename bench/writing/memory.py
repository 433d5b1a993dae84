"""Peak memory of Penstock's writes in fresh processes: a table, and one of four times the rows and the file groups.

A file group has as many rows in both, so that a peak that only a file group bounds is about the same. Memory is the
peak of anonymous resident bytes above the baseline after all imports and the same work on 2,000 rows.
"""

from __future__ import annotations

import pathlib
import shutil
import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from bench.compared.processes import Worker, anonymous_bytes
from bench.writing.parts import BUCKETS, PARTS, Part

LARGER = 4
"""How many times the rows and file groups the larger table has."""
TINY_ROWS = 2_000
MEASURED = tuple(part for part in PARTS if not part.hudis_settings and not part.partitioned and part.one_in <= 10)
"""The parts of the memory measurement."""


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak memory of a part, MiB above the baseline."""

    small: float
    """Of the table."""
    large: float
    """Of the larger table."""


def peaks_of(part: Part, folder: pathlib.Path, samples: int) -> Iterator[Peaks]:
    """The peaks of a part, in fresh processes. folder: has the rows of `sources` in `tiny`, `small` and `large`."""
    for _ in range(samples):
        yield Peaks(_peak(part, folder, "small", BUCKETS), _peak(part, folder, "large", LARGER * BUCKETS))


def _peak(part: Part, folder: pathlib.Path, size: str, buckets: int) -> float:
    """MiB above the baseline."""
    with Worker([sys.executable, "-P", "-m", "bench.writing.memory_worker"]) as worker:
        requests = _requests(part, folder, "tiny", 1)
        for request in requests:
            worker.ask(request)
        *before, measured = _requests(part, folder, size, buckets)
        with Worker([sys.executable, "-P", "-m", "bench.writing.memory_worker"]) as other:
            for request in before:
                other.ask(request)
        baseline = anonymous_bytes(worker.pid)
        _, peak = worker.peak_of(lambda: worker.ask(measured))
    return (peak - baseline) / (1 << 20)


def _requests(part: Part, folder: pathlib.Path, size: str, buckets: int) -> list[dict[str, Any]]:
    """The requests of a part, the measured one last, on a new table."""
    table = folder / f"table-{size}"
    shutil.rmtree(table, ignore_errors=True)
    same = {"part": part.name, "table": str(table), "buckets": buckets}
    writes = [(rows, operation) for rows, operation in part.rows_before]
    if not part.service:
        writes.append((part.rows, part.operation))
    requests = [{**same, "rows": str(folder / size / rows), "operation": operation} for rows, operation in writes]
    return [*requests, same] if part.service else requests


def line(part: Part, samples: list[Peaks]) -> str:
    """A row of the report."""
    small, large = (statistics.median(getattr(sample, name) for sample in samples) for name in ("small", "large"))
    return f"| {part.name} | {small:.0f} | {large:.0f} | {large / max(1.0, small):.2f} |"
