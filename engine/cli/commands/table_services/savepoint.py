"""`penstock savepoint` and `penstock restore`."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.engine.cli.commands.table_services.options import DryRun, Form, Table, Zone
from penstock.engine.cli.output.rows import ReportFormat, write_json


def savepoint(
    table: Table,
    instant: Annotated[
        str | None, typer.Argument(metavar="INSTANT", help="A completed write; by default the newest.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="Recorded with the savepoint.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete the savepoint of INSTANT.")] = False,
    dry_run: DryRun = False,
    timeline_timezone: Zone = "",
    form: Form = ReportFormat.TABLE,
) -> None:
    """Protect the files of a write from cleans, so that the table can be restored to it."""
    from dataclasses import asdict

    from penstock.engine.table_services.savepoints import delete_savepoint
    from penstock.engine.table_services.savepoints import savepoint as make
    from penstock.proto.errors import ConfigurationError

    if delete:
        if instant is None or dry_run:
            raise ConfigurationError("--delete: give the INSTANT of the savepoint, and no --dry-run")
        delete_savepoint(table, instant, timeline_timezone=timeline_timezone)
        if form is ReportFormat.JSON:
            write_json({"table": table, "deleted": instant})
            return
        typer.echo(f"deleted the savepoint of {instant}")
        return
    result = make(table, instant, comment=comment, dry_run=dry_run, timeline_timezone=timeline_timezone)
    if form is ReportFormat.JSON:
        write_json({"table": table, **asdict(result)})
        return
    done = "would protect" if dry_run else "protects"
    typer.echo(f"the savepoint of {result.instant} {done} {result.files} files, {result.protected_bytes:,} bytes")


def restore(
    table: Table,
    savepoint: Annotated[
        str | None, typer.Argument(metavar="SAVEPOINT", help="The instant of a savepoint; by default the newest one.")
    ] = None,
    dry_run: DryRun = False,
    sole_writer: Annotated[
        bool, typer.Option("--sole-writer", help="Nobody else writes the table: roll pending writes back.")
    ] = False,
    timeline_timezone: Zone = "",
    form: Form = ReportFormat.TABLE,
) -> None:
    """Take a table back to a savepoint: remove all later writes and their rows."""
    from dataclasses import asdict

    from penstock.engine.table_services.restore import restore as restore_table

    result = restore_table(
        table, savepoint, dry_run=dry_run, sole_writer=sole_writer, timeline_timezone=timeline_timezone
    )
    if form is ReportFormat.JSON:
        write_json({"table": table, **asdict(result)})
        return
    removed = ", ".join(result.removed) or "nothing"
    typer.echo(f"{'would remove' if dry_run else 'removed'} {removed}; the newest write is {result.savepoint}")
