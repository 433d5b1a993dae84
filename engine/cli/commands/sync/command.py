"""`penstock sync`: keeps tables of another system equal to Hudi tables and topics, by a job file."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.output.terminal_text import one_line
from penstock.engine.cli.shell import shell_of, start_logs
from penstock.engine.cli.signals import ended_by_signal
from penstock.proto.errors import PenstockError

if TYPE_CHECKING:
    from penstock.engine.sync.feeds import Feeds
    from penstock.engine.sync.runner import Runner
    from penstock.engine.sync.sources import Sources
    from penstock.engine.sync.targets.open import SharedTargets

_LOG = logging.getLogger("penstock.engine.sync")

_Once = Annotated[bool, typer.Option("--once", help="End when every table has what its source has now.")]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print the tables with their columns, types and keys. Writes nothing.")
]
_Restart = Annotated[
    list[str] | None,
    typer.Option("--restart", metavar="TABLE", help="Load this table of the target again; may be repeated."),
]
_Threads = Annotated[int, typer.Option("--threads", min=1, max=64, help="Tables that are copied at the same time.")]
_Interval = Annotated[
    float, typer.Option("--interval", metavar="SECONDS", min=0.1, help="Time between two looks at a table.")
]
_Metrics = Annotated[
    str, typer.Option("--metrics", metavar="HOST:PORT", help="Serve metrics for Prometheus here (`/metrics`).")
]


def sync(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The job (TOML): entries with `from` and `to`.")],
    once: _Once = False,
    dry_run: _DryRun = False,
    restart: _Restart = None,
    threads: _Threads = 4,
    interval: _Interval = 1.0,
    metrics: _Metrics = "",
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the report.")] = ReportFormat.TABLE,
) -> None:
    """Keep tables of DuckDB, PostgreSQL, Delta Lake or Parquet equal to Hudi tables or Debezium topics: all rows, then
    each change."""
    from penstock.engine.sync.feeds import Feeds
    from penstock.engine.sync.job import load_job
    from penstock.engine.sync.runner import Runner, RunSettings
    from penstock.engine.sync.sources import list_sources
    from penstock.engine.sync.targets.open import SharedTargets, open_target

    job = load_job(file)
    shell = shell_of(context)
    start_logs(shell)
    stop = threading.Event()
    settings = RunSettings(once=once, threads=threads, interval_s=interval, restart=frozenset(restart or ()))
    with ExitStack() as stack:
        if not (shell.shows_progress or shell.quiet):  # a line for each transaction, but none for each split
            _LOG.setLevel(logging.INFO)
            stack.callback(_LOG.setLevel, logging.NOTSET)
        targets = stack.enter_context(closing(SharedTargets(open_target)))
        feeds = stack.enter_context(closing(Feeds()))
        if dry_run:
            code = _dry_run(list_sources(job), feeds, targets, form)
        else:
            runner = Runner(
                lambda: list_sources(job),
                feeds.of,
                lambda source: targets.of(source.entry.target),
                settings,
                stop=stop,
            )
            if metrics:
                from penstock.engine.sync.metrics import serve_metrics

                stack.enter_context(closing(serve_metrics(metrics, runner.tables)))
            stack.enter_context(ended_by_signal(stop.set))
            code = _run(runner, form, live=shell.shows_progress)
    raise typer.Exit(code)


def _run(runner: Runner, form: ReportFormat, *, live: bool) -> int:
    """Runs the job, with a display on a terminal, and prints the tables at the end."""
    from penstock.engine.cli.commands.sync.display import COLUMNS, cells, display, fields

    if not live:
        code = runner.run()
    else:
        from rich.console import Console
        from rich.live import Live

        console = Console(stderr=True)
        with Live(console=console, refresh_per_second=4) as screen:
            code = runner.run(
                lambda: screen.update(display(runner.tables(), runner.problems, time.time(), console.height))
            )
    now_s = time.time()
    if form is ReportFormat.JSON:
        write_json({"tables": [fields(one, now_s) for one in runner.tables()], "problems": list(runner.problems)})
    else:
        write_text_table(COLUMNS, [cells(one, now_s) for one in runner.tables()])
    return code


def _dry_run(sources: Sources, feeds: Feeds, targets: SharedTargets, form: ReportFormat) -> int:
    """Prints the layout of each table. Returns the exit code: 1 if something could not be planned."""
    from penstock.engine.sync.table_sync import TableSync

    rows: list[tuple[str, str, str, str, bool]] = []
    problems = list(sources.problems)
    for source in sources.tables:
        try:
            target = targets.of(source.entry.target)
            layout = TableSync(source, feeds.of(source), target).planned()
        except PenstockError as error:
            problems.append(f"{source.target_table}: [{error.code}] {error}")
            continue
        for one, type_ in zip(layout.columns, target.types_of(layout.columns), strict=True):
            rows.append((source.target_table, source.name, one.name, type_, one.name in layout.key))
    names = ("table", "source", "column", "type", "key")
    if form is ReportFormat.JSON:
        write_json({"columns": [dict(zip(names, row, strict=True)) for row in rows], "problems": problems})
        return 1 if problems else 0
    write_text_table(names, [(*texts, "key" if is_key else "-") for *texts, is_key in rows])
    for problem in problems:
        typer.echo(one_line(problem), err=True)
    return 1 if problems else 0
