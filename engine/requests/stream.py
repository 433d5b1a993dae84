"""Turns the options of a stream into its scope, its start and the limits of a micro-batch.

The caller stores the position of such a stream; consumer groups are in `requests.group`. Pure except for `describe`,
which fetches the table's description.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.engine.requests.batch import RANGES, Describe, check_order, request_of
from penstock.engine.requests.event_times import (
    alignment_of,
    check_alignment,
    check_event_time_options,
    event_time_rule,
)
from penstock.engine.requests.hybrid import changes_read, hybrid_of
from penstock.engine.requests.times import TimelineZone, range_bound
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.names import checked_name
from penstock.proto.model.positions import OnLostRange, Position
from penstock.proto.model.queries import Changes, Incremental, Latest, RangeQuery, RoundLimits
from penstock.proto.model.streams import (
    StartAfter,
    StartLatest,
    StartSnapshot,
    StreamScope,
    StreamStart,
)
from penstock.proto.options.registry import EntryPoint, ParsedOptions
from penstock.table.timeline.zones import named_zone


def check_streamable(options: ParsedOptions) -> None:
    """ConfigurationError for a query that cannot be streamed."""
    if "query" in options.explicit and options.query not in RANGES:
        raise ConfigurationError(
            f"query={options.query} cannot be streamed: a stream returns the rows of consecutive ranges "
            "(query=incremental), or their changes (query=cdc); leave query out, or read a batch"
        )


def check_stream_options(options: ParsedOptions) -> None:
    """ConfigurationError for options that exclude each other for a stream of any table."""
    check_streamable(options)
    if "cdcFormat" in options.explicit and options.query != "cdc":
        raise ConfigurationError("option cdcFormat is the format of changes: give query=cdc with it, or leave it out")
    _check_event_time(options)
    check_alignment(options)
    _check_new_columns(options)
    if options.stream_name:
        checked_name("option streamName", options.stream_name)
    hybrid_of(options, EntryPoint.STREAM, lost_range_policy(options))
    if options.timeline_timezone is not None:
        named_zone(options.timeline_timezone)
    if options.upto is not None and options.upto.strip() == "latest":
        raise ConfigurationError(
            "option upto=latest would change on every restart: give an order key; or leave upto out and use "
            "trigger(availableNow=True), which ends at the newest commit at its start"
        )


def _check_event_time(options: ParsedOptions) -> None:
    check_event_time_options(options)
    if not options.event_time:
        return
    if options.max_out_of_orderness_us is None:
        raise ConfigurationError(
            "option eventTime needs maxOutOfOrderness, such as 10 minutes: how late a row may be. It has no default, "
            "because Spark drops every row that is later"
        )
    if "endWatermark" in options.explicit and options.upto is None:
        raise ConfigurationError(
            "option endWatermark is the watermark of a stream that has ended: give upto with it, or leave it out"
        )


def _check_new_columns(options: ParsedOptions) -> None:
    if options.on_new_columns != "fail":
        return
    if options.columns and "columns" in options.explicit:
        raise ConfigurationError(
            "option onNewColumns=fail is for a stream of all columns: with the option columns a new column would not "
            "be read after a restart either; leave one of them out"
        )
    if options.query == "cdc" and options.cdc_format == "hudi":
        raise ConfigurationError(
            "option onNewColumns=fail with cdcFormat=hudi: `before` and `after` contain new columns anyway; leave "
            "onNewColumns out"
        )


def lost_range_policy(options: ParsedOptions) -> OnLostRange:
    """The policy that `onLostRange` or Spark's `failOnDataLoss` sets. ConfigurationError: the two disagree."""
    policy_name = options.on_lost_range
    if options.fail_on_data_loss is not None:
        spark_policy = "fail" if options.fail_on_data_loss else "earliest"
        if policy_name is not None and policy_name != spark_policy:
            raise ConfigurationError(
                f"failOnDataLoss={str(options.fail_on_data_loss).lower()} means onLostRange={spark_policy}, but "
                f"onLostRange is {policy_name}: give one of them"
            )
        policy_name = spark_policy
    policy = OnLostRange(policy_name or "fail")
    if policy is OnLostRange.SNAPSHOT and options.hybrid is None and options.query == "cdc":
        raise ConfigurationError(
            "option onLostRange=snapshot returns the rows of the table, not changes: give fail or earliest with "
            "query=cdc, or query=incremental"
        )
    return policy


def stream_scope(table: str, options: ParsedOptions, describe: Describe) -> StreamScope:
    """The scope of the stream, without its limits (`stream_limits`) and its target.

    The table's description is fetched only if an option needs it. ConfigurationError for options that exclude each
    other, in general or for this table.
    """
    check_stream_options(options)
    policy = lost_range_policy(options)
    request = request_of(table, _query(options), options)
    return StreamScope(
        request=replace(request, hybrid=hybrid_of(options, EntryPoint.STREAM, policy)),
        rule=event_time_rule(table, options, describe),
        upto=_upto(table, options, describe),
        on_lost_range=policy,
        end_watermark_us=options.end_watermark_us,
        name=options.stream_name,
        alignment=alignment_of(options),
    )


def stream_limits(options: ParsedOptions) -> RoundLimits:
    """The limits of one micro-batch."""
    return RoundLimits(
        max_commits=options.max_commits_per_trigger,
        max_files=options.max_files_per_trigger,
        max_bytes=options.max_bytes_per_trigger,
        max_rows=options.max_rows_per_trigger,
    )


def stream_start(table: str, options: ParsedOptions, describe: Describe) -> StreamStart:
    """The start of a stream without a checkpoint: `after`, by default a snapshot of the table.

    ConfigurationError: `after` is not a time, or is later than `upto`.
    """
    if options.after is None or options.after.strip() == "snapshot":
        return StartSnapshot()
    bound = _bound("after", options.after, table, options, describe)
    if isinstance(bound, Latest):
        return StartLatest()
    upto = _upto(table, options, describe)
    if upto is not None:
        check_order(table, options, bound, upto)
    return StartAfter(bound)


def _query(options: ParsedOptions) -> RangeQuery:
    changes = changes_read(options)
    return Incremental() if changes is None else Changes(changes)


def _upto(table: str, options: ParsedOptions, describe: Describe) -> Position | None:
    if options.upto is None or options.upto.strip() == "latest":
        return None
    bound = _bound("upto", options.upto, table, options, describe)
    return None if isinstance(bound, Latest) else bound


def _bound(name: str, text: str, table: str, options: ParsedOptions, describe: Describe) -> Position | Latest:
    return range_bound(
        name,
        text,
        lambda word: TimelineZone(table, describe().timeline_timezone, options.timeline_timezone).required(word),
    )
