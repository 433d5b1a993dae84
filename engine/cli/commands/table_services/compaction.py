"""`penstock compact`: merges logs into base files."""

from __future__ import annotations

from penstock.engine.cli.commands.table_services.options import (
    DryRun,
    Form,
    Partitions,
    ScheduleOnly,
    SoleWriter,
    Table,
    Zone,
)
from penstock.engine.cli.output.rows import ReportFormat


def compact(
    table: Table,
    partition: Partitions = None,
    dry_run: DryRun = False,
    schedule_only: ScheduleOnly = False,
    timeline_timezone: Zone = "",
    sole_writer: SoleWriter = False,
    form: Form = ReportFormat.TABLE,
) -> None:
    """Merge the logs of a merge-on-read table into base files; pending plans first."""
    from penstock.engine.cli.commands.table_services.output import print_results
    from penstock.engine.table_services.compaction import compact as compact_table

    results = compact_table(
        table,
        partitions=partition or (),
        dry_run=dry_run,
        schedule_only=schedule_only,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
    )
    print_results(table, results, form, "nothing to compact")
