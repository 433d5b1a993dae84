"""`penstock offsets`: the Kafka offsets at which a table that is filled from a topic ends, and their source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.engine.cli.output.rows import ReportFormat, write_json, write_text_table
from penstock.engine.cli.shell import local_options, shell_of, show_help, working
from penstock.enumerator.handover.offset_formats import Format
from penstock.proto.errors import ConfigurationError

if TYPE_CHECKING:
    from penstock.enumerator.handover.commit_offsets import NamedKey
    from penstock.enumerator.handover.offset_fallbacks import HandOver
    from penstock.enumerator.handover.offset_search import Step
    from penstock.enumerator.handover.table_commits import CommitHistory

app = typer.Typer(help="Offsets of a table in the Kafka topic that fills it.")


@app.callback(invoke_without_command=True)
def offsets(context: typer.Context) -> None:
    """Offsets of a table in the Kafka topic that fills it."""
    show_help(context)


@app.command("resolve")
def resolve(
    context: typer.Context,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Path or URI of a table.")],
    instant: Annotated[
        str | None,
        typer.Argument(metavar="[INSTANT]", help="Requested time of a completed write; default: the newest."),
    ] = None,
    topic: Annotated[str, typer.Option("--topic", help="The topic, if the table and its keys do not name it.")] = "",
    key: Annotated[
        str | None, typer.Option("--key", help="A key of the commit metadata that holds the offsets.")
    ] = None,
    value_format: Annotated[Format | None, typer.Option("--key-format", help="Format of the value of --key.")] = None,
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            metavar="[ID=]FOLDER",
            help="Checkpoint of the Spark query that fills the table. With several queries, give each with its ID: "
            "this states that they read disjoint partitions.",
        ),
    ] = None,
    others_elsewhere: Annotated[
        bool,
        typer.Option(
            "--others-read-other-topics", help="State that commits without a known position do not read the topic."
        ),
    ] = False,
    starting_offsets: Annotated[
        str | None,
        typer.Option(
            "--starting-offsets",
            metavar="OFFSETS",
            help='The offsets to use if no commit has any: {"topic":{"0":123}} or topic,0:123.',
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain the result for each commit.")] = False,
    form: Annotated[ReportFormat, typer.Option("--format", help="Format of the result.")] = ReportFormat.TABLE,
) -> None:
    """Resolve the next offset of each partition at an instant. The table contains exactly the records below it."""
    shell = shell_of(context)
    table, _ = local_options(shell, {}, table=table)
    from penstock.engine.requests.hybrid import explicit_offsets
    from penstock.enumerator.handover.offset_fallbacks import GivenOffsets, hand_over
    from penstock.enumerator.handover.offset_search import WriterHints, find_offsets
    from penstock.enumerator.handover.spark_checkpoints import SparkCheckpoints
    from penstock.enumerator.handover.table_commits import commits_before
    from penstock.proto.options.kafka import checkpoints_of
    from penstock.table.hudi_table import open_table

    folders = dict(checkpoints_of("--checkpoint", checkpoint or ()))
    unnamed = folders.pop("", None)
    hints = WriterHints(
        topic=_topic(topic),
        named=_named(key, value_format),
        sinks=tuple(folders),
        others_read_topic=not others_elsewhere,
    )
    given: tuple[GivenOffsets, ...] = ()
    if starting_offsets is not None:
        given = (GivenOffsets(explicit_offsets("--starting-offsets", starting_offsets, hints.topic)),)
    with working(shell, "searching the commits"):
        history = commits_before(open_table(table), instant)
        search = find_offsets(history.active, history.archived, hints, SparkCheckpoints(folders, unnamed))
    outcome = hand_over(search, given, hints.topic)
    if form is ReportFormat.JSON:
        write_json(handover_fields(table, history, outcome, search.steps if explain else None))
    else:
        _print(table, history, outcome, search.steps if explain else None)


def handover_fields(
    table: str, history: CommitHistory, outcome: HandOver, steps: Sequence[Step] | None
) -> dict[str, object]:
    """The documented fields of a hand-over (docs/reference/cli.md)."""
    from penstock.enumerator.handover.explain import describe_step, notes
    from penstock.enumerator.handover.offset_fallbacks import GivenOffsets, GroupOffsets
    from penstock.enumerator.handover.offset_search import OffsetsFound
    from penstock.table.storage.uris import redacted_uri

    match outcome.origin:
        case OffsetsFound(sources=sources):
            origin = "commit"
        case GroupOffsets():
            origin, sources = "group", ()
        case GivenOffsets():
            origin, sources = "given", ()
        case _:
            origin, sources = "timestamp", ()
    fields: dict[str, object] = {
        "table": redacted_uri(table),
        "instant": history.instant,
        "order_key": history.order_key,
        "topic": outcome.offsets.topic,
        "offsets": {str(partition): offset for partition, offset in outcome.offsets.offsets},
        "origin": origin,
        "guarantee": outcome.guarantee.value,
        "sources": [
            {
                "instant": source.commit.instant,
                "order_key": source.commit.order_key,
                "archived": source.commit.archived,
                "writer": str(source.reached.writer),
                "key": source.reached.key,
                "offsets": {str(partition): offset for partition, offset in source.reached.offsets.offsets},
            }
            for source in sources
        ],
        "notes": notes(outcome),
    }
    if steps is not None:
        fields["steps"] = [
            {
                "instant": step.commit.instant,
                "order_key": step.commit.order_key,
                "action": step.commit.action,
                "operation": step.commit.operation,
                "archived": step.commit.archived,
                "what": describe_step(step),
            }
            for step in steps
        ]
    return fields


def _print(table: str, history: CommitHistory, outcome: HandOver, steps: Sequence[Step] | None) -> None:
    from penstock.enumerator.handover.explain import describe_origin, describe_step, notes
    from penstock.table.storage.uris import redacted_uri

    rows = [
        ("table", redacted_uri(table)),
        ("instant", history.instant),
        ("order_key", history.order_key),
        ("topic", outcome.offsets.topic),
        ("from", describe_origin(outcome.origin)),
        ("guarantee", outcome.guarantee.value),
        *(("note", note) for note in notes(outcome)),
    ]
    write_text_table(("field", "value"), rows)
    typer.echo()
    write_text_table(("partition", "next_offset"), [(str(p), str(offset)) for p, offset in outcome.offsets.offsets])
    if steps is not None:
        typer.echo()
        names = ("instant", "order_key", "action", "archived", "what")
        described = [(step.commit, describe_step(step)) for step in steps]
        cells = [(c.instant, c.order_key, c.action, "yes" if c.archived else "no", what) for c, what in described]
        write_text_table(names, cells)


def _topic(topic: str) -> str:
    from penstock.enumerator.handover.offsets import MalformedOffsets, check_topic

    try:
        return check_topic(topic) if topic else ""
    except MalformedOffsets as error:
        raise ConfigurationError(f"--topic: {error}") from None


def _named(key: str | None, value_format: Format | None) -> NamedKey | None:
    from penstock.enumerator.handover.commit_offsets import NEVER_A_POSITION, NamedKey

    if (key is None) != (value_format is None):
        raise ConfigurationError("--key names the offsets and --key-format their format: give both")
    if key is None or value_format is None:
        return None
    if not key or key in NEVER_A_POSITION:
        raise ConfigurationError(f"--key {key!r}: this key never holds a position")
    return NamedKey(key, value_format)
