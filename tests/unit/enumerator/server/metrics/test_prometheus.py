"""Names, types and labels of scraped metrics; no client chooses a label."""

from __future__ import annotations

import sys
import urllib.request
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from penstock.enumerator.catalog_events import TimelinesWatched
from penstock.enumerator.groups.merged_groups import MAX_SHOWN_TABLES, merged_gauges
from penstock.enumerator.observer import (
    NO_OBSERVER,
    CallHandled,
    CallStarted,
    DiscoveryFailed,
    Duration,
    DurationMeasured,
    EpochAcquired,
    GroupGauges,
    GroupMeasured,
    GroupRemoved,
    LagMeasured,
    Observer,
    RecordsExpired,
    SplitEvent,
    SplitKind,
    SplitReported,
    SplitsCounted,
    StreamsMeasured,
    TableMeasured,
    TopicMeasured,
    WatermarkPlanned,
)
from penstock.enumerator.server.metrics.gauges import MAX_PARTITIONS
from penstock.enumerator.server.metrics.prometheus import LOST, UNDECODABLE, Metrics, MetricsPort
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.groups import GroupAlignment, GroupLag
from penstock.proto.model.hybrid import Phase
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.reports import MergeOutcomes, SplitReport
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.model.streams import END_OF_TIME_US

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Clock:
    """A manual clock in seconds."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def scraped(metrics: Metrics) -> tuple[dict[str, str], Samples]:
    """(type by name, value by name and labels) as Prometheus reads them."""
    types: dict[str, str] = {}
    samples: Samples = {}
    for family in text_string_to_metric_families(generate_latest(metrics.registry).decode()):
        types[family.name] = family.type
        for sample in family.samples:
            samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return types, samples


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(given.items()))


GAUGES = GroupGauges(
    pending_splits=3,
    assigned_splits=2,
    finished_splits=5,
    pending_bytes=700,
    issued_instant_s=1.5e9,
    watermark_us=1_400_000_000_500_000,
    issued_delay_s=12.5,
    discovery_age_s=10.0,
    poll_interval_s=5.0,
)


def test_every_event_is_scraped_under_its_documented_name() -> None:
    clock = Clock()
    metrics = Metrics(clock)
    reported: Observer = metrics
    reported.observe(SplitsCounted(SplitEvent.FENCED, "t", "g", SplitKind.CDC, 2))
    reported.observe(GroupMeasured("t", "g", GAUGES))
    reported.observe(GroupMeasured("u", "g", GAUGES))
    reported.observe(TableMeasured(table="t", loss_commits=4, loss_s=60.0))
    reported.observe(WatermarkPlanned("t", 1_700_000_000_500_000))
    reported.observe(TableMeasured(table="u"))
    reported.observe(EpochAcquired(7))
    reported.observe(LagMeasured("t", "g", GroupLag(commits=3, size_bytes=900, seconds=12.5)))
    for duration in Duration:
        reported.observe(DurationMeasured(duration, 0.003))
    reported.observe(CallStarted("s.v1.S", "NextSplit"))
    reported.observe(CallHandled("s.v1.S", "NextSplit", "PERMISSION_DENIED", 0.01))
    clock.now_s += 5
    types, samples = scraped(metrics)
    assert (
        samples["penstock_split_events_total", labels(event="fenced", group="g", kind="cdc", table="t", query="")] == 2
    )
    assert samples["penstock_splits", labels(state="pending", group="g", kind="mor")] == 6
    assert samples["penstock_pending_bytes", labels(group="g")] == 1400
    where = labels(group="g", table="t")
    assert samples["penstock_enumerator_issued_instant_seconds", where] == 1.5e9
    assert samples["penstock_enumerator_watermark_timestamp_seconds", where] == 1_400_000_000.5
    assert samples["penstock_enumerator_issued_instant_delay_seconds", where] == 12.5
    assert samples["penstock_enumerator_last_discovery_age_seconds", where] == 15.0
    assert samples["penstock_enumerator_poll_interval_seconds", where] == 5.0
    assert samples["penstock_enumerator_leader_epoch", where] == 7
    assert samples["penstock_group_lag_commits", where] == 3
    assert samples["penstock_group_lag_bytes", where] == 900
    assert samples["penstock_group_lag_seconds", where] == 12.5
    assert samples["penstock_enumerator_up", where] == 1
    assert samples["penstock_time_to_loss_commits", labels(table="t")] == 4
    assert samples["penstock_watermark_timestamp_seconds", labels(table="t")] == 1_700_000_000.5
    assert samples["penstock_time_to_loss_seconds", labels(table="t")] == 60
    assert ("penstock_time_to_loss_seconds", labels(table="u")) not in samples
    for duration in ("timeline_refresh", "plan", "assign", "log_append"):
        assert samples[f"penstock_{duration}_duration_seconds_count", ()] == 1
        assert types[f"penstock_{duration}_duration_seconds"] == "histogram"
    call = {"grpc_type": "unary", "grpc_service": "s.v1.S", "grpc_method": "NextSplit"}
    assert samples["grpc_server_started_total", labels(**call)] == 1
    assert samples["grpc_server_handled_total", labels(grpc_code="PermissionDenied", **call)] == 1
    assert samples["grpc_server_handling_seconds_count", labels(**call)] == 1
    assert types["penstock_splits"] == types["penstock_enumerator_up"] == "gauge"
    assert types["penstock_split_events"] == types["grpc_server_handled"] == "counter"


def test_groups_that_wait_for_slower_ones_are_scraped() -> None:
    metrics = Metrics(Clock())
    gauges = GroupGauges(pending_splits=1, assigned_splits=0, finished_splits=0)
    for group, is_held in (("ahead", True), ("slow", False)):
        aligned = replace(gauges, alignment=GroupAlignment("hours", 5, is_held))
        metrics.observe(GroupMeasured("t", group, aligned))
    metrics.observe(GroupMeasured("t", "alone", gauges))
    _, samples = scraped(metrics)
    held = {key: value for (name, key), value in samples.items() if name == "penstock_group_held"}
    assert held == {labels(group="ahead", table="t"): 1, labels(group="slow", table="t"): 0}


def stream_status(name: str, state: StreamState, **more: Any) -> StreamStatus:
    return StreamStatus(table="t", name=name, state=state, committed=EARLIEST, planned=EARLIEST, **more)


def test_streams_are_scraped_until_they_are_forgotten() -> None:
    metrics = Metrics(Clock(), max_names=2)
    lag = GroupLag(commits=3, size_bytes=900, seconds=12.5, loss_commits=4, loss_seconds=60.0)
    slow = stream_status("q", StreamState.HELD, lag=lag, watermark_us=1_700_000_000_500_000)
    ended = stream_status("u", StreamState.STOPPED, watermark_us=END_OF_TIME_US)
    metrics.observe(StreamsMeasured((slow, ended, stream_status("x", StreamState.IDLE))))
    _, samples = scraped(metrics)
    where, other = labels(stream="q", table="t"), labels(stream="u", table="t")
    values = {name.removeprefix("penstock_stream_"): value for (name, key), value in samples.items() if key == where}
    assert values == {
        "up": 1,
        "held": 1,
        "lag_commits": 3,
        "lag_seconds": 12.5,
        "time_to_loss_commits": 4,
        "time_to_loss_seconds": 60,
        "watermark_timestamp_seconds": 1_700_000_000.5,
    }
    assert {name: value for (name, key), value in samples.items() if key == other} == {
        "penstock_stream_up": 0,
        "penstock_stream_held": 0,
    }
    assert not [name for name, key in samples if key == labels(stream="x", table="t")]
    metrics.observe(StreamsMeasured(()))
    assert not [name for name, _ in scraped(metrics)[1] if name.startswith("penstock_stream")]


def test_report_of_a_reader_is_counted() -> None:
    metrics = Metrics()
    outcomes = MergeOutcomes(won=4, lost_event_time=3, duplicate=2, deleted=1)
    phases = (("open", 10.0), ("merge", 30.0), ("a label of the client's own", 1.0))
    report = SplitReport(rows=10, size_bytes=99, phase_ms=phases, outcomes=outcomes, skipped_gaps=2)
    metrics.observe(SplitReported("t", "g", "r", report))
    _, samples = scraped(metrics)
    assert samples["penstock_reader_records_total", ()] == 10
    assert samples["penstock_reader_bytes_total", ()] == 99
    assert samples["penstock_corrupt_blocks_total", ()] == 2
    assert samples["penstock_split_read_duration_seconds_sum", labels(phase="merge")] == pytest.approx(0.03)
    assert samples["penstock_merge_log_records_total", labels(outcome="lost_event_time")] == 3
    phases_seen = {dict(key[1])["phase"] for key in samples if key[0] == "penstock_split_read_duration_seconds_count"}
    assert phases_seen == {"open", "merge"}


def test_series_of_groups_are_bounded_and_removed_with_the_group(caplog: pytest.LogCaptureFixture) -> None:
    metrics = Metrics(max_names=2)
    for n in range(5):
        metrics.observe(GroupMeasured("t", f"g{n}", GAUGES))
        metrics.observe(TableMeasured(table=f"t{n}", loss_commits=1))
        metrics.observe(SplitsCounted(SplitEvent.ASSIGNED, "t", f"g{n}", SplitKind.MOR))
    _, samples = scraped(metrics)
    assert len([key for key in samples if key[0] == "penstock_pending_bytes"]) == 2
    assert len([key for key in samples if key[0] == "penstock_time_to_loss_commits"]) == 2
    assert (
        samples["penstock_split_events_total", labels(event="assigned", group="other", kind="mor", table="t", query="")]
        == 3
    )
    assert len(caplog.records) == 1
    metrics.observe(GroupRemoved("t", "g0"))
    metrics.observe(GroupMeasured("t", "g4", GAUGES))
    _, samples = scraped(metrics)
    assert ("penstock_pending_bytes", labels(group="g0")) not in samples
    assert samples["penstock_pending_bytes", labels(group="g4")] == 700


def test_group_over_1000_tables_has_few_series() -> None:
    metrics = Metrics(Clock())
    tables = [f"s.{number:03}" for number in range(1000)]
    lag = GroupLag(commits=1, size_bytes=10, seconds=1.0)
    member = replace(GAUGES, over="s.*")
    for table in tables:
        metrics.observe(SplitsCounted(SplitEvent.DISCOVERED, table, "g", SplitKind.MOR, 2, over="s.*"))
        metrics.observe(GroupMeasured(table, "g", member))
        metrics.observe(LagMeasured(table, "g", replace(lag, seconds=99.0) if table == "s.500" else lag))
        metrics.observe(DiscoveryFailed(table, "g", "STORAGE"))
    metrics.observe(GroupMeasured("s.*", "g", merged_gauges([member] * 1000)))
    metrics.observe(LagMeasured("s.*", "g", replace(lag, commits=1000, seconds=99.0)))
    _, samples = scraped(metrics)
    assert len(samples) < 1000
    whole = labels(group="g", table="s.*")
    assert samples["penstock_group_lag_commits", whole] == samples["penstock_group_tables", whole] == 1000
    assert samples["penstock_group_failing_tables", whole] == 1000 * bool(GAUGES.error_code)
    assert samples["penstock_group_lag_seconds", labels(group="g", table="s.500")] == 99, "the worst one is shown"
    shown = {key[1] for key in samples if key[0] == "penstock_enumerator_up"}
    assert len(shown) == 1 + MAX_SHOWN_TABLES
    discovered = labels(event="discovered", group="g", kind="mor", query="", table="s.*")
    assert samples["penstock_split_events_total", discovered] == 2000
    assert samples["penstock_discovery_failures_total", labels(code="STORAGE", group="g", table="s.*")] == 1000
    assert samples["penstock_splits", labels(group="g", kind="mor", state="pending")] == 3000, "counted once"


def test_counters_of_a_group_start_at_zero_before_the_first_event() -> None:
    metrics = Metrics()
    metrics.observe(GroupMeasured("t", "g", GAUGES))
    metrics.observe(SplitsCounted(SplitEvent.FENCED, "t", "g", SplitKind.MOR))
    metrics.observe(GroupMeasured("t", "g", GAUGES))
    metrics.observe(GroupMeasured("t", "h", replace(GAUGES, kind=SplitKind.MOR)))
    metrics.observe(GroupMeasured("t", "h", replace(GAUGES, kind=SplitKind.KAFKA)))
    _, samples = scraped(metrics)
    counted = {key: value for (name, key), value in samples.items() if name == "penstock_split_events_total"}
    assert len(counted) == 3 * len(SplitEvent)
    fenced = labels(event="fenced", group="g", kind="mor", table="t", query="")
    assert {key: value for key, value in counted.items() if value} == {fenced: 1}


def test_lag_series_are_bounded_and_removed_with_the_group() -> None:
    metrics = Metrics(max_names=1)
    for group, commits in (("g", 1), ("h", 2), ("g", 3)):
        metrics.observe(LagMeasured("t", group, GroupLag(commits=commits, size_bytes=0, seconds=0.0)))
    _, samples = scraped(metrics)
    reported = {
        dict(key)["group"]: value for (name, key), value in samples.items() if name == "penstock_group_lag_commits"
    }
    assert reported == {"g": 3}
    metrics.observe(GroupRemoved("t", "g"))
    _, samples = scraped(metrics)
    assert not [key for key in samples if key[0].startswith("penstock_group_lag")]


def test_phases_of_a_hand_over_are_scraped() -> None:
    metrics = Metrics()
    reported: Observer = metrics
    reported.observe(TopicMeasured(table="t", group="lake", topic="orders"))
    reported.observe(TopicMeasured(table="t", group="switching", topic="orders", phase=Phase.SWITCHING, lag={0: 5}))
    reported.observe(TopicMeasured(table="t", group="topic", topic="orders", phase=Phase.KAFKA, lag={0: 7, 2: 0}))
    reported.observe(RecordsExpired("t", "topic", 40))
    reported.observe(RecordsExpired("t", "lake", 2))
    reported.observe(
        SplitReported(
            "t", "g", "r", SplitReport(rows=1, size_bytes=1, counts=((UNDECODABLE, 3), (LOST, 1), ("kafka_records", 9)))
        )
    )
    types, samples = scraped(metrics)
    assert types["penstock_kafka_switch_state"] == types["penstock_kafka_lag_records"] == "gauge"
    assert types["penstock_kafka_lost_records"] == types["penstock_kafka_undecodable_records"] == "counter"
    states = {dict(key)["group"]: value for (name, key), value in samples.items() if name.endswith("switch_state")}
    assert states == {"lake": 0, "switching": 1, "topic": 2}
    assert samples["penstock_kafka_lag_records", labels(group="topic", topic="orders", partition="0")] == 7
    assert samples["penstock_kafka_lag_records", labels(group="topic", topic="orders", partition="2")] == 0
    assert samples["penstock_kafka_lost_records_total", ()] == 43
    assert samples["penstock_kafka_undecodable_records_total", ()] == 3
    metrics.observe(GroupRemoved("t", "topic"))
    _, samples = scraped(metrics)
    assert "topic" not in {dict(key).get("group") for _, key in samples}


def test_gauges_are_bounded_for_any_number_of_partitions_and_groups() -> None:
    metrics = Metrics(max_names=1)
    metrics.observe(
        TopicMeasured(
            table="t", group="g", topic="x", phase=Phase.KAFKA, lag=dict.fromkeys(range(MAX_PARTITIONS + 50), 2)
        )
    )
    metrics.observe(TopicMeasured(table="t", group="h", topic="x"))
    _, samples = scraped(metrics)
    lags = {dict(key)["partition"]: value for (name, key), value in samples.items() if name.endswith("lag_records")}
    assert len(lags) == MAX_PARTITIONS + 1
    assert lags["other"] == 100
    assert len([key for key in samples if key[0] == "penstock_kafka_switch_state"]) == 1


def test_records_of_topics_are_counted_under_the_readers_own_names() -> None:
    from penstock.reader.topics import reading

    assert (reading.UNDECODABLE, reading.LOST) == (UNDECODABLE, LOST)


def test_port_answers_until_it_is_closed() -> None:
    port = MetricsPort(Metrics(), "127.0.0.1:0")
    try:
        with urllib.request.urlopen(f"http://{port.address}/metrics", timeout=5) as answer:
            assert b"penstock_reader_records_total 0.0" in answer.read()
        with pytest.raises(ConfigurationError, match="metricsListen: cannot listen at"):
            MetricsPort(Metrics(), port.address)
    finally:
        port.close()
    with pytest.raises(OSError):
        urllib.request.urlopen(f"http://{port.address}/metrics", timeout=5)


def test_missing_library_is_an_error_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigurationError, match=r'metrics need the extra `server`: pip install "penstock\[server\]"'):
        Metrics()


def test_port_is_closed_by_default() -> None:
    nobody: Observer = NO_OBSERVER
    nobody.observe(GroupMeasured("t", "g", GAUGES))
    nobody.observe(SplitReported("t", "g", "r", SplitReport(rows=1, size_bytes=1)))


def test_watched_timelines_and_their_changes() -> None:
    metrics = Metrics()
    for event in (TimelinesWatched(2, 0), TimelinesWatched(2, 0, changes=2), TimelinesWatched(1, 3, changes=1)):
        metrics.observe(event)
    samples = scraped(metrics)[1]
    assert samples["penstock_watched_timelines", ()] == 1.0
    assert samples["penstock_unwatched_timelines", ()] == 3.0
    assert samples["penstock_timeline_changes_total", ()] == 3.0
