"""`penstock demo`: unpacks a table, reads it in four ways, writes its rows into
another table, and compares all results with Hudi's rows."""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Sequence
from importlib.resources.abc import Traversable

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from penstock.engine.demo.comparison import compare_rows
from penstock.engine.demo.prerequisites import check_prerequisites
from penstock.engine.demo.read_paths import READ_PATHS, ReadPath
from penstock.engine.demo.sample import load_sample, packaged_data, unpack_table
from penstock.engine.demo.server_process import handouts, summary
from penstock.engine.demo.show import (
    show_handouts,
    show_next,
    show_rows,
    show_sharing,
    show_splits,
    show_timeline,
    show_verdict,
)
from penstock.engine.demo.stage import Stage
from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.table.hudi_table import open_table

NON_TERMINAL_WIDTH = 140


def run(
    console: Console | None = None, *, data: Traversable | None = None, read_paths: Sequence[str] = tuple(READ_PATHS)
) -> int:
    """Runs the demo. Returns 0 if every row equals Hudi's, 1 if one differs.

    `data`: a folder like the packaged one. `read_paths`: keys of READ_PATHS, in the order of their runs. Raises
    ConfigurationError if one of them needs Spark, and pyspark or Java is missing. All files go to a temporary folder.
    """
    if {"spark", "served"} & set(read_paths):
        check_prerequisites()
    console = console or Console(width=None if Console().is_terminal else NON_TERMINAL_WIDTH)
    folder = data or packaged_data()
    sample = load_sample(folder)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as scratch, _progress(console) as progress:
        task = progress.add_task("unpacking", total=len(read_paths) + 2)
        stage = Stage(sample, unpack_table(folder, pathlib.Path(scratch, sample.table)), pathlib.Path(scratch))
        try:
            console.rule(f"table `{sample.table}`, written by Hudi {sample.hudi}: its timeline")
            show_timeline(console, open_table(str(stage.table)).timeline(), sample)
            progress.update(task, advance=1, description="planning")
            console.rule("the splits of its snapshot, in commit order")
            request = PlanRequest(table=str(stage.table), query=Snapshot())
            show_splits(console, EmbeddedEnumerator().plan(request))
            progress.update(task, advance=1)
            differing = 0
            for key in read_paths:
                progress.update(task, description=READ_PATHS[key].name)
                differing += _run_read_path(console, READ_PATHS[key], stage)
                progress.update(task, advance=1)
        finally:
            stage.close()
    took = f"{time.monotonic() - started:.0f} s"
    if differing:
        console.print(f"[bold red]{differing} differences from what Hudi {sample.hudi} returned[/] ({took})")
        return 1
    console.print(f"[bold green]Every row of every read equals what Hudi {sample.hudi} returned[/] ({took})")
    show_next(console)
    return 0


def _run_read_path(console: Console, read_path: ReadPath, stage: Stage) -> int:
    """Reads by one path, and prints and compares its answers. Returns the number of differences."""
    console.rule(read_path.name)
    console.print(read_path.call, style="cyan", markup=False, highlight=False)
    earlier = len(handouts(stage.server.log())) if read_path.slots else 0
    differing = 0
    for number, answer in enumerate(read_path.answers(stage)):
        if number == 0:
            show_rows(console, answer.actual)
        difference = compare_rows(answer.actual, answer.expected)
        show_verdict(console, answer, difference)
        differing += not difference.is_empty
    if read_path.slots:
        handed = handouts(stage.server.log())[earlier:]
        show_handouts(console, handed)
        sharing = summary(handed)
        show_sharing(console, sharing, read_path.slots)
        differing += bool(sharing.repeated) or sharing.most_slots < read_path.slots
    return differing


def _progress(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
