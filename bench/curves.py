"""How the costs of Penstock grow: figures over sizes from 10² to 10⁶, and the exponents that fit them.

    python -m bench.curves [--only pending …] [--most 100000] [--record]

Each size of each step (`curve_steps.py`) runs in a fresh process. The exponent of a curve is the slope of the least
squares line through the logarithms of its three largest sizes: fixed costs hide the growth of smaller ones. If an
exponent exceeds the recorded one by more than `TOLERANCE`, the curve is marked, and the exit status is 1. `--most`
leaves out larger sizes, `--record` writes the table into `docs/results/`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

REPOSITORY: Final = pathlib.Path(__file__).resolve().parent.parent
TOLERANCE: Final = 0.25
"""How far an exponent may be above the recorded one: figures of a shared machine vary by a third."""
FITTED: Final = 3
"""Of how many of the largest sizes the exponent is that of the curve."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One figure of a step."""

    step: str
    """Name of the step in `curve_steps.STEPS`."""
    figure: str
    """Name of the figure among those of the step; its end is the unit."""
    title: str
    """What is measured."""
    size: str
    """What grows."""
    goal: int
    """1 where the work is proportional to the size, 0 where it must not grow."""
    recorded: float
    """The exponent on record, or the goal if it is above: exponents of fixed costs are lower."""

    @property
    def name(self) -> str:
        """Identifies the curve."""
        return f"{self.step}.{self.figure}"


SIZES: Final[Mapping[str, tuple[int, ...]]] = {
    "slices": (100, 1000, 10_000, 100_000, 1_000_000),
    "partitions": (100, 1000, 10_000, 100_000),
    "instants": (100, 1000, 10_000, 100_000),
    "idle_by_instants": (100, 1000, 10_000, 100_000),
    "idle_by_files": (100, 1000, 10_000, 100_000, 1_000_000),
    "tables": (10, 100, 1000),
    "groups_of_a_table": (10, 100, 1000),
    "commits": (10, 100, 1000),
    "pending": (100, 1000, 10_000, 100_000, 1_000_000),
    "finished": (1000, 3000, 10_000),
    "groups": (100, 1000, 10_000, 100_000),
}
"""The sizes of each step."""
CURVES: Final = (
    Curve("slices", "metadata_s", "plan of a snapshot by the metadata table", "file slices", 1, 1.0),
    Curve("slices", "folders_s", "plan of a snapshot by folders", "file slices", 1, 1.0),
    Curve("slices", "peak_mib", "memory of a plan of a snapshot", "file slices", 1, 1.0),
    Curve("partitions", "folders_s", "plan of a snapshot by folders", "partitions", 1, 1.0),
    Curve("partitions", "one_s", "plan of one partition by the metadata table", "partitions", 0, 1.0),
    Curve("instants", "open_s", "opening a table", "instants", 1, 1.0),
    Curve("instants", "snapshot_s", "plan of a snapshot, the table open", "instants", 1, 1.0),
    Curve("instants", "range_s", "plan of ten commits, the table open", "instants", 1, 1.0),
    Curve("idle_by_instants", "first_ms", "first look at a table", "instants", 1, 1.0),
    Curve("idle_by_instants", "idle_ms", "look at a table without new commits", "instants", 0, 0.0),
    Curve("idle_by_instants", "operations", "file operations of such a look", "instants", 0, 0.0),
    Curve("idle_by_files", "idle_ms", "look at a table without new commits", "data files", 0, 0.0),
    Curve("tables", "look_us", "look at a table, for each table", "tables", 0, 0.0),
    Curve("tables", "plan_us", "plan of a new commit, for each table", "tables", 0, 0.0),
    Curve("tables", "scan_us", "scan of the groups, for each table", "tables", 0, 0.0),
    Curve("groups_of_a_table", "look_us", "look at a table, for all its groups", "groups", 1, 1.0),
    Curve("groups_of_a_table", "plan_us", "plan of a new commit, for all its groups", "groups", 1, 1.0),
    Curve("groups_of_a_table", "scan_us", "scan of the groups of a table", "groups", 1, 1.0),
    Curve("commits", "look_us", "look at a table without new commits", "commits", 0, 0.0),
    Curve("commits", "plan_us", "plan of a new commit", "commits", 1, 1.0),
    Curve("pending", "start_s", "start of a server", "pending splits", 1, 1.0),
    Curve("pending", "mib", "memory of a server", "pending splits", 1, 1.0),
    Curve("pending", "state_mib", "state on disk", "pending splits", 1, 1.0),
    Curve("pending", "call_ms", "hand-out and commit of a split", "pending splits", 0, 0.0),
    Curve("finished", "start_s", "start of a server", "finished rounds", 0, 0.0),
    Curve("finished", "round_ms", "a round: plan stored, split handed out, committed", "finished rounds", 0, 0.0),
    Curve("finished", "state_mib", "state on disk", "finished rounds", 0, 0.0),
    Curve("groups", "start_s", "start of a server", "groups", 1, 1.0),
    Curve("groups", "tick_ms", "tick of a server", "groups", 1, 1.0),
    Curve("groups", "mib", "memory of a server", "groups", 1, 1.0),
    Curve("groups", "state_mib", "state on disk", "groups", 1, 1.0),
)
"""The curves, in the order of the report."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A curve with its figures."""

    curve: Curve
    """The curve."""
    figures: Mapping[int, float]
    """The figure of each size."""

    @property
    def exponent(self) -> float:
        """See `exponent_of`."""
        return exponent_of(self.figures)

    @property
    def grows_faster(self) -> bool:
        """Whether the exponent is above the recorded one by more than `TOLERANCE`."""
        return self.exponent > self.curve.recorded + TOLERANCE


