"""`penstock timeline`: lists the active instants of a table."""

from __future__ import annotations

from datetime import tzinfo
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
    return [
        {
            "requested_time": str(instant.requested_time),
            "completion_time": _text(instant.completion_time),
            "order_key": str(timeline.order_key(instant)) if instant.is_completed else None,
            "action": instant.action.value,
            "state": instant.state.value,
            "requested_at": _utc(instant.requested_time, zone),
            "completed_at": _utc(instant.completion_time, zone),
            "file": instant.file_name,
        }
        for instant in timeline.instants
    ]


def _text(value: str | None) -> str | None:
    return None if value is None else str(value)


def _utc(instant: str | None, zone: tzinfo | None) -> str | None:
    from penstock.engine.requests.times import utc_of

    moment = utc_of(instant, zone) if instant is not None and zone is not None else None
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
