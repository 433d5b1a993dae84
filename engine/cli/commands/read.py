"""`penstock read`: writes the rows of a table to stdout or into a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import RowFormat, check_output, row_format, write_rows
from penstock.engine.cli.shell import LogFormat, Shell, given_options, shell_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.arrow import Progress
    from penstock.engine.cli.output.profile import Profile


@with_registry_flags()
def read(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Path or URI of a table; with --server its name.")],
    flags: dict[str, str | None],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="Any option, by its name here or in Hudi (docs/reference/options.md).",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="A file, which appears when it is complete. Its suffix is the format.",
        ),
    ] = None,
    form: Annotated[
        RowFormat | None,
        typer.Option("--format", help="Format of the rows; default on stdout: table.", show_default=False),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile",
            help="Print the time of each phase on stderr; with --format jsonl as a line of JSON. Reads in one thread, "
            "unless --threads is given: then times are sums over threads.",
        ),
    ] = False,
) -> None:
    """Read the rows of a table: a snapshot, a snapshot as of a time, the base files alone, or a range of instants."""
    shell = shell_of(context)
    check_output(output)
    chosen = row_format(form, output)
    options = given_options(shell, flags, option or (), table=table)
    from penstock.engine.arrow import open_reading

    _return_memory()
    spent = _profile() if profile else None
    if profile and not options.threads:
        options = replace(options, threads=1)
    reading = open_reading(shell.file.path_of(table, options.server), options, ahead=True)
    if spent is not None:
        spent.planned()
    on_report = None if spent is None else spent.add
    with _progress(shell, output) as on_progress, closing(reading.batches(on_progress, on_report)) as batches:
        write_rows(reading.schema, batches, chosen, output)
    if spent is not None:
        from penstock.engine.cli.output.profile import show_profile

        as_json = chosen is RowFormat.JSONL or shell.log_format is LogFormat.JSON
        show_profile(spent.summary(), as_json=as_json)


def _return_memory() -> None:
    """Uses the system's allocator, which returns freed memory to the system, unless the user chose Arrow's pool."""
    import os

    import pyarrow as pa

    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())


def _profile() -> Profile:
    import time

    from penstock.engine.cli.output.profile import Profile

    return Profile(time.perf_counter)


@contextmanager
def _progress(shell: Shell, output: str | None) -> Iterator[Callable[[Progress], None] | None]:
    """A progress bar on stderr, if stderr is a terminal and stdout does not write rows to one."""
    import sys

    to_stdout = output in (None, "-")
    if not shell.shows_progress or (to_stdout and sys.stdout.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("splits"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rows]:,} rows"))
    with Bar(*columns, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("read", total=None, rows=0)
        yield lambda now: bar.update(task, completed=now.splits_done, total=now.splits, rows=now.rows)
