"""`penstock streams`: lists the streams that read through a server, such as Spark's queries."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import given_options, shell_of, show_help
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from penstock.proto.model.server_status import StreamStatus

app = typer.Typer(help="Streams that read through a server, such as Spark's queries.")

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")
"""Options for the connection to the server."""


@app.callback(invoke_without_command=True)
def streams(context: typer.Context) -> None:
    """Streams that read through a server, such as Spark's queries."""
    show_help(context)


@app.command("list")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def list_(
    context: typer.Context,
    flags: dict[str, str | None],
    table: Annotated[str, typer.Option("--table", metavar="TABLE", help="Only the streams of this table.")] = "",
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the output.")] = ReportFormat.TABLE,
) -> None:
    """List the streams, by table and name: positions, lag, time until data is lost, watermark and alignment.

    The server knows a stream from its calls: it forgets a named stream without a call for a day, one with a generated
    name after an hour, and all of them when it restarts, until they call again.
    """
    options = given_options(shell_of(context), flags, entry_point=EntryPoint.CONSUMER, table=table)
    if options.server is None:
        raise ConfigurationError("streams list needs a server, which the streams call: give --server HOST:PORT")
    from penstock.engine.group.connect import group_enumerator_for

    statuses = group_enumerator_for(options.server, options.access).describe_server(table).streams
    if form is ReportFormat.JSON:
        write_json([status_fields(status) for status in statuses])
        return
    names = ("table", "name", "state", "committed", "planned", "lag", "behind", "loss", "watermark", "alignment")
    write_text_table(names, [_cells(status) for status in statuses])


def status_fields(status: StreamStatus) -> dict[str, object]:
    """The documented fields of a stream in `streams list` (docs/reference/cli.md)."""
    lag, snapshot, kafka = status.lag, status.snapshot, status.kafka
    return {
        "table": status.table,
        "name": status.name,
        "state": status.state.value,
        "committed": str(status.committed),
        "planned": str(status.planned),
        "batches": status.batches,
        "silent_ms": status.silent_ms,
        "watermark_us": status.watermark_us,
        "snapshot": None if snapshot is None else {"done": snapshot.done, "total": snapshot.total},
        "kafka": None
        if kafka is None
        else {"phase": kafka.phase.value, "topic": kafka.topic, "lag_records": kafka.behind},
        "lag": None
        if lag is None
        else {
            "commits": lag.commits,
            "size_bytes": lag.size_bytes,
            "seconds": lag.seconds,
            "loss_commits": lag.loss_commits,
            "loss_seconds": lag.loss_seconds,
            "holds_cleaner": lag.holds_cleaner,
            "age_ms": status.lag_age_ms,
        },
        "error_code": status.error_code or None,
        "alignment": status.alignment or None,
        "ceiling_us": status.ceiling_us,
    }


def _cells(status: StreamStatus) -> tuple[str, ...]:
    lag = status.lag
    state = f"{status.state.value} {status.error_code}".strip()
    place = status.snapshot
    planned = str(status.planned)
    if place is not None and place.done < place.total:
        planned += f" ({place.done} of {place.total} splits)"
    return (
        status.table,
        status.name,
        state,
        str(status.committed),
        planned,
        "-" if lag is None else f"{lag.seconds:.0f} s",
        "-" if lag is None else f"{lag.commits} commits",
        _loss(status),
        event_time_text(status.watermark_us),
        _alignment(status),
    )


def _loss(status: StreamStatus) -> str:
    lag = status.lag
    if lag is None:
        return "-"
    parts = ["held"] if lag.holds_cleaner else []
    parts += [] if lag.loss_commits is None else [f"{lag.loss_commits} commits"]
    parts += [] if lag.loss_seconds is None else [f"{lag.loss_seconds:.0f} s"]
    return ", ".join(parts) or "-"


def _alignment(status: StreamStatus) -> str:
    if not status.alignment:
        return "-"
    return f"{status.alignment} up to {event_time_text(status.ceiling_us)}"


def event_time_text(at_us: int | None) -> str:
    """An event time as UTC text; microseconds as a number where no datetime can hold it."""
    if at_us is None:
        return "-"
    try:
        at = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=at_us)
    except OverflowError:
        return str(at_us)
    return at.replace(tzinfo=None).isoformat(sep=" ", timespec="seconds")
