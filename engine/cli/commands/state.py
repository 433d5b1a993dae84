"""`penstock state`: checks, backs up and restores the state directory of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import shell_of, show_help, working
from penstock.proto.errors import StateDamaged

if TYPE_CHECKING:
    from penstock.enumerator.store.sqlite.check import StateReport

app = typer.Typer(help="A server's state directory.")


@app.callback(invoke_without_command=True)
def state(context: typer.Context) -> None:
    """A server's state directory."""
    show_help(context)


@app.command("check")
def check(
    context: typer.Context,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The directory of `serve --state`.")],
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the report.")] = ReportFormat.TABLE,
) -> None:
    """Read a whole state directory, and report its content and any damage. Changes nothing; a server may run."""
    from penstock.enumerator.store.sqlite.check import check_state

    with working(shell_of(context), f"reading {directory}"):
        report = check_state(directory)
    fields = report_fields(report)
    if form is ReportFormat.JSON:
        write_json(fields)
    else:
        del fields["kinds"]
        _write(fields, form)
        if report.kinds:
            typer.echo()
            rows = [(k.kind, str(k.version), str(k.records), str(k.size_bytes)) for k in report.kinds]
            write_text_table(("kind", "version", "records", "payload_bytes"), rows)
    if report.damage:
        raise StateDamaged(report.damage)


@app.command("backup")
def backup(
    context: typer.Context,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="The directory of `serve --state`.")],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; it must not exist.")],
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the report.")] = ReportFormat.TABLE,
) -> None:
    """Copy a state directory into one file, and check the copy. A server may run."""
    from penstock.enumerator.coordinator.backup import back_up

    with working(shell_of(context), f"backing up {directory}"):
        report = back_up(directory, file)
    fields = {"file": file, "records": report.records, "plans": report.plans, "splits": report.splits}
    _write({**fields, "size_bytes": report.size_bytes}, form)


@app.command("restore")
def restore(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file of `state backup`.")],
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="The directory of `serve --state`; no server may run.")
    ],
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the report.")] = ReportFormat.TABLE,
) -> None:
    """Restore a backup into a state directory. Every earlier reader is fenced. Groups continue from its positions:
    rows committed after it are delivered again. The earlier content moves into a folder in the directory."""
    from penstock.enumerator.coordinator.backup import restore as restored

    with working(shell_of(context), f"restoring {directory}"):
        outcome = restored(file, directory)
    fields: dict[str, object] = {
        "directory": directory,
        "groups": outcome.groups,
        "readers_fenced": outcome.readers,
        "plans_forgotten": outcome.plans,
        "first_epoch": outcome.first_epoch,
        "moved_to": None if outcome.moved_to is None else str(outcome.moved_to),
    }
    _write(fields, form)


def _write(fields: dict[str, object], form: ReportFormat) -> None:
    if form is ReportFormat.JSON:
        write_json(fields)
    else:
        write_text_table(("field", "value"), [(name, _text(value)) for name, value in fields.items()])


def report_fields(report: StateReport) -> dict[str, object]:
    """The documented fields of the report (docs/reference/cli.md)."""
    holder = report.holder
    return {
        "directory": report.directory,
        "format_version": report.format_version,
        "state_id": report.state_id or None,
        "epoch": report.epoch,
        "holder": None if holder is None else {"pid": holder.pid, "host": holder.host, "since": holder.since},
        "live": report.live,
        "records": report.records,
        "plans": report.plans,
        "splits": report.splits,
        "size_bytes": report.size_bytes,
        "free_bytes": report.free_bytes,
        "whole": not report.damage,
        "damage": report.damage or None,
        "kinds": [
            {"kind": k.kind, "version": k.version, "records": k.records, "payload_bytes": k.size_bytes}
            for k in report.kinds
        ],
    }


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case dict():
            return f"process {value['pid']} on {value['host']} since {value['since']}"
        case _:
            return str(value)
