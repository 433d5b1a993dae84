"""Options of a stream: combinations, requests to the enumerator, start of the stream."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.requests.stream import check_stream_options, stream_limits, stream_scope, stream_start
from penstock.proto.errors import ConfigurationError, TableNotFound
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Changes, Incremental, RoundLimits
from penstock.proto.model.reports import TableDescription
from penstock.proto.model.streams import (
    Alignment,
    EventTimeRule,
    StartAfter,
    StartLatest,
    StartSnapshot,
    WatermarkFallback,
)
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options

UTC_TABLE = TableDescription(
    table="t",
    base_path="/t",
    hudi_name="t",
    table_type="MERGE_ON_READ",
    table_version=9,
    timeline_layout=2,
    timeline_timezone="UTC",
    merge_mode="EVENT_TIME_ORDERING",
    record_key_fields=("id",),
    partition_fields=(),
    ordering_fields=("ts",),
    schema_json="{}",
    newest=Position(InstantTime("20260131000000000")),
)

TIMED = {"eventTime": "ts", "maxOutOfOrderness": "1s"}


def never() -> TableDescription:
    raise AssertionError("no option needs the table's description")


def utc() -> TableDescription:
    return UTC_TABLE


def local() -> TableDescription:
    return replace(UTC_TABLE, timeline_timezone="LOCAL")


def options(**values: object) -> ParsedOptions:
    return parse_options(values, entry_point=EntryPoint.STREAM)


def at(digits: str) -> Position:
    return Position(InstantTime(digits))


def test_default_stream_reads_rows_without_an_end() -> None:
    scope = stream_scope("t", ParsedOptions(), never)
    assert scope.request.query == Incremental()
    assert (scope.rule, scope.upto, scope.limits, scope.on_lost_range) == (None, None, NO_LIMITS, OnLostRange.FAIL)


def test_stream_of_changes() -> None:
    scope = stream_scope("t", options(query="cdc", cdcFormat="hudi"), never)
    assert scope.request.query == Changes(ChangeFormat.HUDI)


def test_stream_with_event_time() -> None:
    parsed = options(
        eventTime="ts",
        maxOutOfOrderness="10 minutes",
        watermarkFallback="hold",
        upto="20260101000000",
        endWatermark="1h",
    )
    scope = stream_scope("t", parsed, never)
    assert scope.rule == EventTimeRule(max_out_of_orderness_us=600_000_000, fallback=WatermarkFallback.HOLD)
    assert (scope.request.event_time, scope.request.event_time_unit) == ("ts", "")
    assert (scope.upto, scope.end_watermark_us) == (at("20260101000000"), 3_600_000_000)
    units = options(eventTime="n", eventTimeUnit="ms", maxOutOfOrderness="0s")
    assert stream_scope("t", units, never).request.event_time_unit == "ms"
    assert stream_scope("t", options(eventTime="ts", maxOutOfOrderness="1s"), never).end_watermark_us is None


def test_stream_limits_are_those_of_a_micro_batch() -> None:
    parsed = options(maxCommitsPerTrigger="1", maxFilesPerTrigger="2", maxBytesPerTrigger="3", maxRowsPerTrigger="4")
    assert stream_limits(parsed) == RoundLimits(max_commits=1, max_files=2, max_bytes=3, max_rows=4)
    assert stream_limits(ParsedOptions()) == NO_LIMITS


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (None, StartSnapshot()),
        ("snapshot", StartSnapshot()),
        ("latest", StartLatest()),
        ("earliest", StartAfter(EARLIEST)),
        ("20260101000000", StartAfter(at("20260101000000"))),
    ],
)
def test_after_is_the_start_of_a_stream(after: str | None, expected: object) -> None:
    assert stream_start("t", ParsedOptions(after=after), never) == expected


def test_timestamps_are_converted_to_the_zone_of_the_timeline() -> None:
    parsed = ParsedOptions(after="2026-01-31T00:00:00.000+01:00", upto="2026-01-31T12:00:00.000Z")
    assert stream_start("t", parsed, utc) == StartAfter(at("20260130230000000"))
    assert stream_scope("t", parsed, utc).upto == at("20260131120000000")
    with pytest.raises(ConfigurationError, match="timelineTimezone"):
        stream_scope("t", parsed, local)


def test_name_and_alignment_of_options() -> None:
    given = TIMED | {"alignWith": "s", "maxDrift": "10 minutes", "idleTimeout": "30s", "streamName": "nightly"}
    scope = stream_scope("t", options(**given, server="127.0.0.1:1"), never)
    assert scope.name == "nightly"
    assert scope.alignment == Alignment(set="s", max_drift_us=600_000_000, idle_timeout_us=30_000_000)
    plain = stream_scope("t", options(**TIMED), never)
    assert (plain.name, plain.alignment) == ("", None)


@pytest.mark.parametrize(
    ("parsed", "policy"),
    [
        ({}, OnLostRange.FAIL),
        ({"failOnDataLoss": "true"}, OnLostRange.FAIL),
        ({"failOnDataLoss": "false"}, OnLostRange.EARLIEST),
        ({"failOnDataLoss": "false", "onLostRange": "earliest"}, OnLostRange.EARLIEST),
        ({"failOnDataLoss": "true", "onLostRange": "fail"}, OnLostRange.FAIL),
        ({"onLostRange": "snapshot"}, OnLostRange.SNAPSHOT),
    ],
)
def test_lost_range_policy_of_options(parsed: dict[str, str], policy: OnLostRange) -> None:
    assert stream_scope("t", options(**parsed), never).on_lost_range is policy


@pytest.mark.parametrize(
    ("parsed", "text"),
    [
        ({"query": "snapshot"}, "query=snapshot cannot be streamed"),
        ({"query": "read_optimized"}, "query=read_optimized cannot be streamed"),
        ({"cdcFormat": "rows"}, "give query=cdc with it"),
        ({"upto": "latest"}, "upto=latest.*availableNow"),
        ({"eventTime": "ts"}, "eventTime needs maxOutOfOrderness.*no default.*drops every row"),
        ({"maxOutOfOrderness": "1s"}, "maxOutOfOrderness .*give eventTime"),
        ({"idleTimeout": "1s"}, "idleTimeout .*give eventTime"),
        ({"watermarkFallback": "hold"}, "watermarkFallback .*give eventTime"),
        ({"endWatermark": "infinite", "upto": "20260101000000"}, "endWatermark .*give eventTime"),
        ({"eventTimeUnit": "ms"}, "eventTimeUnit .*give eventTime"),
        ({"alignWith": "s", "maxDrift": "1m", "server": "127.0.0.1:1"}, "alignWith .*give eventTime"),
        ({"maxDrift": "1m"}, "maxDrift .*give alignWith"),
        (TIMED | {"alignWith": "s", "server": "127.0.0.1:1"}, "alignWith needs maxDrift"),
        (
            TIMED | {"alignWith": "s", "maxDrift": "0s", "server": "127.0.0.1:1"},
            "alignWith needs maxDrift.*more than 0",
        ),
        (TIMED | {"alignWith": "s", "maxDrift": "1m"}, "alignWith needs server"),
        (TIMED | {"alignWith": "a b", "maxDrift": "1m", "server": "127.0.0.1:1"}, "option alignWith 'a b': expected"),
        ({"streamName": "<b>"}, "option streamName '<b>': expected letters"),
        ({"eventTime": "ts", "maxOutOfOrderness": "1s", "endWatermark": "1h"}, "endWatermark .*give upto"),
        ({"eventTime": "ts", "maxOutOfOrderness": "1s", "idleTimeout": "0s"}, "idleTimeout: got 0"),
        (
            {"eventTime": "ts", "maxOutOfOrderness": "1s", "query": "cdc", "cdcFormat": "hudi"},
            "cdcFormat=hudi.*use cdcFormat=rows",
        ),
        ({"onLostRange": "snapshot", "query": "cdc"}, "onLostRange=snapshot.*not changes"),
        ({"failOnDataLoss": "false", "onLostRange": "fail"}, "failOnDataLoss=false means onLostRange=earliest"),
        ({"failOnDataLoss": "true", "onLostRange": "snapshot"}, "failOnDataLoss=true means onLostRange=fail"),
        ({"onNewColumns": "fail", "columns": "id"}, "onNewColumns=fail is for a stream of all columns"),
        ({"onNewColumns": "fail", "query": "cdc", "cdcFormat": "hudi"}, "onNewColumns=fail with cdcFormat=hudi"),
        ({"timelineTimezone": "Mars/Olympus"}, "timelineTimezone"),
    ],
)
def test_stream_refuses_options_that_exclude_each_other(parsed: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        check_stream_options(options(**parsed))
    with pytest.raises(ConfigurationError, match=text):
        stream_scope("t", options(**parsed), never)


def test_upto_before_after_is_refused() -> None:
    parsed = ParsedOptions(after="20260102000000", upto="20260101000000")
    with pytest.raises(ConfigurationError, match="ends before it starts: got after=20260102000000"):
        stream_start("t", parsed, never)
    assert stream_start("t", replace(parsed, upto="20260102000000"), never) == StartAfter(at("20260102000000"))


class TestCommitTimes:
    """`watermarkFallback=commitTime` needs the zone of the timeline."""

    parsed = options(eventTime="ts", maxOutOfOrderness="1s", watermarkFallback="commitTime")

    def test_commit_times_of_a_local_timeline_are_refused(self) -> None:
        with pytest.raises(ConfigurationError, match=r"LOCAL.*timelineTimezone.*Europe/Berlin"):
            stream_scope("t", self.parsed, local)

    def test_timeline_timezone_is_the_zone_of_a_local_timeline(self) -> None:
        rule = stream_scope("t", replace(self.parsed, timeline_timezone="Europe/Berlin"), never).rule
        assert rule == EventTimeRule(
            max_out_of_orderness_us=1_000_000, fallback=WatermarkFallback.COMMIT_TIME, timezone="Europe/Berlin"
        )

    def test_utc_timeline_needs_no_timeline_timezone(self) -> None:
        rule = stream_scope("t", self.parsed, utc).rule
        assert rule is not None and rule.timezone == ""

    def test_table_that_does_not_exist_yet_counts_as_utc(self) -> None:
        def missing() -> TableDescription:
            raise TableNotFound("no table")

        rule = stream_scope("t", self.parsed, missing).rule
        assert rule is not None and rule.fallback is WatermarkFallback.COMMIT_TIME
