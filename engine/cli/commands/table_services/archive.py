"""`penstock archive`: moves old instants from the active timeline to the archive."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.engine.cli.commands.table_services.options import DryRun, Form, Table, Zone, number
from penstock.engine.cli.output.rows import ReportFormat, write_json


def archive(
    table: Table,
    keep_min: Annotated[int, typer.Option("--keep-min", help="Completed writes that stay on the timeline.")] = 20,
    keep_max: Annotated[
        int, typer.Option("--keep-max", help="Archive nothing as long as there are no more completed writes.")
    ] = 30,
    delta_commits: Annotated[
        int, typer.Option("--delta-commits", help="Deltacommits after which a compaction is due; so many stay.")
    ] = 5,
    hours: Annotated[
        int | None, number("--hours", "The hours of cleans by hours: writes of the last so many hours stay.")
    ] = None,
    dry_run: DryRun = False,
    timeline_timezone: Zone = "",
    form: Form = ReportFormat.TABLE,
) -> None:
    """Move old instants from the active timeline to the archive."""
    from penstock.engine.table_services.archive import archive as archive_table

    result = archive_table(
        table,
        keep_min=keep_min,
        keep_max=keep_max,
        delta_commits=delta_commits,
        hours=hours,
        dry_run=dry_run,
        timeline_timezone=timeline_timezone,
    )
    if form is ReportFormat.JSON:
        write_json({"table": table, "dry_run": dry_run, "instants": list(result.instants), "kept": result.kept})
        return
    if not result.instants:
        typer.echo(f"nothing to archive: {result.kept} completed writes are on the timeline")
        return
    span = f"{len(result.instants)} instants from {result.instants[0]} to {result.instants[-1]}"
    typer.echo(f"{'would archive' if dry_run else 'archived'} {span}; {result.kept} completed writes stay")
