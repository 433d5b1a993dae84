"""Groups over many tables as operators and callers with rights see them: state, metrics, times, ends."""

from __future__ import annotations

import pathlib

import pytest

from penstock.engine.consumer import Consumer
from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.groups.lag_monitor import LagMonitor
from penstock.enumerator.groups.merged_groups import merged_gauges, merged_lag
from penstock.enumerator.observer import GroupGauges, GroupMeasured, LagMeasured, Observation, SplitsCounted
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.server.auth.tokens import new_token
from penstock.enumerator.server.config.settings import AclRule, Settings
from penstock.enumerator.visibility import restricted
from penstock.proto.errors import (
    ConfigurationError,
    PermissionDenied,
    UnknownGroup,
)
from penstock.proto.model.groups import GroupLag, GroupScope, GroupSpec, StartAt, StartLatest
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import EventTimeRule
from tests.contract.scripted_lake import ManyTables, many_tables
from tests.contract.test_groups_over_tables import both, rows_of


def test_operators_see_the_group_and_its_tables(many: ManyTables) -> None:
    with many.consumer() as consumer:
        many.discover()
        assert consumer.poll(0) is not None
        enumerator = many.enumerator()
        listed = enumerator.list_groups()
        assert [(each.table, each.tables, each.over) for each in listed] == [
            ("s.*", 2, ""),
            ("s.a", 0, "s.*"),
            ("s.b", 0, "s.*"),
        ]
        assert listed == tuple(each.summary for each in enumerator.describe_server().groups)
        assert [each.table for each in enumerator.list_groups("s.*")] == ["s.*", "s.a", "s.b"]
        description = enumerator.describe_group("s.*", "g")
        assert description.pending_splits + description.held_splits == 4
        [reader] = description.readers
        assert reader.held_splits == description.held_splits > 0
        assert description.scope.over_tables and len(description.tables) == 2
        with pytest.raises(ConfigurationError, match="readers"):
            enumerator.delete_group("s.*", "g")
    with pytest.raises(ConfigurationError, match="would create it again"):
        enumerator.delete_group("s.a", "g")
    outcome = enumerator.reset_group("s.*", "g", StartAt(EARLIEST), dry_run=True)
    assert outcome.dropped_splits == 4 and outcome.dry_run
    enumerator.reset_group("s.*", "g", StartAt(EARLIEST), dry_run=False)
    assert enumerator.describe_group("s.*", "g").pending_splits == 0
    enumerator.delete_group("s.*", "g")
    assert enumerator.list_groups() == ()
    with pytest.raises(UnknownGroup):
        enumerator.describe_group("s.*", "g")


def test_measurements_of_the_group_are_those_of_its_tables(many: ManyTables) -> None:
    measured: dict[tuple[str, str], GroupGauges] = {}
    lags: dict[tuple[str, str], GroupLag | None] = {}

    class Measured:
        def observe(self, event: Observation) -> None:
            match event:
                case GroupMeasured(table, group, gauges):
                    measured[table, group] = gauges
                case LagMeasured(table, group, lag):
                    lags[table, group] = lag
                case SplitsCounted():
                    assert event.over == "s.*"

    many.service.coordinator.observer = Measured()
    with many.consumer() as consumer:
        consumer.join()
        many.discover()
        monitor = LagMonitor(many.service.split_discovery)
        monitor.measure()
        monitor.gauges()
    assert measured["s.*", "g"] == merged_gauges([measured["s.a", "g"], measured["s.b", "g"]])
    assert (measured["s.a", "g"].over, measured["s.*", "g"].tables, measured["s.*", "g"].pending_splits) == (
        "s.*",
        2,
        4,
    )
    parts = [lag for table in ("s.a", "s.b") if (lag := lags[table, "g"]) is not None]
    assert len(parts) == 2 and lags["s.*", "g"] == merged_lag(parts)


