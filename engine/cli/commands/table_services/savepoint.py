"""`penstock savepoint` and `penstock restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.commands.table_services.options import (
    DryRun,
    Form,
    HoldAtMost,
    Server,
    ServerTable,
    Table,
    Zone,
    hold_of_flags,
    with_connection_flags,
)
from penstock.engine.cli.commands.table_services.output import print_holds
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.table_services.holding.readers import HoldOptions
    from penstock.engine.table_services.holding.savepoints import ReaderSavepoints


@with_connection_flags
def savepoint(
    context: typer.Context,
    table: Table,
    flags: dict[str, str | None],
    instant: Annotated[
        str | None, typer.Argument(metavar="INSTANT", help="A completed write; by default the newest.")
    ] = None,
    comment: Annotated[str, typer.Option("--comment", help="Recorded with the savepoint.")] = "",
    delete: Annotated[bool, typer.Option("--delete", help="Delete the savepoint of INSTANT.")] = False,
    for_group: Annotated[
        list[str] | None,
        typer.Option(
            "--for-group",
            metavar="NAME",
            help="Savepoints of the writes that this consumer group or stream of --server has not read; those that it "
            "has read are deleted. May be repeated.",
        ),
    ] = None,
    for_checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--for-checkpoint",
            metavar="FOLDER",
            help="The same for the Spark query of this checkpoint; may be repeated.",
        ),
    ] = None,
    release: Annotated[
        bool,
        typer.Option("--release", help="Delete the savepoints that only these readers need; needs no --server."),
    ] = False,
    hold_at_most: HoldAtMost = None,
    server: Server = None,
    server_table: ServerTable = None,
    dry_run: DryRun = False,
    timeline_timezone: Zone = "",
    form: Form = ReportFormat.TABLE,
) -> None:
    """Protect the files of a write from cleans, so that the table can be restored to it."""
    from dataclasses import asdict

    from penstock.engine.table_services.savepoints import delete_savepoint
    from penstock.engine.table_services.savepoints import savepoint as make
    from penstock.proto.errors import ConfigurationError

    if release:
        if instant is not None or delete or comment or hold_at_most is not None:
            raise ConfigurationError("--release: give only --for-group, --for-checkpoint, --dry-run and --format")
        _release(table, for_group or (), for_checkpoint or (), dry_run, timeline_timezone, form)
        return
    hold = hold_of_flags(context, flags, for_group, for_checkpoint, hold_at_most, server, server_table)
    if hold.at_most is not None:
        if instant is not None or delete or comment:
            raise ConfigurationError("--for-group and --for-checkpoint: give no INSTANT, no --comment and no --delete")
        _savepoint_readers(table, hold, dry_run, timeline_timezone, form)
        return
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


def _savepoint_readers(table: str, hold: HoldOptions, dry_run: bool, zone: str, form: ReportFormat) -> None:
    from penstock.engine.table_services.holding.savepoints import savepoints_of_readers

    result = savepoints_of_readers(table, hold, dry_run=dry_run, timeline_timezone=zone)
    _print(table, result, dry_run, form)


def _release(
    table: str, readers: Sequence[str], checkpoints: Sequence[str], dry_run: bool, zone: str, form: ReportFormat
) -> None:
    from penstock.engine.table_services.holding.savepoints import release_savepoints

    result = release_savepoints(table, readers, checkpoints, dry_run=dry_run, timeline_timezone=zone)
    _print(table, result, dry_run, form)


def _print(table: str, result: ReaderSavepoints, dry_run: bool, form: ReportFormat) -> None:
    from dataclasses import asdict

    if form is ReportFormat.JSON:
        write_json({"table": table, "dry_run": dry_run, **asdict(result)})
        return
    rows = [("would make" if dry_run else "made", one.instant, f"{one.files} files, {one.protected_bytes:,} bytes")
            for one in result.made]  # fmt: skip
    rows += [("kept", instant, "-") for instant in result.kept]
    rows += [("would delete" if dry_run else "deleted", instant, "-") for instant in result.deleted]
    write_text_table(("savepoint", "instant", "protects"), rows)
    print_holds(result.holds)


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
