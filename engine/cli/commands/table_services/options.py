"""The options that commands of table services have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from penstock.engine.table_services.holding.readers import HoldOptions

Table = Annotated[str, typer.Argument(metavar="TABLE", help="Path of a table on a local file system.")]
Partitions = Annotated[
    list[str] | None,
    typer.Option("--partition", metavar="PATH", help="Only groups of this partition path; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and write nothing.")]
ScheduleOnly = Annotated[
    bool, typer.Option("--schedule-only", help="Write the plan, for another process to carry it out.")
]
RunOnly = Annotated[bool, typer.Option("--run-only", help="Carry out pending plans, and plan nothing.")]
Zone = Annotated[
    str, typer.Option("--timeline-timezone", metavar="ZONE", help="Zone of the writers of a LOCAL timeline.")
]
SoleWriter = Annotated[
    bool, typer.Option("--sole-writer", help="Nobody else writes the table: what is pending was killed.")
]
Form = Annotated[ReportFormat, typer.Option("--format", help="Format of the result.")]


def number(flag: str, text: str) -> object:
    """A flag for a number that has no value by default."""
    return typer.Option(flag, metavar="N", help=text, show_default=False)


Commits = Annotated[int | None, number("--commits", "A clean keeps the states at the newest commits; 10 by default.")]
Hours = Annotated[int | None, number("--hours", "A clean keeps the states of the last hours.")]
FileVersions = Annotated[int | None, number("--file-versions", "A clean keeps the newest slices of each file group.")]

with_connection_flags = with_registry_flags(
    only=("serverCa", "serverCert", "serverKey", "serverToken"), entry_point=EntryPoint.CONSUMER
)
"""Adds the flags of the connection to `Server`, beside its address. `hold_of_flags` takes their values."""
Server = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="HOST:PORT",
        help="The server of the groups and streams that hold the cleaner.",
        show_default=False,
    ),
]
HoldFor = Annotated[
    list[str] | None,
    typer.Option(
        "--hold-for",
        metavar="NAME",
        help="Keep what this consumer group or stream of --server has not read; may be repeated.",
    ),
]
HoldCheckpoints = Annotated[
    list[str] | None,
    typer.Option(
        "--hold-checkpoint",
        metavar="FOLDER",
        help="Keep what the Spark query of this checkpoint has not read; may be repeated.",
    ),
]
HoldAtMost = Annotated[
    str | None,
    typer.Option(
        "--hold-at-most",
        metavar="DURATION|N commits",
        help="A reader that has been behind for longer, such as 48h, is no longer kept for. No default.",
        show_default=False,
    ),
]
ServerTable = Annotated[
    str | None,
    typer.Option(
        "--server-table",
        metavar="NAME",
        help="The table's name on that server, if the server has it at another path.",
        show_default=False,
    ),
]


def hold_of_flags(
    context: typer.Context,
    flags: dict[str, str | None],
    hold_for: list[str] | None,
    hold_checkpoints: list[str] | None,
    hold_at_most: str | None,
    server: str | None,
    server_table: str | None,
) -> HoldOptions:
    """The readers that hold the cleaner, and the server that knows them."""
    from penstock.engine.cli.shell import given_options, shell_of
    from penstock.engine.table_services.holding.readers import checked_hold_options

    options = given_options(shell_of(context), {**flags, "server": server}, entry_point=EntryPoint.CONSUMER)
    return checked_hold_options(
        hold_for or (), hold_checkpoints or (), hold_at_most, options.server, server_table, options.access
    )


def connection_options(context: typer.Context, flags: dict[str, str | None], server: str | None) -> dict[str, str]:
    """The options with which the server is reached, by name; without a server those that were given."""
    from penstock.engine.cli.shell import given_options, shell_of

    if server is None:
        given = [name for name, value in flags.items() if value is not None]
        return dict.fromkeys(given, "")
    access = given_options(shell_of(context), {**flags, "server": server}, entry_point=EntryPoint.CONSUMER).access
    options = {"serverCa": access.ca, "serverCert": access.cert, "serverKey": access.key, "serverToken": access.token}
    return {name: value for name, value in options.items() if value}
