"""`penstock splits`: plans a read, and lists its splits with the reason for each."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.flags import with_registry_flags
from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import local_options, shell_of, show_help, working

if TYPE_CHECKING:
    from penstock.engine.cli.output.explain import Explanation
    from penstock.engine.cli.output.pruning import Pruning
    from penstock.proto.model.splits import Plan, Split

app = typer.Typer(help="Splits of a read.")

_FLAGS_OF_READING = (
    "limit",
    "threads",
    "ordered",
    "server",
    "serverCa",
    "serverCert",
    "serverKey",
    "serverToken",
    "retryTimeout",
    "batchRows",
)
"""Options of `read` that do not affect an embedded plan."""


@app.callback(invoke_without_command=True)
def splits(context: typer.Context) -> None:
    """Splits of a read."""
    show_help(context)


@app.command("plan")
@with_registry_flags(but=_FLAGS_OF_READING)
def plan(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Path or URI of a table.")],
    flags: dict[str, str | None],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="Any option, by its name here or in Hudi (docs/reference/options.md).",
        ),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Explain the range, the reason for each split, and what the filter excludes."),
    ] = False,
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the plan.")] = ReportFormat.TABLE,
) -> None:
    """Plan a read and list its splits in commit order; read no rows. --after or --upto plan a range of instants."""
    shell = shell_of(context)
    table, options = local_options(shell, flags, option or (), table=table)
    if "query" not in options.explicit and options.explicit & {"after", "upto"}:
        options = replace(options, query="incremental")
    from penstock.engine.cli.output.explain import explained
    from penstock.engine.connect import embedded_enumerator
    from penstock.engine.requests.batch import plan_request

    enumerator = embedded_enumerator()
    with working(shell, "planning"):
        request = plan_request(table, options, lambda: enumerator.describe_table(table))
        planned = enumerator.plan(request)
        explanation = None
        if explain:
            whole = enumerator.plan(replace(request, where="")) if request.where else planned
            explanation = explained(table, planned, request, whole.splits)
    if form is ReportFormat.JSON:
        write_json(plan_fields(planned, explanation))
    else:
        _print(planned, explanation)


def plan_fields(planned: Plan, explanation: Explanation | None) -> dict[str, object]:
    """The documented fields of the plan (docs/reference/cli.md)."""
    from penstock.table.storage.uris import redacted_uri

    fields: dict[str, object] = {
        "table": redacted_uri(planned.scan.table),
        "base_path": redacted_uri(planned.scan.base_path),
        "after": str(planned.commit_range.after),
        "upto": str(planned.commit_range.upto),
        "columns": list(planned.scan.columns),
        "splits": [split_fields(split) for split in planned.splits],
        "size_bytes": sum(split.size_bytes for split in planned.splits),
    }
    if explanation is not None:
        fields["range"] = explanation.meaning
        fields["instants"] = [
            {
                "requested_time": item.requested_time,
                "order_key": item.order_key,
                "action": item.action,
                "what": item.what,
            }
            for item in explanation.instants
        ]
        fields["pruning"] = None if explanation.pruning is None else _pruning_fields(explanation.pruning)
        whys = [explanation.why[split.split_id] for split in planned.splits]
        fields["splits"] = [split_fields(split) | {"why": why} for split, why in zip(planned.splits, whys, strict=True)]
    return fields


def _pruning_fields(pruning: Pruning) -> dict[str, object]:
    return {
        "ruled_out": [
            {"reason": item.reason} | asdict(item.amount) | {"not_used": item.unused or None} for item in pruning.by
        ],
        "remaining": asdict(pruning.remaining),
    }


def split_fields(split: Split) -> dict[str, object]:
    """The documented fields of a split (docs/reference/cli.md)."""
    from penstock.engine.cli.output.explain import source_text
    from penstock.proto.model.changes import GroupChanges
    from penstock.proto.model.splits import EventTimeBounds, RowGroupRun

    bounds, part = split.event_time, split.part
    steps = part.steps if isinstance(part, GroupChanges) else ()
    return {
        "split_id": split.split_id,
        "order_key": str(split.order_key),
        "partition": split.partition,
        "partition_values": list(split.partition_values),
        "file_group": split.file_group,
        "base_file": None if split.base is None else {"path": split.base.path, "size_bytes": split.base.size_bytes},
        "base_instant": split.base_instant or None,
        "row_groups": [part.first, part.end] if isinstance(part, RowGroupRun) else None,
        "log_files": [{"path": log.path, "size_bytes": log.size_bytes} for log in split.logs],
        "changes": [
            {
                "instant": str(step.instant),
                "order_key": str(step.order_key),
                "told_by": source_text(step),
                "files": [file.path for file in step.files],
            }
            for step in steps
        ]
        or None,
        "event_time_us": [bounds.min_us, bounds.max_us] if isinstance(bounds, EventTimeBounds) else None,
        "size_bytes": split.size_bytes,
    }


def _print(planned: Plan, explanation: Explanation | None) -> None:
    if explanation is not None:
        typer.echo(explanation.meaning)
        typer.echo()
        instants = [
            (item.requested_time, item.order_key or "-", item.action, item.what) for item in explanation.instants
        ]
        write_text_table(("requested_time", "order_key", "action", "what"), instants)
        typer.echo()
    names = ["split_id", "order_key", "partition", "file_group", "base_file", "row_groups", "logs", "size_bytes"]
    rows = [_cells(split) for split in planned.splits]
    if explanation is not None:
        names.append("why")
        rows = [(*row, explanation.why[split.split_id]) for row, split in zip(rows, planned.splits, strict=True)]
    write_text_table(names, rows)
    if explanation is None:
        return
    pruning = explanation.pruning
    if pruning is not None:
        _print_pruning(pruning)
    if explanation.ruled_out:
        reasons = pruning.reasons if pruning is not None else {}
        typer.echo()
        typer.echo(f"{len(explanation.ruled_out)} more splits that the filter rules out:")
        write_text_table(
            ("split_id", "partition", "file_group", "reason"),
            [
                (s.split_id, s.partition or "-", s.file_group, reasons.get((s.partition, s.file_group), "-"))
                for s in explanation.ruled_out
            ],
        )


def _print_pruning(pruning: Pruning) -> None:
    amounts = [(item.reason, item.amount, item.unused) for item in pruning.by]
    rows = [
        (reason, *(str(value) for value in asdict(amount).values()), f"not used: {unused}" if unused else "-")
        for reason, amount, unused in (*amounts, ("remaining", pruning.remaining, ""))
    ]
    typer.echo()
    write_text_table(("ruled_out_by", "partitions", "file_groups", "files", "size_bytes", "note"), rows)


def _cells(split: Split) -> tuple[str, ...]:
    from penstock.proto.model.changes import GroupChanges
    from penstock.proto.model.splits import RowGroupRun

    if isinstance(split.part, GroupChanges):
        base_text, files = (
            f"changes of {len(split.part.steps)} commits",
            {f.path for s in split.part.steps for f in s.files},
        )
        key = (split.split_id, str(split.order_key), split.partition or "-", split.file_group)
        return (*key, base_text, "-", str(sum(".log." in path for path in files)), str(split.size_bytes))
    return (
        split.split_id,
        str(split.order_key),
        split.partition or "-",
        split.file_group,
        split.base.path.rpartition("/")[2] if split.base else "-",
        f"{split.part.first}..{split.part.end - 1}" if isinstance(split.part, RowGroupRun) else "all",
        str(len(split.logs)),
        str(split.size_bytes),
    )
