"""Prints the results of table services."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table

if TYPE_CHECKING:
    from penstock.engine.table_services.results import ServiceResult
    from penstock.writer.table_services.cleaner_holds import CleanerHold


def print_results(table: str, results: Iterable[ServiceResult], form: ReportFormat, nothing: str) -> None:
    """Prints one line for each instant, or `nothing` if there is none; as JSON one object for the table."""
    fields = [asdict(result) for result in results]
    if form is ReportFormat.JSON:
        write_json({"table": table, "instants": fields})
        return
    if not fields:
        typer.echo(nothing)
        return
    names = ("instant", "state", "groups", "files", "read_bytes", "rows", "written_bytes", "partitions")
    write_text_table(names, [tuple(_text(entry[name]) for name in names) for entry in fields])


def print_holds(holds: Iterable[CleanerHold]) -> None:
    """Prints a line for each reader that was named to hold the cleaner."""
    from penstock.writer.table_services.cleaner_holds import hold_text

    for hold in holds:
        typer.echo(hold_text(hold))


def _text(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)
