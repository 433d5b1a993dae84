"""`penstock timeline`: lists the active instants of a table."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import local_options, registry_flag, shell_of

if TYPE_CHECKING:
    from penstock.table.timeline.active import Timeline


def timeline(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Path or URI of a table.")],
    timeline_timezone: Annotated[str | None, registry_flag("timelineTimezone", metavar="ZONE")] = None,
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the list.")] = ReportFormat.TABLE,
) -> None:
    """List the active instants of a table by requested time, with their times in UTC if the zone is known."""
    table, options = local_options(shell_of(context), {"timelineTimezone": timeline_timezone}, table=table)
    from penstock.engine.requests.times import TimelineZone
    from penstock.table.hudi_table import open_table

    opened = open_table(table)
    zone = TimelineZone(table, opened.properties.timezone, options.timeline_timezone).known()
    rows = instant_rows(opened.timeline(), zone)
    if form is ReportFormat.JSON:
        write_json(rows)
        return
    names = ("requested_time", "completion_time", "action", "state", "requested_at", "completed_at")
    write_text_table(names, [["-" if row[name] is None else str(row[name]) for name in names] for row in rows])


def instant_rows(timeline: Timeline, zone: tzinfo | None) -> list[dict[str, object]]:
    """The documented fields of each instant (docs/reference/cli.md)."""
    from penstock.engine.table.instants import instants_of

    rows: list[dict[str, object]] = []
    for instant in instants_of(timeline, zone):
        times = {"requested_at": _text(instant.requested_at), "completed_at": _text(instant.completed_at)}
        rows.append({**asdict(instant), **times})
    return rows


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
