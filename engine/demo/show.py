"""Prints the timeline, the splits, the rows and the results of the demo as rich tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from penstock.engine.demo.comparison import RowDifference
from penstock.engine.demo.read_paths import Answer
from penstock.engine.demo.sample import Sample
from penstock.engine.demo.server_process import Handout, HandoutSummary
from penstock.proto.model.splits import Plan
from penstock.table.timeline.active import Timeline

SHOWN_ROWS = 5
SHOWN_META = ("_hoodie_commit_time",)


def show_timeline(console: Console, timeline: Timeline, sample: Sample) -> None:
    """Prints each instant, and what it did."""
    descriptions = {commit.requested_time: commit.what for commit in sample.commits}
    grid = _grid("requested time", "completion time", "action", "state", "what it did")
    for instant in timeline.instants:
        completion = instant.completion_time or "-"
        grid.add_row(
            instant.requested_time,
            completion,
            instant.action,
            instant.state,
            descriptions.get(instant.requested_time, ""),
        )
    console.print(grid)


def show_splits(console: Console, plan: Plan) -> None:
    """Prints each split, in commit order."""
    grid = _grid("split", "order key", "partition", "base file", "log files", "bytes")
    for split in plan.splits:
        base = split.base.path.rsplit("/", 1)[-1] if split.base else "none"
        name = _short(split.split_id)
        grid.add_row(
            name, split.order_key, split.partition, _short(base, 28), str(len(split.logs)), f"{split.size_bytes:,}"
        )
    console.print(grid)
    console.print(f"{len(plan.splits)} splits, {sum(split.size_bytes for split in plan.splits):,} bytes")


def show_rows(console: Console, rows: pa.Table) -> None:
    """Prints the first rows, without the meta columns except the commit time."""
    names = [name for name in rows.column_names if name in SHOWN_META or not name.startswith("_hoodie_")]
    grid = _grid(*names)
    for row in rows.select(names).slice(0, SHOWN_ROWS).to_pylist():
        grid.add_row(*(str(value) for value in row.values()))
    console.print(grid)
    if rows.num_rows > SHOWN_ROWS:
        console.print(f"… and {rows.num_rows - SHOWN_ROWS} more rows", style="dim")


def show_verdict(console: Console, answer: Answer, difference: RowDifference) -> None:
    """Prints one line: whether the rows equal Hudi's, or the difference."""
    if difference.is_empty:
        console.print(f"[green]equal[/]  {answer.what}: {answer.actual.num_rows} rows")
    else:
        console.print(
            f"[bold red]DIFFERS[/]  {answer.what}: {answer.actual.num_rows} rows, Hudi has {answer.expected.num_rows}"
        )
        console.print(f"    {difference.text(examples=1)}", markup=False, highlight=False)


def show_handouts(console: Console, handed: Sequence[Handout]) -> None:
    """Prints the splits that each slot (a Spark task) received, by the server's log: a line for each plan and slot."""
    plans: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for one in handed:
        plans[one.plan][one.slot].append(_short(one.split))
    grid = _grid("plan", "slot (task)", "splits it received, by the server's log")
    for plan, slots in plans.items():
        for slot, splits in sorted(slots.items()):
            grid.add_row(_short(plan), str(slot), " ".join(splits))
    console.print(grid)


def show_sharing(console: Console, summary: HandoutSummary, expected_slots: int) -> None:
    """Prints one line: whether each split was assigned once, and to at least `expected_slots` slots."""
    counts = f"{summary.splits} splits of {summary.plans} plans went to {summary.slots} slots"
    if summary.repeated:
        console.print(f"[bold red]TWICE[/]  {counts}; handed out more than once: {' '.join(summary.repeated)}")
    elif summary.most_slots < expected_slots:
        console.print(
            f"[bold red]NOT SHARED[/]  {counts}; no plan fed {expected_slots} slots, at most {summary.most_slots}"
        )
    else:
        console.print(f"[green]once[/]   {counts}, each split once, up to {summary.most_slots} slots a plan")


def show_next(console: Console) -> None:
    """Prints where to continue. The pages are those of the repository; a wheel does not contain them."""
    console.print("Next:", style="bold")
    console.print("  docs/quickstart.md     ten minutes with this table (`penstock demo --unpack lake` puts it there)")
    console.print("  docs/README.md         guides and reference, by what you want to do")
    console.print("  penstock doctor        whether this machine and your table are fit for use")


def _grid(*names: str) -> Table:
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        grid.add_column(name, overflow="fold")
    return grid


def _short(text: str, length: int = 12) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
