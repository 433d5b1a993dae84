"""`penstock table`: describes a table. `penstock timeline`: lists its active instants."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import given_options, registry_flag, shell_of, show_help
from penstock.proto.model.reports import TableDescription
from penstock.proto.retry import Retry

if TYPE_CHECKING:
    from penstock.engine.instants import TableInstant

app = typer.Typer(help="Properties of a table.")


@app.callback(invoke_without_command=True)
def table(context: typer.Context) -> None:
    """Properties of a table."""
    show_help(context)


@app.command("desc")
def desc(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Path or URI of a table; with --server its name.")],
    server: Annotated[str | None, registry_flag("server", metavar="HOST:PORT")] = None,
    server_ca: Annotated[str | None, registry_flag("serverCa", metavar="FILE")] = None,
    server_cert: Annotated[str | None, registry_flag("serverCert", metavar="FILE")] = None,
    server_key: Annotated[str | None, registry_flag("serverKey", metavar="FILE")] = None,
    server_token: Annotated[str | None, registry_flag("serverToken", metavar="FILE")] = None,
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the description.")] = ReportFormat.TABLE,
) -> None:
    """Describe a table: type, version, timeline, merging, keys, schema, newest position."""
    flags = {
        "server": server,
        "serverCa": server_ca,
        "serverCert": server_cert,
        "serverKey": server_key,
        "serverToken": server_token,
    }
    shell = shell_of(context)
    options = given_options(shell, flags, table=table)
    from penstock.engine.connect import enumerator_for

    description = enumerator_for(options.server, options.access).describe_table(
        shell.file.path_of(table, options.server)
    )
    fields = description_fields(description)
    if form is ReportFormat.JSON:
        write_json(fields)
        return
    schema = fields.pop("schema")
    write_text_table(("field", "value"), [(name, _text(value)) for name, value in fields.items()])
    typer.echo()
    columns = schema["fields"] if isinstance(schema, dict) else []
    write_text_table(("column", "type"), [(column["name"], _type(column["type"])) for column in columns])


def description_fields(description: TableDescription) -> dict[str, object]:
    """The documented fields of the description (docs/reference/cli.md)."""
    from penstock.table.storage.uris import redacted_uri

    return {
        "table": redacted_uri(description.table),
        "base_path": redacted_uri(description.base_path),
        "hudi_name": description.hudi_name,
        "table_type": description.table_type,
        "table_version": description.table_version,
        "timeline_layout": description.timeline_layout,
        "timeline_timezone": description.timeline_timezone,
        "merge_mode": description.merge_mode,
        "record_key_fields": list(description.record_key_fields),
        "partition_fields": list(description.partition_fields),
        "ordering_fields": list(description.ordering_fields),
        "newest": str(description.newest),
        "schema": json.loads(description.schema_json or "null"),
    }


def _type(avro: object) -> str:
    """A short name of an Avro type, without null: every column is nullable."""
    if isinstance(avro, list) and len(avro) == 2 and "null" in avro:
        return _type(avro[1] if avro[0] == "null" else avro[0])
    if isinstance(avro, dict) and "logicalType" in avro:
        size = f"({avro['precision']}, {avro['scale']})" if {"precision", "scale"} <= avro.keys() else ""
        return f"{avro['logicalType']}{size}"
    return avro if isinstance(avro, str) else json.dumps(avro)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def timeline(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Path or URI of a table; with --server its name.")],
    as_of: Annotated[str | None, registry_flag("asOf", metavar="TIME")] = None,
    timeline_timezone: Annotated[str | None, registry_flag("timelineTimezone", metavar="ZONE")] = None,
    server: Annotated[str | None, registry_flag("server", metavar="HOST:PORT")] = None,
    server_ca: Annotated[str | None, registry_flag("serverCa", metavar="FILE")] = None,
    server_cert: Annotated[str | None, registry_flag("serverCert", metavar="FILE")] = None,
    server_key: Annotated[str | None, registry_flag("serverKey", metavar="FILE")] = None,
    server_token: Annotated[str | None, registry_flag("serverToken", metavar="FILE")] = None,
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the list.")] = ReportFormat.TABLE,
) -> None:
    """List the active instants of a table by requested time, with their times in UTC if the zone is known."""
    flags = {
        "asOf": as_of,
        "timelineTimezone": timeline_timezone,
        "server": server,
        "serverCa": server_ca,
        "serverCert": server_cert,
        "serverKey": server_key,
        "serverToken": server_token,
    }
    shell = shell_of(context)
    options = given_options(shell, flags, table=table)
    from penstock.engine.connect import enumerator_for
    from penstock.engine.instants import list_instants

    enumerator = enumerator_for(options.server, options.access)
    retry = Retry(policy=options.retry_if_given)
    instants = list_instants(enumerator, shell.file.path_of(table, options.server), options, retry)
    rows = [instant_row(instant) for instant in instants]
    if form is ReportFormat.JSON:
        write_json(rows)
        return
    names = ("requested_time", "completion_time", "action", "state", "requested_at", "completed_at")
    write_text_table(names, [["-" if row[name] is None else str(row[name]) for name in names] for row in rows])


def instant_row(instant: TableInstant) -> dict[str, object]:
    """The documented fields of an instant (docs/reference/cli.md)."""
    times = {"requested_at": _utc(instant.requested_at), "completed_at": _utc(instant.completed_at)}
    return {**asdict(instant), **times}


def _utc(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
