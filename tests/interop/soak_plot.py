"""A plot of a soak's samples: memory, open files and threads of its processes; micro-batches and state.

Needs matplotlib (the extra `soak`). The samples come from `soak_samples` and the files of the driver. `python -m
tests.interop.soak_plot FOLDER` draws `soak.svg` again from the CSV files in a folder.
"""

from __future__ import annotations

import csv
import pathlib
import sys
from collections import defaultdict
from typing import Any, Final

MOST_POINTS: Final = 300
Series = dict[str, list[tuple[float, float | None]]]


def draw(folder: pathlib.Path) -> pathlib.Path:
    """Draws `soak.svg` from `processes.csv` and `batches.csv`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams.update({"svg.hashsalt": "soak", "svg.fonttype": "none", "font.size": 8})
    figure, axes = pyplot.subplots(5, 1, figsize=(10, 12), sharex=True, layout="constrained")
    for axis, column, title in zip(
        axes, ("rss_mib", "files", "threads"), ("RSS, MiB", "open files", "threads"), strict=False
    ):
        _lines(axis, _processes(folder, column), title)
    _lines(axes[3], _batches(folder, "trigger_ms"), "micro-batch with rows, ms", log=True)
    _lines(axes[4], _batches(folder, "state_kib"), "state, KiB")
    axes[-1].set_xlabel("seconds")
    path = folder / "soak.svg"
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return path


def _lines(axis: Any, series: Series, title: str, *, log: bool = False) -> None:
    for name, points in series.items():
        thinned = points[:: max(1, len(points) // MOST_POINTS)]
        axis.plot([x for x, _ in thinned], [float("nan") if y is None else y for _, y in thinned], label=name, lw=1)
    axis.set_title(title, loc="left")
    axis.set_yscale("log" if log else "linear")
    axis.grid(alpha=0.3)
    if series:
        axis.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _processes(folder: pathlib.Path, column: str) -> Series:
    """One line per kind of process, interrupted where another process replaces it; the many workers are omitted."""
    series: Series = defaultdict(list)
    last: dict[str, str] = {}
    for row in _rows(folder / "processes.csv"):
        kind, at = row["process"], float(row["seconds"])
        if kind.startswith("executor") or (kind == "driver JVM" and column != "rss_mib"):
            continue
        if kind == "planner":  # one per stream
            kind = f"planner {row['pid']}"
        elif last.get(kind, row["pid"]) != row["pid"]:
            series[kind].append((at, None))
        last[kind] = row["pid"]
        series[kind].append((at, float(row[column])))
    longest = sorted((name for name in series if name.startswith("planner ")), key=lambda name: -len(series[name]))
    for name in longest[4:]:
        del series[name]
    return series


def _batches(folder: pathlib.Path, column: str) -> Series:
    series: Series = defaultdict(list)
    for row in _rows(folder / "batches.csv"):
        if int(row["rows"]):
            series[row["query"]].append((float(row["seconds"]), float(row[column])))
    return series


def _rows(path: pathlib.Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    print(draw(pathlib.Path(sys.argv[1])))
