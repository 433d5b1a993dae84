"""`penstock sync`: keeps tables of another system equal to Hudi tables, by a job file."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.output.rows import write_text_table
from penstock.engine.cli.shell import shell_of, start_logs
from penstock.engine.cli.signals import ended_by_signal
from penstock.proto.errors import PenstockError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.engine.sync.runner import Runner, TableProgress
    from penstock.engine.sync.sources import Sources

_COLUMNS = ("table", "source", "state", "rows", "loaded", "upto", "problem")

_Once = Annotated[bool, typer.Option("--once", help="End when every table has what its source has now.")]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the tables with their keys, columns and types. Writes nothing.")
]
_Restart = Annotated[
    list[str] | None,
    typer.Option("--restart", metavar="TABLE", help="Load this table of the target again; may be repeated."),
]
_Threads = Annotated[int, typer.Option("--threads", min=1, max=64, help="Tables that are copied at the same time.")]
_Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between two looks at a table.")
]


def sync(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The job (TOML): [[sync]] entries with from and to.")],
    once: _Once = False,
    dry_run: _DryRun = False,
    restart: _Restart = None,
    threads: _Threads = 4,
    interval: _Interval = 1.0,
) -> None:
    """Keep tables of DuckDB, PostgreSQL, Delta Lake or Parquet equal to Hudi tables: all rows, then each change."""
    from penstock.engine.sync.job import load_job
    from penstock.engine.sync.runner import Runner, RunSettings, shared_targets
    from penstock.engine.sync.sources import list_sources
    from penstock.engine.sync.targets.open import open_target

    job = load_job(file)
    start_logs(shell_of(context), least=logging.WARNING)
    target_of = shared_targets(open_target)
    if dry_run:
        if not _dry_run(list_sources(job), target_of):
            raise typer.Exit(1)
        return
    stop = threading.Event()
    settings = RunSettings(once=once, threads=threads, interval_s=interval, restart=frozenset(restart or ()))
    runner = Runner(lambda: list_sources(job), target_of, settings, stop=stop)
    with ended_by_signal(stop.set):
        code = _shown(runner)
    raise typer.Exit(code)


def _shown(runner: Runner) -> int:
    """Runs the job, with a display on a terminal, and prints the tables at the end."""
    if not sys.stderr.isatty():
        code = runner.run()
    else:
        from rich.console import Console
        from rich.live import Live

        with Live(console=Console(stderr=True), refresh_per_second=4) as live:
            code = runner.run(lambda: live.update(_table(runner.tables())))
    write_text_table(_COLUMNS, [_cells(one) for one in runner.tables()])
    return code


def _table(tables: Sequence[TableProgress]) -> RenderableType:
    from rich.table import Table

    table = Table(*_COLUMNS, box=None)
    for one in tables:
        table.add_row(*_cells(one))
    return table


def _cells(one: TableProgress) -> tuple[str, ...]:
    loaded = f"{one.loaded}/{one.total}" if one.total else "-"
    problem = f"[{one.error_code}] {one.error}" if one.error else "-"
    return (
        one.source.target_table,
        one.source.name,
        one.state.value,
        str(one.rows),
        loaded,
        one.order_key or "-",
        problem,
    )


def _dry_run(sources: Sources, target_of: object) -> bool:
    """Prints what would be made; False if something could not be planned."""
    from penstock.engine.sync.feed import TableFeed
    from penstock.engine.sync.table_sync import TableSync

    rows: list[tuple[str, ...]] = []
    problems = list(sources.problems)
    for source in sources.tables:
        try:
            target = target_of(source)
            layout = TableSync(source, TableFeed(source.table, source.entry.options), target).planned()
        except PenstockError as error:
            problems.append(f"{source.target_table}: [{error.code}] {error}")
            continue
        for one, type_ in zip(layout.columns, target.types_of(layout.columns), strict=True):
            rows.append((source.target_table, source.name, one.name, type_, "key" if one.name in layout.key else "-"))
    write_text_table(("table", "source", "column", "type", "key"), rows)
    for problem in problems:
        typer.echo(problem, err=True)
    return not problems
