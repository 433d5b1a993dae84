"""`penstock demo`: unpack, show, read by four roads, compare each with the rows that Hudi returned."""

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
from penstock.engine.demo.roads import ROADS, Road
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


def run(console: Console | None = None, *, data: Traversable | None = None, roads: Sequence[str] = tuple(ROADS)) -> int:
    """Runs the demo; 0 if every row of every road equals Hudi's, 1 if one differs.

    `data` is a folder like the packaged one; `roads` are keys of ROADS, in the order to go. ConfigurationError if a
    road needs Spark and pyspark or Java is missing. Everything written to disk goes to a temporary folder.
    """
    if {"spark", "served"} & set(roads):
        check_prerequisites()
    console = console or Console(width=None if Console().is_terminal else NON_TERMINAL_WIDTH)
    folder = data or packaged_data()
    sample = load_sample(folder)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-demo-") as scratch, _progress(console) as progress:
        task = progress.add_task("unpacking", total=len(roads) + 2)
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
            for key in roads:
                progress.update(task, description=ROADS[key].name)
                differing += _travel(console, ROADS[key], stage)
                progress.update(task, advance=1)
        finally:
            stage.close()
    took = f"{time.monotonic() - started:.0f} s"
    if differing:
        console.print(f"[bold red]{differing} findings: not what Hudi {sample.hudi} returned[/] ({took})")
        return 1
    console.print(f"[bold green]Every row of every road equals what Hudi {sample.hudi} returned[/] ({took})")
    show_next(console)
    return 0


def _travel(console: Console, road: Road, stage: Stage) -> int:
    """Goes a road, shows and judges what it brings; how much is wrong with it."""
    console.rule(road.name)
    console.print(road.call, style="cyan", markup=False, highlight=False)
    seen = len(handouts(stage.server.log())) if road.slots else 0
    differing = 0
    for number, answer in enumerate(road.answers(stage)):
        if number == 0:
            show_rows(console, answer.got)
        difference = compare_rows(answer.got, answer.want)
        show_verdict(console, answer, difference)
        differing += not difference.is_empty
    if road.slots:
        handed = handouts(stage.server.log())[seen:]
        show_handouts(console, handed)
        sharing = summary(handed)
        show_sharing(console, sharing, road.slots)
        differing += bool(sharing.repeated) or sharing.most_slots < road.slots
    return differing


def _progress(console: Console) -> Progress:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
