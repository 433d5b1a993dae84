"""The options that commands of table services have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from penstock.engine.cli.output.rows import ReportFormat

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Path of a table on a local file system.")]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="PATH", help="Only groups of this partition path; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and write nothing.")]
ScheduleOnly = Annotated[
    bool, typer.Option("--schedule-only", help="Write the plan, for another process to carry it out.")
]
Zone = Annotated[
    str, typer.Option("--timeline-timezone", metavar="ZONE", help="Zone of the writers of a LOCAL timeline.")
]
SoleWriter = Annotated[
    bool, typer.Option("--sole-writer", help="Nobody else writes the table: what is pending was killed.")
]
Form = Annotated[ReportFormat, typer.Option("--format", help="Format of the result.")]
