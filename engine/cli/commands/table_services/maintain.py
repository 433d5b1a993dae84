"""`penstock maintain`: runs the services of a table that are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

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
    SoleWriter,
    Table,
    Zone,
    hold_of_flags,
    number,
    with_connection_flags,
)
from penstock.engine.cli.commands.table_services.output import print_holds
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table

if TYPE_CHECKING:
    from penstock.engine.table_services.maintain import Failure, MaintainResult


_CompactAfter = Annotated[int | None, number("--compact-after", "Compact after so many delta commits; 5 by default.")]
_ClusterAfter = Annotated[int | None, number("--cluster-after", "Cluster after so many writes; by default never.")]
_SortBy = Annotated[
    list[str] | None,
    typer.Option("--sort-by", metavar="COLUMN", help="Column by which a clustering sorts; may be repeated."),
]
_Index = Annotated[
    str | None, typer.Option("--index", help="Index of the table's writers, if the table does not record it.")
]
_KeepMin = Annotated[int | None, number("--keep-min", "Completed writes that an archival leaves; 20 by default.")]
_KeepMax = Annotated[
    int | None, number("--keep-max", "Completed writes above which an archival is due; 30 by default.")
]
_Skip = Annotated[
    list[str] | None,
    typer.Option("--skip", metavar="compact|cluster|clean|archive", help="Leave this service out; may be repeated."),
]


@with_connection_flags
def maintain(
    context: typer.Context,
    table: Table,
    flags: dict[str, str | None],
    compact_after: _CompactAfter = None,
    cluster_after: _ClusterAfter = None,
    sort_by: _SortBy = None,
    index: _Index = None,
    commits: Commits = None,
    hours: Hours = None,
    file_versions: FileVersions = None,
    keep_min: _KeepMin = None,
    keep_max: _KeepMax = None,
    skip: _Skip = None,
    hold_for: HoldFor = None,
    hold_checkpoint: HoldCheckpoints = None,
    hold_at_most: HoldAtMost = None,
    server: Server = None,
    server_table: ServerTable = None,
    dry_run: DryRun = False,
    timeline_timezone: Zone = "",
    sole_writer: SoleWriter = False,
    form: Form = ReportFormat.TABLE,
) -> None:
    """Run the services of a table that are due: compaction, clustering, clean, archival."""
    from penstock.engine.table_services.maintain import maintenance, raise_failures
    from penstock.writer.table_services.maintenance import MaintenanceOptions

    run = maintenance(
        table,
        MaintenanceOptions(
            compact_after=compact_after,
            cluster_after=cluster_after,
            sort_by=sort_by or None,
            commits=commits,
            hours=hours,
            file_versions=file_versions,
            keep_min=keep_min,
            keep_max=keep_max,
        ),
        index=index,
        skip=skip or (),
        hold=hold_of_flags(context, flags, hold_for, hold_checkpoint, hold_at_most, server, server_table),
        dry_run=dry_run,
        timeline_timezone=timeline_timezone,
        sole_writer=sole_writer,
    )
    _print(table, run.result(), run.failures, form)
    raise_failures(table, run.result(), run.failures)


def _print(table: str, result: MaintainResult, failures: list[Failure], form: ReportFormat) -> None:
    """Prints a line for each service; as JSON one object, with the errors of failed services."""
    from dataclasses import asdict

    if form is ReportFormat.JSON:
        failed = [
            {"service": failure.service.value, "code": failure.error.code, "error": str(failure.error)}
            for failure in failures
        ]
        write_json({"table": table, **asdict(result), "failures": failed})
        return
    reasons = result.reasons
    rows = [("compact", one.instant, f"{one.groups} file groups, {one.rows} rows") for one in result.compactions or ()]
    rows += [("cluster", one.instant, f"{one.groups} file groups, {one.rows} rows") for one in result.clusterings or ()]
    if (clean := result.clean) is not None:
        instants = (*clean.carried_on, *filter(None, [clean.instant]))
        rows.append(("clean", ", ".join(instants), f"{len(clean.files)} files deleted"))
    if (archive := result.archive) is not None:
        span = f"{archive.instants[0]} to {archive.instants[-1]}"
        rows.append(("archive", span, f"{len(archive.instants)} instants; {archive.kept} writes stay"))
    rows += [(service, "-", reason) for service, reason in reasons.items()]
    order = ("compact", "cluster", "clean", "archive")
    shown = [(name, instant or "-", f"would: {text}" if result.dry_run and name not in reasons else text)
             for name, instant, text in rows]  # fmt: skip
    write_text_table(("service", "instant", "result"), sorted(shown, key=lambda row: order.index(row[0])))
    print_holds(result.holds)
