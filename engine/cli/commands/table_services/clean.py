"""`penstock clean`: deletes the files that only older states of a table need."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.engine.cli.commands.table_services.options import (
    Commits,
    DryRun,
    FileVersions,
    Form,
    HoldAtMost,
    HoldCheckpoints,
    HoldFor,
    Hours,
    Server,
    ServerTable,
    Table,
    Zone,
    hold_of_flags,
    with_connection_flags,
)
from penstock.engine.cli.commands.table_services.output import print_holds
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table


@with_connection_flags
def clean(
    context: typer.Context,
    table: Table,
    flags: dict[str, str | None],
    commits: Commits = None,
    hours: Hours = None,
    file_versions: FileVersions = None,
    dry_run: DryRun = False,
    keep_from: Annotated[
        str | None,
        typer.Option(
            "--keep-from",
            metavar="ORDER_KEY",
            help="Keep what a reader needs that has read up to this order key.",
            show_default=False,
        ),
    ] = None,
    hold_for: HoldFor = None,
    hold_checkpoint: HoldCheckpoints = None,
    hold_at_most: HoldAtMost = None,
    server: Server = None,
    server_table: ServerTable = None,
    timeline_timezone: Zone = "",
    form: Form = ReportFormat.TABLE,
) -> None:
    """Delete the files that only older states of a table need."""
    from dataclasses import asdict

    from penstock.engine.table_services.clean import clean_for, clean_policy

    hold = hold_of_flags(context, flags, hold_for, hold_checkpoint, hold_at_most, server, server_table)
    policy = clean_policy(commits, hours, file_versions)
    result = clean_for(table, policy, hold, keep_from=keep_from, dry_run=dry_run, timeline_timezone=timeline_timezone)
    if form is ReportFormat.JSON:
        write_json({"table": table, "dry_run": dry_run, **asdict(result)})
        return
    if dry_run:
        write_text_table(("would delete",), [(path,) for path in (*result.files, *result.partitions)])
        print_holds(result.holds)
        return
    rows = [
        ("instant", result.instant),
        ("policy", result.policy),
        ("earliest_to_retain", result.earliest_to_retain),
        ("carried_on", ", ".join(result.carried_on)),
        ("files", str(len(result.files))),
        ("partitions", ", ".join(result.partitions)),
    ]
    write_text_table(("field", "value"), rows)
    print_holds(result.holds)
