"""`penstock groups`: lists, describes, resets and deletes the consumer groups of a server."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.moments import moment
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import given_options, shell_of, show_help
from penstock.proto.errors import InvariantViolation
from penstock.proto.model.queries import is_pattern
from penstock.proto.options.registry import EntryPoint

if TYPE_CHECKING:
    from penstock.engine.group.connect import GroupEnumerator
    from penstock.proto.model.groups import GroupAlignment, GroupDescription, GroupSummary, ResetOutcome
    from penstock.proto.options.registry import ParsedOptions

app = typer.Typer(help="Consumer groups of a server.")

_CONNECTING = ("server", "serverCa", "serverCert", "serverKey", "serverToken")
"""Options for the connection to the server."""

_Form = Annotated[ReportFormat, typer.Option("--format", help="Format of the output.")]
_Table = Annotated[
    str, typer.Argument(metavar="TABLE", help="The table's name on the server; the pattern of a group over tables.")
]
_Group = Annotated[str, typer.Argument(metavar="GROUP", help="The group's name.")]


@app.callback(invoke_without_command=True)
def groups(context: typer.Context) -> None:
    """Consumer groups of a server."""
    show_help(context)


@app.command("list")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def list_(
    context: typer.Context,
    flags: dict[str, str | None],
    table: Annotated[str, typer.Option("--table", metavar="TABLE", help="Only the groups of this table.")] = "",
    form: _Form = ReportFormat.TABLE,
) -> None:
    """List the groups, by table and name. The table does not list the single tables of a group over tables: see
    `describe`, --table or the JSON."""
    enumerator, _ = _enumerator(context, flags, table)
    groups = enumerator.list_groups(table)
    if form is ReportFormat.JSON:
        write_json([summary_fields(summary) for summary in groups])
        return
    names = ("table", "group", "state", "committed", "planned", "readers")
    listed = [summary_fields(summary) for summary in groups if table or not summary.over]
    for fields in listed:
        fields["table"] = f"{fields['table']} ({fields['tables']} tables)" if fields["tables"] else fields["table"]
    write_text_table(names, [tuple(str(fields[name]) for name in names) for fields in listed])


@app.command("describe")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def describe(
    context: typer.Context,
    table: _Table,
    group: _Group,
    flags: dict[str, str | None],
    tables: Annotated[
        int, typer.Option("--tables", metavar="N", min=0, help="Most tables shown of a group over tables.")
    ] = 50,
    form: _Form = ReportFormat.TABLE,
) -> None:
    """Describe a group: its position, its lag, its readers and their splits; for a group over tables (its pattern as
    TABLE) also its tables, those with errors and the largest lag first."""
    enumerator, _ = _enumerator(context, flags, table)
    fields = description_fields(enumerator.describe_group(table, group))
    if form is ReportFormat.JSON:
        write_json(fields)
        return
    readers = fields.pop("members")
    if not isinstance(readers, list):
        raise InvariantViolation(f"members of group {group} are not a list")
    parts = ("lag", "scope", "kafka", "snapshot", "alignment")
    lag, scope, kafka, snapshot, alignment = (fields.pop(name) for name in parts)
    of_tables, number = fields.pop("by_table"), fields["tables"]
    if fields["tables"] is None and fields["over"] is None:
        del fields["tables"], fields["over"]
    if fields["snapshot_at"] is None:
        del fields["snapshot_at"]
    partitions = kafka.pop("partitions") if isinstance(kafka, dict) else []
    kafka_rows = _rows("kafka ", kafka) if kafka is not None else []
    snapshot_rows = _rows("snapshot ", snapshot) if snapshot is not None else []
    aligned_rows = _rows("alignment ", alignment) if alignment is not None else []
    rows = [
        *_rows("", fields),
        *_rows("lag ", lag),
        *kafka_rows,
        *snapshot_rows,
        *aligned_rows,
        *_rows("scope ", scope),
    ]
    write_text_table(("field", "value"), rows)
    typer.echo()
    if partitions:
        columns = ("partition", "start", "next", "lag_records")
        write_text_table(columns, [tuple(_text(partition[name]) for name in columns) for partition in partitions])
        typer.echo()
    if isinstance(of_tables, list) and of_tables:
        _write_tables(of_tables[:tables], number if isinstance(number, int) else 0)
    names = ("reader_id", "epoch", "held_splits", "lease_left_ms")
    write_text_table(names, [tuple(str(reader[name]) for name in names) for reader in readers])


_TABLE_COLUMNS: Final = ("table", "state", "committed", "lag_commits", "lag_seconds", "pending_splits", "held_splits",
                         "error_code")  # fmt: skip


def _write_tables(tables: list[dict[str, object]], number: int) -> None:
    write_text_table(_TABLE_COLUMNS, [tuple(_text(each[name]) for name in _TABLE_COLUMNS) for each in tables])
    if number > len(tables):
        typer.echo(f"and {number - len(tables)} more tables (--tables N)")
    typer.echo()


@app.command("reset")
@with_registry_flags(only=(*_CONNECTING, "timelineTimezone"), entry_point=EntryPoint.CONSUMER)
def reset(
    context: typer.Context,
    table: _Table,
    group: _Group,
    flags: dict[str, str | None],
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="earliest|latest|snapshot|INSTANT|TIMESTAMP", help="Where the group continues (exclusive)."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what the reset would do; change nothing.")] = False,
    form: _Form = ReportFormat.TABLE,
) -> None:
    """Move a group to another position. Its readers are fenced and their splits dropped. A stopped group continues."""
    enumerator, options = _enumerator(context, flags, table)
    from penstock.engine.requests.group import group_start, no_table_of

    describe = partial(no_table_of if is_pattern(table) else enumerator.describe_table, table)
    start = group_start("to", to, table, options.timeline_timezone, describe)
    fields = outcome_fields(table, group, enumerator.reset_group(table, group, start, dry_run=dry_run))
    if form is ReportFormat.JSON:
        write_json(fields)
    else:
        write_text_table(("field", "value"), _rows("", fields))


@app.command("delete")
@with_registry_flags(only=_CONNECTING, entry_point=EntryPoint.CONSUMER)
def delete(context: typer.Context, table: _Table, group: _Group, flags: dict[str, str | None]) -> None:
    """Delete a group that has no readers. A reader that joins under its name later starts a new group."""
    enumerator, _ = _enumerator(context, flags, table)
    enumerator.delete_group(table, group)


def _enumerator(
    context: typer.Context, flags: dict[str, str | None], table: str
) -> tuple[GroupEnumerator, ParsedOptions]:
    options = given_options(shell_of(context), flags, entry_point=EntryPoint.CONSUMER, table=table)
    from penstock.engine.group.connect import group_enumerator_for

    return group_enumerator_for(options.server, options.access), options


def summary_fields(summary: GroupSummary) -> dict[str, object]:
    """The documented fields of a group in `groups list` (docs/reference/cli.md)."""
    return {
        "table": summary.table,
        "group": summary.group,
        "state": summary.state,
        "committed": str(summary.committed),
        "planned": str(summary.planned),
        "readers": summary.readers,
        "tables": summary.tables or None,
        "over": summary.over or None,
    }


def description_fields(description: GroupDescription) -> dict[str, object]:
    """The documented fields of a group in `groups describe` (docs/reference/cli.md)."""
    lag, scope, limits = description.lag, description.scope, description.limits
    return summary_fields(description.summary) | {
        "rounds": description.rounds,
        "pending_splits": description.pending_splits,
        "held_splits": description.held_splits,
        "error_code": description.error_code or None,
        "error": description.error or None,
        "lag": None
        if lag is None
        else {
            "commits": lag.commits,
            "size_bytes": lag.size_bytes,
            "seconds": lag.seconds,
            "loss_commits": lag.loss_commits,
            "loss_seconds": lag.loss_seconds,
            "holds_cleaner": lag.holds_cleaner,
        },
        "kafka": _kafka_fields(description),
        "watermark": None if description.watermark_us is None else moment(description.watermark_us // 1000),
        "alignment": alignment_fields(description.alignment),
        "snapshot": None
        if description.snapshot is None
        else {"planned_splits": description.snapshot.done, "splits": description.snapshot.total},
        "snapshot_at": None if description.snapshot_at is None else str(description.snapshot_at),
        "scope": {
            "query": _query(description),
            "columns": list(scope.request.columns),
            "where": scope.request.where,
            "upto": None if scope.upto is None else str(scope.upto),
            "on_lost_range": scope.on_lost_range.value,
            "event_time": scope.request.event_time or None,
            "max_out_of_orderness_seconds": None if scope.rule is None else scope.rule.max_out_of_orderness_us / 1e6,
            "idle_timeout_seconds": None if scope.idle_timeout_us is None else scope.idle_timeout_us / 1e6,
            "align_with": None if scope.alignment is None else scope.alignment.set,
            "max_drift_seconds": None if scope.alignment is None else scope.alignment.max_drift_us / 1e6,
            "max_commits": limits.max_commits,
            "max_files": limits.max_files,
            "max_bytes": limits.max_bytes,
            "max_rows": limits.max_rows,
        },
        "by_table": [
            {
                "table": each.summary.table,
                "state": each.summary.state,
                "committed": str(each.summary.committed),
                "planned": str(each.summary.planned),
                "lag_commits": None if each.lag is None else each.lag.commits,
                "lag_seconds": None if each.lag is None else each.lag.seconds,
                "pending_splits": each.pending_splits,
                "held_splits": each.held_splits,
                "watermark": None if each.watermark_us is None else moment(each.watermark_us // 1000),
                "held": None if each.alignment is None else each.alignment.held,
                "error_code": each.error_code or None,
            }
            for each in description.tables
        ],
        "members": [
            {
                "reader_id": reader.reader_id,
                "epoch": reader.epoch,
                "held_splits": reader.held_splits,
                "lease_left_ms": reader.lease_left_ms,
            }
            for reader in description.readers
        ],
    }


def alignment_fields(alignment: GroupAlignment | None) -> dict[str, object] | None:
    """The documented fields of how far a group may read (docs/reference/cli.md); None if it is not aligned."""
    if alignment is None:
        return None
    ceiling_us = alignment.ceiling_us
    until = None if ceiling_us is None else moment(ceiling_us // 1000)
    return {"set": alignment.set, "until": until, "held": alignment.held}


def _kafka_fields(description: GroupDescription) -> dict[str, object] | None:
    """The phase of a hybrid group; after the lake also the hand-over point and the offsets of each partition."""
    hybrid, place = description.scope.request.hybrid, description.kafka
    if hybrid is None:
        return None
    fields: dict[str, object] = {
        "phase": "lake" if place is None else place.phase.value,
        "mode": hybrid.mode.value,
        "topic": hybrid.topic,
    }
    if place is None:
        return fields | {"topic_id": None, "instant": None, "position": None, "lag_records": None, "partitions": []}
    starts = dict(place.starts)
    return fields | {
        "topic_id": place.topic_id or None,
        "instant": str(place.instant),
        "position": str(place.lake),
        "lag_records": place.behind,
        "partitions": [
            {
                "partition": item.partition,
                "start": starts.get(item.partition),
                "next": item.next,
                "lag_records": item.behind,
            }
            for item in place.progress
        ],
    }


def outcome_fields(table: str, group: str, outcome: ResetOutcome) -> dict[str, object]:
    """The documented fields of a reset, done or dry (docs/reference/cli.md)."""
    return {
        "table": table,
        "group": group,
        "before": str(outcome.before),
        "after": str(outcome.after),
        "dropped_splits": outcome.dropped_splits,
        "dry_run": outcome.dry_run,
    }


def _query(description: GroupDescription) -> str:
    from penstock.proto.model.queries import Changes

    query = description.scope.request.query
    return f"cdc ({query.format.value})" if isinstance(query, Changes) else "incremental"


def _rows(prefix: str, fields: object) -> list[tuple[str, str]]:
    if not isinstance(fields, dict):
        return [(prefix.strip(), "unknown")]
    return [(prefix + name, _text(value)) for name, value in fields.items()]


def _text(value: object) -> str:
    if value is None:
        return "-"
    return ", ".join(map(str, value)) or "-" if isinstance(value, list) else str(value)
