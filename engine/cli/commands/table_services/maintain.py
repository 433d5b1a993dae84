"""`penstock maintain`: runs the services of a table that are due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.commands.table_services.options import DryRun, Form, SoleWriter, Table, Zone
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table

if TYPE_CHECKING:
    from penstock.engine.table_services.maintenance.maintain import Failure, MaintainResult


def _number(flag: str, text: str) -> object:
    return typer.Option(flag, metavar="N", help=text, show_default=False)


def maintain(
    table: Table,
    compact_after: Annotated[
        int | None, _number("--compact-after", "Compact after so many delta commits; 5 by default.")
    ] = None,
    cluster_after: Annotated[
        int | None, _number("--cluster-after", "Cluster after so many writes; by default never.")
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option("--sort-by", metavar="COLUMN", help="Column by which a clustering sorts; may be repeated."),
    ] = None,
    index: Annotated[
        str | None, typer.Option("--index", help="Index of the table's writers, if the table does not record it.")
    ] = None,
    commits: Annotated[
        int | None, _number("--commits", "A clean keeps the states at the newest commits; 10 by default.")
    ] = None,
    hours: Annotated[int | None, _number("--hours", "A clean keeps the states of the last hours.")] = None,
    file_versions: Annotated[
        int | None, _number("--file-versions", "A clean keeps the newest slices of each file group.")
    ] = None,
    keep_min: Annotated[
        int | None, _number("--keep-min", "Completed writes that an archival leaves; 20 by default.")
    ] = None,
    keep_max: Annotated[
        int | None, _number("--keep-max", "Completed writes above which an archival is due; 30 by default.")
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            "--skip", metavar="compact|cluster|clean|archive", help="Leave this service out; may be repeated."
        ),
    ] = None,
    dry_run: DryRun = False,
    timeline_timezone: Zone = "",
    sole_writer: SoleWriter = False,
    form: Form = ReportFormat.TABLE,
) -> None:
    """Run the services of a table that are due: compaction, clustering, clean, archival."""
    from penstock.engine.table_services.maintenance.maintain import maintenance, raise_failures
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
