"""`penstock work` and `penstock services`: table services that a server hands out."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.commands.table_services.options import connection_options
from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import given_options, shell_of, show_help
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from penstock.proto.model.service_splits import ServiceSplitSummary
    from penstock.proto.options.registry import ParsedOptions

services = typer.Typer(help="Table services that a server hands out.")

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")
"""Options for the connection to the server."""
_Table = Annotated[str, typer.Option("--table", metavar="NAME", help="Only this table of the server.")]


@services.callback(invoke_without_command=True)
def show_services(context: typer.Context) -> None:
    """Table services that a server hands out."""
    show_help(context)


@services.command("list")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def list_(
    context: typer.Context,
    flags: dict[str, str | None],
    table: _Table = "",
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the output.")] = ReportFormat.TABLE,
) -> None:
    """List the splits of table services that are due, by table, service and instant: state, member, age, failures."""
    options = _connected(context, flags, table)
    from penstock.proto.client.client import EnumeratorClient

    client = EnumeratorClient(str(options.server), access=options.access)
    rows = [_fields(each) for each in client.list_service_splits(table)]
    if form is ReportFormat.JSON:
        write_json(rows)
        return
    names = ("table", "service", "instant", "state", "member", "age_ms", "failures", "error")
    write_text_table(names, [tuple(str(row[name] or "-") for name in names) for row in rows])


@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def work(
    context: typer.Context,
    flags: dict[str, str | None],
    table: _Table = "",
    service: Annotated[
        list[str] | None,
        typer.Option("--service", metavar="compact|cluster|clean|archive", help="Only this service; may be repeated."),
    ] = None,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when nothing is due and nothing is under way.")
    ] = False,
) -> None:
    """Carry out the table services that a server hands out, as a member of its worker group.

    SIGTERM and Ctrl-C end it after the split that it has; a second signal ends it at once. With --until-idle the exit
    code is 1 if a split failed.
    """
    options = _connected(context, flags, table)
    from penstock.engine.table_services.work.member import work as carry_out_services

    result = carry_out_services(
        str(options.server),
        table=table,
        services=service or (),
        server_options=connection_options(context, flags, options.server),
        until_idle=until_idle,
        stopped=_stopped_by_signal(),
    )
    typer.echo(f"{result.done} splits done, {result.failed} failed")
    if result.failed and until_idle:
        raise typer.Exit(1)


def _connected(context: typer.Context, flags: dict[str, str | None], table: str) -> ParsedOptions:
    options = given_options(shell_of(context), flags, entry_point=EntryPoint.CONSUMER, table=table)
    if options.server is None:
        raise ConfigurationError("table services are handed out by a server: give --server HOST:PORT")
    return options


def _stopped_by_signal() -> threading.Event:
    """An event that the first SIGTERM or SIGINT sets. A second signal has its previous effect."""
    stopped = threading.Event()
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGINT)}

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop)
    return stopped


def _fields(split: ServiceSplitSummary) -> dict[str, object]:
    """The documented fields of a split in `services list` (docs/reference/cli.md)."""
    return {
        "table": split.id.table,
        "service": split.id.service.value,
        "instant": split.id.instant or None,
        "state": split.state.value,
        "member": split.member or None,
        "age_ms": split.age_ms,
        "failures": split.failures,
        "error": split.error or None,
    }