def exponent_of(figures: Mapping[int, float]) -> float:
    """The slope of the least squares line through the logarithms of the `FITTED` largest sizes."""
    sizes = sorted(figures)[-FITTED:]
    slope, _ = statistics.linear_regression(
        [math.log(size) for size in sizes], [math.log(figures[size]) for size in sizes]
    )
    return slope


def measure(steps: Sequence[str], most: int) -> list[Measured]:
    """The curves of these steps, of sizes up to `most`."""
    by_step = {step: {size: run(step, size) for size in SIZES[step] if size <= most} for step in steps}
    return [
        Measured(curve, {size: figures[curve.figure] for size, figures in by_step[curve.step].items()})
        for curve in CURVES
        if curve.step in by_step
    ]


def run(step: str, size: int) -> dict[str, float]:
    """The figures of a step, from a process of its own. Another process writes its tables before."""
    output = ""
    for words in (["--prepare", step, str(size)], ["--step", step, str(size)]):
        command = [sys.executable, "-P", "-m", "bench.curves", *words]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment).stdout
    return dict(json.loads(output))


def table_lines(measured: Sequence[Measured]) -> list[str]:
    """The curves as a table in Markdown."""
    lines = ["| what | size | figures by size | exponent | goal |", "|---|---|---|---|---|"]
    for one in measured:
        unit = one.curve.figure.rpartition("_")[2]
        figures = ", ".join(f"10^{math.log10(size):g}: {value:.3g}" for size, value in one.figures.items())
        mark = " (grows faster than recorded)" if one.grows_faster else ""
        unit = "" if unit == "operations" else f" ({unit.replace('mib', 'MiB')})"
        lines.append(
            f"| {one.curve.title} | {one.curve.size} | {figures}{unit} | {one.exponent:.2f}{mark} | {one.curve.goal} |"
        )
    return lines


def record(measured: Sequence[Measured]) -> pathlib.Path:
    """Writes the table into `docs/results/`."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()
    now = dt.datetime.now(dt.UTC)
    path = REPOSITORY / "docs" / "results" / f"{now:%Y-%m-%d-%H%M}-{commit}-curves.md"
    load = os.getloadavg()[0]
    head = (
        f"`python -m bench.curves` at commit {commit}, {now:%Y-%m-%d}, two cores, load {load:.1f} at the end. Times are"
        " processor times, those of looks without new commits wall times; an exponent is that of the three largest "
        "sizes."
    )
    path.write_text("\n".join(["# Growth", "", head, "", *table_lines(measured), ""]))
    return path


def main() -> None:
    """Prints the curves; exit status 1 if one grows faster than recorded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(SIZES), action="append")
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.step or args.prepare:
        from bench.curve_steps import PREPARED, STEPS

        step, size = args.step or args.prepare
        if args.prepare:
            PREPARED.get(step, lambda size: None)(int(size))
        else:
            print(json.dumps(dict(STEPS[step](int(size)))))
        return
    measured = measure(args.only or list(SIZES), args.most)
    report = Table("what", "size", "exponent", "recorded", "goal", "")
    for one in measured:
        faster = "grows faster" if one.grows_faster else ""
        goal = (f"{one.exponent:.2f}", f"{one.curve.recorded:.2f}", str(one.curve.goal))
        report.add_row(one.curve.title, one.curve.size, *goal, faster)
    console = Console(width=140)
    console.print(report)
    if args.record:
        console.print(f"written to {record(measured)}")
    raise SystemExit(any(one.grows_faster for one in measured))


if __name__ == "__main__":
    main()
