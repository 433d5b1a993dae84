"""`penstock tail`: follows a table as a reader of a consumer group."""

from __future__ import annotations

import os
import secrets
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import RowFormat
from penstock.engine.cli.shell import Shell, given_options, shell_of
from penstock.engine.cli.signals import ended_by_signal
from penstock.proto.errors import ConfigurationError, PenstockError
from penstock.proto.model.groups import sanitized_name
from penstock.proto.model.queries import is_pattern
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from penstock.engine.cli.output.tail_sink import Output
    from penstock.engine.group.reader import GroupReader
    from penstock.proto.options.registry import ParsedOptions

POLL_MS = 1000


class TailFormat(StrEnum):
    """Formats of rows that can be written as a stream."""

    JSONL = "jsonl"
    PARQUET = "parquet"


_Table = Annotated[
    str,
    typer.Argument(metavar="TABLE", help="The table's name on the server, or a quoted pattern such as 'sales.*'."),
]


_Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        metavar="N",
        min=0,
        help="Exit after exactly N rows on stdout. A batch of which only a part was printed is not committed.",
        show_default=False,
    ),
]


_OutputDir = Annotated[
    str | None,
    typer.Option(
        "--output-dir",
        metavar="DIR",
        help="Write one file per split, exactly once. Default: rows on stdout, at least once.",
    ),
]


@with_registry_flags(but=("after",), entry_point=EntryPoint.CONSUMER)
def tail(
    context: typer.Context,
    table: _Table,
    flags: dict[str, str | None],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="Any option, by its name here or in Hudi (docs/reference/options.md).",
        ),
    ] = None,
    begin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="earliest|latest|snapshot|INSTANT|TIMESTAMP",
            help="Where a new group starts (exclusive); default: earliest. An existing group continues.",
            show_default=False,
        ),
    ] = None,
    exit_at_end: Annotated[
        bool, typer.Option("--exit-at-end", help="Exit when nothing is left, instead of waiting for new commits.")
    ] = False,
    limit: _Limit = None,
    output_dir: _OutputDir = None,
    form: Annotated[
        TailFormat | None,
        typer.Option(
            "--format", help="Format of the rows: jsonl on stdout; default in a folder: parquet.", show_default=False
        ),
    ] = None,
) -> None:
    """Follow a table, or every table that matches a pattern, as a reader of a consumer group: committed rows are never
    printed again. Without --group, tail creates a group and deletes it at the end."""
    shell = shell_of(context)
    options = given_options(
        shell, {**flags, "after": begin}, option or (), entry_point=EntryPoint.CONSUMER, table=table
    )
    chosen = _checked_form(form, output_dir)
    table = shell.file.path_of(table, options.server)
    own_group = options.group is None
    _check_flags(options, output_dir, limit)
    options = _named(options)
    from penstock.engine.cli.output.tail_scope import ScopedFolder, scope_of
    from penstock.engine.cli.output.tail_sink import FilesBySplit, RowsOnStdout, checked_folder
    from penstock.engine.group.connect import open_group_enumerator
    from penstock.engine.group.reader import GroupReader

    folder = output_dir and ScopedFolder(checked_folder(output_dir), scope_of(table, options, chosen))
    with ExitStack() as at_end:
        enumerator = at_end.enter_context(open_group_enumerator(options.server, options.access, options.mergers))
        over_tables = is_pattern(table) and options.server is not None
        consumer = GroupReader(table, options, enumerator, over_tables=over_tables)
        stop = _Stop(consumer)
        output: Output = RowsOnStdout(consumer, limit, with_table=over_tables)
        if folder:
            output = FilesBySplit(consumer, folder.path, chosen, stop.requested, by_table=over_tables)
        at_end.enter_context(ended_by_signal(stop.request))
        consumer.join()
        if own_group:
            at_end.callback(_forget, shell, partial(enumerator.delete_group, table, options.group or ""))
        at_end.callback(consumer.close)
        if folder:
            folder.take_over(shell.warn)
        on_progress = at_end.enter_context(_progress(shell, not folder))
        _follow(consumer, output, stop, exit_at_end, on_progress)
        if exit_at_end:
            _raise_table_error(consumer)


def _raise_table_error(consumer: GroupReader) -> None:
    """Raises the error of the first table that could not be consumed, after the others came to their end."""
    errors = consumer.table_errors
    for table, error in sorted(errors.items()):
        others = f" (and {len(errors) - 1} more tables)" if len(errors) > 1 else ""
        raise type(error)(f"table {table}{others}: {error}")


