"""`penstock tables`: lists, adds and removes the tables of a server, and lists its catalogs now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.commands.serve import milliseconds
from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import given_options, shell_of, show_help
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.proto.client.client import EnumeratorClient
    from penstock.proto.model.catalogs import CatalogStatus, ServedTable

app = typer.Typer(help="Tables of a server, and the catalogs that name them.")

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")
"""Options for the connection to the server."""

_Form = Annotated[ReportFormat, typer.Option("--format", help="Format of the output.")]
_TABLE_FIELDS = ("table", "source", "path", "error_code")
_CATALOG_FIELDS = ("catalog", "kind", "tables", "listed", "error_code", "problem_count")


@app.callback(invoke_without_command=True)
def tables(context: typer.Context) -> None:
    """Tables of a server, and the catalogs that name them."""
    show_help(context)


@app.command("list")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def list_(
    context: typer.Context,
    flags: dict[str, str | None],
    pattern: Annotated[
        str, typer.Argument(metavar="[PATTERN]", help="Only tables whose name matches it, such as 'sales.*'.")
    ] = "*",
    catalogs: Annotated[
        bool, typer.Option("--catalogs", help="The catalogs, and tables that are not served, instead of the tables.")
    ] = False,
    form: _Form = ReportFormat.TABLE,
) -> None:
    """List the tables that a server serves, by name, with the code of the error of each that cannot be opened."""
    listed = _client(context, flags).list_tables(pattern, catalogs=catalogs)
    if form is ReportFormat.JSON:
        write_json(
            {"catalogs": [catalog_fields(each) for each in listed.catalogs], "problems": list(listed.problems)}
            if catalogs
            else [table_fields(each) for each in listed.tables]
        )
    elif catalogs:
        _print_catalogs(listed.catalogs, listed.problems)
    else:
        rows = [tuple(str(table_fields(each)[name] or "-") for name in _TABLE_FIELDS) for each in listed.tables]
        write_text_table(_TABLE_FIELDS, rows)


@app.command("add")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def add(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The name under which the server serves it.")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="Its path or URI, as the server reads it.")],
    flags: dict[str, str | None],
    poll_interval: Annotated[
        str | None,
        typer.Option("--poll-interval", metavar="TIME", help="Interval between probes of the table, such as 5s."),
    ] = None,
) -> None:
    """Serve another table from now on. With `serve --state` it is served after a restart too."""
    poll_interval_ms = 0 if poll_interval is None else milliseconds("--poll-interval", poll_interval)
    _client(context, flags).add_table(table, path, poll_interval_ms=poll_interval_ms)


@app.command("remove")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def remove(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table's name on the server.")],
    flags: dict[str, str | None],
) -> None:
    """Stop serving a table that was added. Its groups keep their positions and wait until the name is served again."""
    _client(context, flags).remove_table(table)


@app.command("refresh")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def refresh(
    context: typer.Context,
    flags: dict[str, str | None],
    catalog: Annotated[str, typer.Argument(metavar="[CATALOG]", help="Only this catalog.")] = "",
    form: _Form = ReportFormat.TABLE,
) -> None:
    """List the catalogs of a server now, and print their state after the listings. Exit code 1 if one failed."""
    statuses = _client(context, flags).refresh_tables(catalog)
    if form is ReportFormat.JSON:
        write_json([catalog_fields(each) for each in statuses])
    else:
        _print_catalogs(statuses, ())
    if any(each.error_code for each in statuses):
        raise typer.Exit(1)


def table_fields(table: ServedTable) -> dict[str, object]:
    """The documented fields of a table in `tables list` (docs/reference/cli.md)."""
    return {
        "table": table.table,
        "source": table.source,
        "path": table.path,
        "error_code": table.error_code or None,
        "error": table.error or None,
    }


def catalog_fields(status: CatalogStatus) -> dict[str, object]:
    """The documented fields of a catalog in `tables list --catalogs` (docs/reference/cli.md)."""
    listed = None if status.listed_ms is None else datetime.fromtimestamp(status.listed_ms / 1000, UTC)
    return {
        "catalog": status.catalog,
        "kind": status.kind,
        "tables": status.tables,
        "listed": None if listed is None else listed.isoformat(timespec="seconds"),
        "error_code": status.error_code or None,
        "error": status.error or None,
        "problem_count": status.problem_count,
        "problems": list(status.problems),
    }


def _print_catalogs(statuses: Sequence[CatalogStatus], problems: Sequence[str]) -> None:
    rows = []
    for status in statuses:
        fields = catalog_fields(status)
        rows.append(tuple("-" if fields[name] is None else str(fields[name]) for name in _CATALOG_FIELDS))
    write_text_table(_CATALOG_FIELDS, rows)
    lines = [line for status in statuses for line in (*([status.error] if status.error else []), *status.problems)]
    if lines or problems:
        typer.echo()
        write_text_table(("problem",), [(line,) for line in (*lines, *problems)])


def _client(context: typer.Context, flags: dict[str, str | None]) -> EnumeratorClient:
    options = given_options(shell_of(context), flags, entry_point=EntryPoint.CONSUMER)
    if not options.server:
        raise ConfigurationError("the tables of a server are listed and changed at the server: give --server HOST:PORT")
    from penstock.proto.client.client import EnumeratorClient

    return EnumeratorClient(options.server, access=options.access)
