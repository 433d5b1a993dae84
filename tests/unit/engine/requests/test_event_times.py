"""Options of event times of a consumer group: its rule of watermarks, and its start with a snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.requests.group import group_spec, group_start, spec_over_tables
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.groups import StartSnapshot
from penstock.proto.model.streams import Alignment, EventTimeRule, WatermarkFallback
from penstock.proto.options.registry import EntryPoint, ParsedOptions, parse_options
from tests.unit.engine.requests.test_stream import UTC_TABLE, local, never, utc


def options(**values: object) -> ParsedOptions:
    """The options of a consumer."""
    return parse_options({"group": "g", "readerId": "r", **values}, entry_point=EntryPoint.CONSUMER)


def test_group_with_event_times_has_a_rule_and_an_idle_timeout() -> None:
    given = options(eventTime="ts", maxOutOfOrderness="10 minutes", idleTimeout="1 hour", watermarkFallback="hold")
    scope = group_spec("t", given, never).scope
    assert scope.rule == EventTimeRule(max_out_of_orderness_us=600_000_000, fallback=WatermarkFallback.HOLD)
    assert (scope.request.event_time, scope.idle_timeout_us) == ("ts", 3_600_000_000)


ALIGNED = {"eventTime": "ts", "maxOutOfOrderness": "1s", "alignWith": "s", "maxDrift": "1m", "server": "127.0.0.1:1"}


def test_aligned_group_has_its_set_and_idle_timeout() -> None:
    scope = group_spec("t", options(**ALIGNED, idleTimeout="1 hour"), never).scope
    assert scope.alignment == Alignment(set="s", max_drift_us=60_000_000, idle_timeout_us=3_600_000_000)
    over = spec_over_tables("t.*", options(**ALIGNED)).scope
    assert over.over_tables and over.of_table("t.a").alignment == Alignment(set="s", max_drift_us=60_000_000)


def test_event_time_alone_gives_a_group_no_watermark() -> None:
    scope = group_spec("t", options(eventTime="ts"), never).scope
    assert (scope.request.event_time, scope.rule, scope.idle_timeout_us) == ("ts", None, None)


def test_commit_time_of_a_local_timeline_needs_its_zone() -> None:
    given = options(eventTime="ts", maxOutOfOrderness="1s", watermarkFallback="commitTime")
    rule = group_spec("t", given, utc).scope.rule
    assert rule is not None and rule.fallback is WatermarkFallback.COMMIT_TIME and rule.timezone == ""
    with pytest.raises(ConfigurationError, match="timelineTimezone"):
        group_spec("t", given, local)
    zoned = replace(given, timeline_timezone="Europe/Berlin")
    assert group_spec("t", zoned, local).scope.rule == replace(rule, timezone="Europe/Berlin")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"maxOutOfOrderness": "1s"}, "maxOutOfOrderness .*give eventTime"),
        ({"idleTimeout": "1s"}, "idleTimeout .*give eventTime"),
        ({"watermarkFallback": "hold"}, "watermarkFallback .*give eventTime"),
        ({"eventTime": "ts", "idleTimeout": "1s"}, "idleTimeout .*give maxOutOfOrderness"),
        ({"eventTime": "ts", "watermarkFallback": "scan"}, "watermarkFallback .*give maxOutOfOrderness"),
        ({"eventTime": "ts", "maxOutOfOrderness": "1s", "idleTimeout": "0s"}, "idleTimeout: got 0"),
        ({"maxDrift": "1s"}, "maxDrift .*give alignWith"),
        ({**ALIGNED, "maxDrift": "0s"}, "alignWith needs maxDrift.*more than 0"),
        ({name: value for name, value in ALIGNED.items() if name != "server"}, "alignWith needs server"),
        ({name: value for name, value in ALIGNED.items() if name != "eventTime"}, "give eventTime"),
        ({name: value for name, value in ALIGNED.items() if name != "maxOutOfOrderness"}, "alignWith .*maxOutOfOrder"),
        (
            {"eventTime": "ts", "maxOutOfOrderness": "1s", "query": "cdc", "cdcFormat": "hudi"},
            "eventTime=ts with cdcFormat=hudi",
        ),
    ],
)
def test_options_that_do_not_fit_each_other_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        group_spec("t", options(**values), never)


def test_group_starts_with_a_snapshot_but_does_not_end_with_one() -> None:
    assert group_spec("t", options(after="snapshot"), never).start == StartSnapshot()
    assert group_start("to", " snapshot ", "t", None, lambda: UTC_TABLE) == StartSnapshot()
    with pytest.raises(ConfigurationError, match="option upto: got 'snapshot'"):
        group_spec("t", options(upto="snapshot"), never)