def _check_flags(options: ParsedOptions, output_dir: str | None, limit: int | None) -> None:
    if limit is not None and output_dir is not None:
        raise ConfigurationError("--limit with --output-dir: a file holds a whole split: give one of them")
    if options.group is None and output_dir is not None:
        raise ConfigurationError(
            "--output-dir without --group: exactly-once files need a group that keeps its position: give --group"
        )
    if options.group is not None and options.server is None:
        raise ConfigurationError("--group without --server: a group keeps its position only on a server: give --server")


class _Stop:
    """A request to stop, which also wakes the consumer."""

    def __init__(self, consumer: GroupReader) -> None:
        self._consumer = consumer
        self._requested = False

    def request(self) -> None:
        """For a signal handler, which must not take a lock that the interrupted code may hold."""
        self._requested = True
        threading.Thread(target=self._consumer.wake, daemon=True).start()

    def requested(self) -> bool:
        """Whether the command was asked to stop."""
        return self._requested


def _follow(consumer: GroupReader, output: Output, stop: _Stop, exit_at_end: bool, on_progress: _OnProgress) -> None:
    """Writes batches until a stop is requested, the output has all rows that it takes, the group ends, or with
    `exit_at_end` nothing is left."""
    from penstock.engine.cli.output.tail_sink import Stopped

    rows = splits = 0
    while not (stop.requested() or output.is_full):
        batch = consumer.poll(0) if exit_at_end else None
        if batch is None and not consumer.ended and not (exit_at_end and consumer.caught_up):
            batch = consumer.poll(POLL_MS)
        if batch is not None:
            try:
                rows += output.take(batch)
            except Stopped:
                return
            splits += batch.end_of_split
        on_progress(rows, splits, consumer.watermark)
        if batch is None and (consumer.ended or (exit_at_end and consumer.caught_up)):
            return


def _checked_form(form: TailFormat | None, output_dir: str | None) -> RowFormat:
    if output_dir is None:
        if form is TailFormat.PARQUET:
            raise ConfigurationError(
                "--format parquet needs --output-dir: stdout is a stream without an end, a Parquet file needs one"
            )
        return RowFormat.JSONL
    return RowFormat((form or TailFormat.PARQUET).value)


def _named(options: ParsedOptions) -> ParsedOptions:
    """The options with a generated group and reader id where none were given."""
    here = f"{socket.gethostname()}-{os.getpid()}"
    own = sanitized_name(f"tail-{here}-{secrets.token_hex(4)}")
    group = own if options.group is None else options.group
    reader_id = sanitized_name(here) if options.reader_id is None else options.reader_id
    return replace(options, group=group, reader_id=reader_id)


def _forget(shell: Shell, delete: Callable[[], None]) -> None:
    """Deletes a group that only this command uses. A failure is a warning."""
    try:
        delete()
    except PenstockError as error:
        shell.warn(f"the group of this command stays on the server: {error}")


_OnProgress = Callable[[int, int, datetime | None], None]
"""Is called with the rows and splits so far, and the watermark of the group."""


@contextmanager
def _progress(shell: Shell, to_stdout: bool) -> Iterator[_OnProgress]:
    """A progress line on stderr, if stderr is a terminal and stdout does not write rows to one; else one line on stderr
    for each watermark."""
    if not shell.shows_progress or (to_stdout and sys.stdout.isatty()):
        yield _WatermarkLines(shell)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    shown = TextColumn("{task.fields[splits]:,} splits, {task.fields[rows]:,} rows{task.fields[watermark]}")
    with Progress(SpinnerColumn(), shown, TimeElapsedColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("tail", total=None, rows=0, splits=0, watermark="")

        def update(rows: int, splits: int, watermark: datetime | None) -> None:
            text = "" if watermark is None else f", watermark {_utc(watermark)}"
            bar.update(task, rows=rows, splits=splits, watermark=text)

        yield update


class _WatermarkLines:
    """Prints each new watermark of the group on stderr, unless the command is quiet."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._shown: datetime | None = None

    def __call__(self, rows: int, splits: int, watermark: datetime | None) -> None:
        if watermark is None or watermark == self._shown:
            return
        self._shown = watermark
        self._shell.note(f"watermark {_utc(watermark)}", watermark=_utc(watermark))


def _utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
