"""`penstock writes`: lists the writes that a server coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import given_options, shell_of, show_help
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from penstock.proto.model.writes import WriteSummary

app = typer.Typer(help="Writes that a server coordinates.")

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")
"""Options for the connection to the server."""


@app.callback(invoke_without_command=True)
def writes(context: typer.Context) -> None:
    """Writes that a server coordinates."""
    show_help(context)


@app.command("list")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def list_(
    context: typer.Context,
    flags: dict[str, str | None],
    table: Annotated[str, typer.Option("--table", metavar="TABLE", help="Only the writes of this table.")] = "",
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the output.")] = ReportFormat.TABLE,
) -> None:
    """List the writes that have not ended, by table, owner and epoch: state, instant, leases, files, rest of the
    lease."""
    options = given_options(shell_of(context), flags, entry_point=EntryPoint.CONSUMER, table=table)
    if options.server is None:
        raise ConfigurationError("writes list needs a server, which coordinates them: give --server HOST:PORT")
    from penstock.proto.client.client import EnumeratorClient

    rows = [_fields(each) for each in EnumeratorClient(options.server, access=options.access).list_writes(table)]
    if form is ReportFormat.JSON:
        write_json(rows)
        return
    names = ("table", "owner", "epoch", "state", "instant", "groups", "files", "lease_left_ms")
    write_text_table(names, [tuple(str(row[name] or "-") for name in names) for row in rows])


def _fields(write: WriteSummary) -> dict[str, object]:
    """The documented fields of a write in `writes list` (docs/reference/cli.md)."""
    return {
        "table": write.id.table,
        "owner": write.id.owner,
        "epoch": write.id.epoch,
        "state": write.state.value,
        "instant": write.instant or None,
        "groups": write.groups,
        "files": write.progress.files,
        "lease_left_ms": write.lease_left_ms,
    }