def test_watermark_in_the_metrics_is_that_of_the_served_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is no longer served holds back neither the batches nor the metric."""
    rule, measured = EventTimeRule(max_out_of_orderness_us=0), dict[str, int | None]()
    request = PlanRequest(table="s.*", query=Incremental(), event_time="at")
    scope = GroupScope(request=request, over_tables=True, rule=rule)

    class Measured:
        def observe(self, event: Observation) -> None:
            if isinstance(event, GroupMeasured):
                measured[event.table] = event.gauges.watermark_us

    with many_tables(monkeypatch, served=False) as many:
        service = many.service
        service.join_group("g", "r", GroupSpec(scope=scope), "join")
        for table, at_us in (("s.a", 500), ("s.b", 20)):
            group = service.coordinator.peek(lambda state, table=table: state.groups[GroupKey(table, "g")])
            upto = Position(InstantTime("1"))
            event = ev.Discovered(
                key=group.key, number=group.number, start=EARLIEST, commit_range=CommitRange(EARLIEST, upto),
                progress=Progress(upto), facts=facts_of([(1, "", "f")], [EventTimeSpan(at_us, at_us)]),
                reshaped=frozenset(), commits=1, coming=EventTimeSpan(),
            )  # fmt: skip
            service.coordinator.handle(event)
        service.coordinator.observer = Measured()
        monitor = LagMonitor(service.split_discovery, served=many.registry.names)
        monitor.gauges()
        assert measured["s.*"] == 19, "the lowest one"
        many.serve("s.a")
        monitor.gauges()
        assert measured["s.*"] == measured["s.a"] == 499
        assert service.describe_group("s.*", "g").watermark_us == 499
        many.serve("s.a", "s.b")
        monitor.gauges()
        assert measured["s.*"] == 19


def test_one_group_name_has_one_pattern(many: ManyTables) -> None:
    with many.consumer(), pytest.raises(ConfigurationError, match="one pattern"):
        many.consumer(tables="*").join()


def test_group_of_a_table_that_consumes_something_else_is_left_alone(many: ManyTables) -> None:
    plain = Consumer(table="s.a", group="g", reader_id="p", enumerator=many.enumerator(), columns=["id"])
    plain.join()
    plain.close()
    with many.consumer() as consumer:
        many.discover()
        assert rows_of(consumer) == both(1, "s.b")
        assert "consumes something else" in str(consumer.table_errors["s.a"])
    enumerator = many.enumerator()
    position = enumerator.describe_group("s.a", "g").summary.committed
    moved = enumerator.reset_group("s.*", "g", StartLatest(), dry_run=False)
    assert enumerator.describe_group("s.a", "g").summary.committed == position, moved
    enumerator.delete_group("s.*", "g")
    with pytest.raises(UnknownGroup):
        enumerator.describe_group("s.b", "g")
    enumerator.delete_group("s.a", "g")


def test_group_that_ends_ends_when_all_tables_did(many: ManyTables) -> None:
    with many.consumer(upto="00000000000000") as consumer:
        many.discover()
        assert rows_of(consumer) == both(1, "s.a", "s.b")
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None and consumer.ended


def test_times_that_need_the_zone_of_a_table_are_refused(many: ManyTables) -> None:
    with pytest.raises(ConfigurationError, match=r"time zone of its own.*groups reset TABLE GROUP --to"):
        many.consumer(after="2026-01-01T00:00:00")
    with pytest.raises(ConfigurationError, match="set the option timelineTimezone=UTC"):
        many.consumer(after="2026-01-01T00:00:00", timeline_timezone="Europe/Berlin")


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00"])
def test_time_is_that_of_every_table_if_all_timelines_are_in_utc(many: ManyTables, time: str) -> None:
    """Also of a table that joins later."""
    with many.consumer(after=time, timeline_timezone="UTC") as consumer:
        many.serve("s.a", "s.b", "s.new", "other")
        consumer.poll(0)
        positions = many.service.coordinator.read(
            lambda state: {key.table: str(group.committed.order_key) for key, group in state.groups.items()}
        )
    assert positions == dict.fromkeys(("s.*", "s.a", "s.b", "s.new"), "20260101000000999")


def test_consumer_takes_a_table_or_tables(many: ManyTables) -> None:
    enumerator = many.enumerator()
    with pytest.raises(ConfigurationError, match="both"):
        Consumer(table="s.a", tables="s.*", group="g", enumerator=enumerator)
    with pytest.raises(ConfigurationError, match="neither"):
        Consumer(group="g", enumerator=enumerator)
    with Consumer(tables="s.a", group="h", enumerator=enumerator) as consumer:
        many.discover()
        batch = consumer.poll(0)
        assert batch is not None and batch.table == "s.a"
    assert [(each.table, each.tables) for each in enumerator.list_groups()] == [("s.a", 0)], "one name is one table"


def test_no_table_matches_yet(many: ManyTables) -> None:
    with many.consumer(tables="x.*") as consumer:
        assert consumer.poll(0) is None and consumer.caught_up
        assert "no table that is served matches" in str(consumer.table_errors["x.*"])
        many.serve("x.1")
        many.clock.now_ms += 1_000
        assert consumer.poll(0) is None
        many.discover()
        many.clock.now_ms += 1_000
        assert rows_of(consumer) == both(1, "x.1") and not consumer.table_errors


def test_caller_sees_only_tables_on_which_it_has_the_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    lines, tokens = [], {}
    for name in ("some", "all"):
        token, line = new_token(name)
        lines.append(line)
        tokens[name] = tmp_path / name
        tokens[name].write_text(token)
    (tmp_path / "tokens").write_text("\n".join(lines))
    acl = (
        AclRule(principal="token:some", rights=("read", "consume"), tables=("s.a", "other")),
        AclRule(principal="token:all", rights=("read", "consume", "admin")),
    )
    settings = Settings(tokens=str(tmp_path / "tokens"), acl=acl)
    with many_tables(monkeypatch, served=True, settings=settings) as many:
        some, every = (many.enumerator(str(tokens[name])) for name in ("some", "all"))
        with many.consumer("r1", token=str(tokens["some"])) as one:
            many.discover()
            assert rows_of(one) == both(1, "s.a")
            assert [each.table for each in every.list_groups()] == ["s.*", "s.a"], "nobody may read s.b yet"
            with many.consumer("r2", token=str(tokens["all"])) as two:
                assert two.poll(0) is None
                many.discover()
                many.clock.now_ms += 1_000
                assert rows_of(two) == both(1, "s.b")
            assert [each.summary.table for each in some.describe_group("s.*", "g").tables] == ["s.a"]
            assert len(every.describe_group("s.*", "g").tables) == 2
        with pytest.raises(PermissionDenied):
            some.reset_group("s.*", "g", StartAt(EARLIEST), dry_run=False)
        with pytest.raises(PermissionDenied):
            some.delete_group("s.*", "g")
        every.delete_group("s.*", "g")


def test_admin_needs_the_right_on_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with many_tables(monkeypatch, served=False) as many:
        many.consumer().join()
        with (
            restricted(lambda right, table, group: table != "s.b"),
            pytest.raises(PermissionDenied, match=r"1 of its tables \(s\.b\)"),
        ):
            many.service.reset_group("s.*", "g", StartAt(EARLIEST), dry_run=False)
        many.service.reset_group("s.*", "g", StartAt(EARLIEST), dry_run=False)
