"""`penstock cluster`: joins small file groups, and sorts their rows."""

from __future__ import annotations

from typing import Annotated

import typer

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

_TARGET_BYTES = 120 << 20
_SMALL_BYTES = 100 << 20


def cluster(
    table: Table,
    sort_by: Annotated[
        list[str] | None,
        typer.Option("--sort-by", metavar="COLUMN", help="Column by which rows are sorted; may be repeated."),
    ] = None,
    partition: Partitions = None,
    target_file_bytes: Annotated[
        int, typer.Option("--target-file-bytes", min=1, help="Groups are joined up to this size.")
    ] = _TARGET_BYTES,
    small_file_bytes: Annotated[
        int, typer.Option("--small-file-bytes", min=1, help="Groups below this size are joined.")
    ] = _SMALL_BYTES,
    index: Annotated[
        str | None,
        typer.Option("--index", help="Index of the table's writers, if the table does not record it."),
    ] = None,
    dry_run: DryRun = False,
    schedule_only: ScheduleOnly = False,
    timeline_timezone: Zone = "",
    sole_writer: SoleWriter = False,
    form: Form = ReportFormat.TABLE,
) -> None:
    """Join small file groups of a table into new ones; pending plans first."""
    from penstock.engine.cli.commands.table_services.output import print_results
    from penstock.engine.table_services.clustering import cluster as cluster_table
    from penstock.writer.table_services.clustering import ClusteringSizes

    results = cluster_table(
        table,
        sort_by=sort_by or (),
        partitions=partition or (),
        sizes=ClusteringSizes(target_file_bytes=target_file_bytes, small_file_bytes=small_file_bytes),
        index=index,
        dry_run=dry_run,
        schedule_only=schedule_only,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
    )
    print_results(table, results, form, "nothing to cluster")
