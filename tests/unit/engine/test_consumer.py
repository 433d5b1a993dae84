"""A consumer of a group in memory: order of commits, resume, waiting, seek, leave."""

from __future__ import annotations

import gc
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.engine.consumer import Consumer
from penstock.engine.group.batch import moment_of
from penstock.engine.group.reader import ConsumedBatch
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    StorageError,
)
from penstock.proto.model.groups import MAX_WAIT_MS, StartAt, StartLatest
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental
from tests.unit.engine.consumer_factory import ALL, ConsumerFactory, polled

if TYPE_CHECKING:
    from tests.unit.engine.fake_group import FakeClock, FakeGroup, FakeReading


def test_penstock_exports_consumer() -> None:
    assert penstock.Consumer is Consumer
    with pytest.raises(AttributeError, match="no attribute 'Consumers'"):
        penstock.Consumers  # noqa: B018


def test_batches_are_in_order_with_split_and_ordinals(new_consumer: ConsumerFactory, group: FakeGroup) -> None:
    with new_consumer(max_splits=2) as consumer:
        assert polled(consumer) == ALL
        assert consumer.caught_up
        assert not consumer.ended
    assert [call[2:] for call in group.calls_of("request")] == [(2, 1), (2, 2), (2, 3)]
    assert len(group.calls_of("describe_plan")) == 1
    assert [call[0] for call in group.calls].count("leave") == 1


def test_requests_say_which_splits_were_received(
    new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
) -> None:
    with new_consumer(max_splits=2) as consumer:
        assert polled(consumer) == ALL
        clock.now += 60_000 // 10
        assert consumer.poll(0) is None
        assert group.received == [0, 1, 2, 2], "the third answer has no splits"
        consumer.join()
        consumer.poll(0)
        assert group.received[4:5] == [0], "of the new epoch"


def test_poll_commits_nothing(new_consumer: ConsumerFactory, group: FakeGroup) -> None:
    with new_consumer() as consumer:
        polled(consumer)
        assert group.committed() == {"b": (0, True)}, "the split without rows is finished: it has no batch to commit"


def test_commit_covers_all_polled_batches_and_reports_finished_splits(
    new_consumer: ConsumerFactory, group: FakeGroup
) -> None:
    with new_consumer() as consumer:
        polled(consumer, 2)
        consumer.commit()
        assert group.committed() == {"a": (20, False)}
        polled(consumer)
        consumer.commit()
    assert group.committed() == {"a": (25, True), "b": (0, True), "c": (10, True)}
    assert {ref.index: report.rows for ref, report in group.reports.items() if report} == {0: 25, 1: 0, 2: 10}


def test_commit_of_a_batch_covers_all_batches_before_it(new_consumer: ConsumerFactory, group: FakeGroup) -> None:
    with new_consumer() as consumer:
        first, second = consumer.poll(), consumer.poll()
        assert isinstance(first, ConsumedBatch)
        assert isinstance(second, ConsumedBatch)
        consumer.commit(first)
        assert group.committed() == {"a": (10, False)}
        consumer.commit(first)
        consumer.commit(second)
        consumer.commit(first)
        assert group.committed() == {"a": (20, False)}
    assert len(group.calls_of("commit")) == 2


def test_uncommitted_rows_are_read_again_from_their_ordinal(new_consumer: ConsumerFactory, group: FakeGroup) -> None:
    with new_consumer("r-1") as consumer:
        polled(consumer, 1)
        consumer.commit()
        polled(consumer, 1)
    with new_consumer("r-2") as consumer:
        batch = consumer.poll()
        assert batch is not None
        assert (batch.split_id, batch.start, batch.first_ordinal, batch.position) == (
            "a",
            10,
            10,
            Position(InstantTime("20260101000000000")),
        )


def test_batches_have_the_newest_watermark_of_the_group(new_consumer: ConsumerFactory, group: FakeGroup) -> None:
    group.watermark_us = 1_700_000_000_000_001
    with new_consumer(max_splits=1) as consumer:
        assert consumer.watermark is None
        first = consumer.poll()
        assert first is not None
        assert first.watermark == consumer.watermark == datetime(2023, 11, 14, 22, 13, 20, 1, tzinfo=UTC)
        group.watermark_us = 2**62
        polled(consumer)
        assert consumer.watermark == datetime.max.replace(tzinfo=UTC), "later than the calendar of Python"
        consumer.join()
        assert consumer.watermark is None


def test_watermark_before_the_first_year_is_unknown() -> None:
    assert moment_of(-(2**62)) is None
    assert moment_of(0) == datetime(1970, 1, 1, tzinfo=UTC)


def test_split_without_rows_does_not_end_the_iteration(
    new_consumer: ConsumerFactory, group: FakeGroup, new_split: Any
) -> None:
    """Weak point 12: an empty split ended the iteration, so the splits after it were lost."""
    group.rounds["plan-1"] = (*(new_split(f"e{n}", 0) for n in range(7)), new_split("z", 3))
    group.ends = True
    with new_consumer(max_splits=2) as consumer:
        rows = []
        for batch in consumer:
            rows.append(batch.split_id)
            consumer.commit()
    assert rows == ["z"]
    assert consumer.ended
    assert all(finished for _, finished in group.committed().values())


def test_group_of_empty_splits_ends(new_consumer: ConsumerFactory, group: FakeGroup, new_split: Any) -> None:
    group.rounds["plan-1"] = (new_split("e", 0),)
    group.ends = True
    with new_consumer() as consumer:
        assert list(consumer) == []
        assert consumer.ended


def test_iterating_ends_where_the_group_ends(new_consumer: ConsumerFactory, group: FakeGroup) -> None:
    group.ends = True
    with new_consumer() as consumer:
        rows = 0
        for batch in consumer:
            rows += batch.batch.num_rows
            consumer.commit(batch)
        assert rows == 35
        assert consumer.poll() is None


def test_two_readers_share_the_splits_without_loss(new_consumer: ConsumerFactory, group: FakeGroup) -> None:
    with new_consumer("r-1", max_splits=1) as one, new_consumer("r-2", max_splits=1) as two:
        first = one.poll()
        assert first is not None
        others = polled(two)
        assert {name for name, *_ in others} == {"c"}
        assert not two.caught_up, "r-1 still holds one"
        rest = polled(one)
    assert [("a", 0, 10, False), *rest] == ALL[:3]


class TestWaiting:
    """Polls without an available batch."""

    def test_poll_returns_none_after_its_timeout(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        group.rounds = {}
        with new_consumer() as consumer:
            started = clock.now
            assert consumer.poll(1200) is None
            assert clock.now - started == 1200
            assert len(group.calls_of("request")) == 3

    def test_poll_waits_for_the_delay_that_the_server_returned(
        self, new_consumer: ConsumerFactory, group: FakeGroup
    ) -> None:
        group.rounds = {}
        with new_consumer() as consumer:
            assert [consumer.poll(0) for _ in range(50)] == [None] * 50
            assert len(group.calls_of("request")) == 1
            assert consumer.caught_up

    def test_splits_planned_later_are_returned(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock, new_split: Any
    ) -> None:
        group.rounds = {}
        with new_consumer() as consumer:
            assert consumer.poll(0) is None
            clock.on_wait = lambda: group.rounds.setdefault("plan-2", (new_split("late", 1),)) and None
            assert polled(consumer, 1) == []
            batch = consumer.poll()
            assert batch is not None
            assert batch.split_id == "late"
            assert not consumer.caught_up

    def test_request_waits_at_the_server_no_longer_than_the_poll(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        group.rounds = {}
        with new_consumer() as consumer:
            assert consumer.poll(0) is None
            clock.now += 500
            assert consumer.poll(300) is None
            clock.now += 500
            assert consumer.poll(1200) is None
            clock.now += 500
            clock.on_wait = consumer.wake
            assert consumer.poll() is None
        assert group.waits == [0, 300, MAX_WAIT_MS, 700, 200, MAX_WAIT_MS]

    def test_waking_ends_an_iteration(self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock) -> None:
        group.rounds = {}
        with new_consumer() as consumer:
            clock.on_wait = consumer.wake
            assert list(consumer) == []
            assert not consumer.ended

    def test_expired_lease_ends_a_waiting_poll(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        group.rounds = {}
        with new_consumer() as consumer:
            real = group.request_splits
            group.request_splits = lambda *arguments: (real(*arguments), type(real(*arguments))(60_000, False))[1]  # type: ignore[method-assign,call-arg,return-value]
            with pytest.raises(Fenced):
                consumer.poll()


class TestMoving:
    """Seek and leave."""

    @pytest.mark.parametrize(
        ("to", "start"),
        [
            ("earliest", StartAt(EARLIEST)),
            ("latest", StartLatest()),
            ("20260103000000000", StartAt(Position(InstantTime("20260103000000000")))),
            ("2026-01-03T00:00:00.000Z", StartAt(Position(InstantTime("20260103000000000")))),
            (Position(InstantTime("20260103000000000"), 2), StartAt(Position(InstantTime("20260103000000000"), 2))),
        ],
    )
    def test_seeking_resets_the_group_and_joins_again(
        self, new_consumer: ConsumerFactory, group: FakeGroup, to: Any, start: Any
    ) -> None:
        with new_consumer() as consumer:
            polled(consumer)
            consumer.commit()
            outcome = consumer.seek(to)
            assert group.calls_of("reset") == [("reset", "trips", "g", start, False)]
            assert outcome.dropped_splits == 4
            assert len(group.calls_of("join")) == 2
            assert polled(consumer) == ALL

    def test_seek_to_a_bad_position_changes_nothing(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        with new_consumer() as consumer:
            with pytest.raises(ConfigurationError, match="option to: got 'yesterday'"):
                consumer.seek("yesterday")
            assert polled(consumer) == ALL
        assert not group.calls_of("reset")

    def test_close_twice_leaves_once(
        self, new_consumer: ConsumerFactory, group: FakeGroup, reading: FakeReading
    ) -> None:
        consumer = new_consumer()
        consumer.poll()
        consumer.close()
        consumer.close()
        assert len(group.calls_of("leave")) == 1
        assert reading.open_now == 0
        assert new_consumer.heartbeats[0].stopped
        for call in (consumer.poll, consumer.commit, consumer.join):
            with pytest.raises(ConfigurationError, match="closed"):
                call()

    def test_garbage_collected_consumer_stops_its_heartbeat(self, new_consumer: ConsumerFactory) -> None:
        consumer = new_consumer()
        consumer.poll()
        assert not new_consumer.heartbeats[0].stopped
        del consumer
        gc.collect()
        assert new_consumer.heartbeats[0].stopped

    def test_close_before_join_sends_no_request(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        new_consumer().close()
        assert group.calls == []

    @pytest.mark.parametrize("error", [StorageError("down"), Fenced("old")])
    def test_leave_that_fails_is_no_error(
        self, new_consumer: ConsumerFactory, group: FakeGroup, error: Exception
    ) -> None:
        with new_consumer():
            group.fails = [error]

    def test_error_in_the_block_leaves_and_commits_nothing(
        self, new_consumer: ConsumerFactory, group: FakeGroup
    ) -> None:
        with pytest.raises(ZeroDivisionError), new_consumer() as consumer:
            consumer.poll()
            raise ZeroDivisionError
        assert group.calls_of("leave")
        assert not group.calls_of("commit")


class TestOptions:
    """Options of a consumer, and the group spec in its join."""

    def test_default_options_lose_nothing(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        new_consumer().join()
        assert group.spec is not None
        assert isinstance(group.spec.scope.request.query, Incremental)
        assert group.spec.start == StartAt(EARLIEST)
        assert group.spec.scope.on_lost_range.value == "fail"
        assert group.spec.scope.upto is None

    def test_group_spec_has_every_option(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        new_consumer(
            query="cdc",
            cdc_format="hudi",
            after="latest",
            upto="2026-01-05",
            columns=["id"],
            where="id > 1",
            on_lost_range="earliest",
            max_commits_per_trigger=3,
            max_files_per_trigger=4,
            max_bytes_per_trigger=5,
            max_rows_per_trigger=6,
            on_corrupt="skip",
        ).join()
        assert group.spec is not None
        request, limits = group.spec.scope.request, group.spec.limits
        assert isinstance(request.query, Changes)
        assert (request.table, request.query.format, request.columns, request.where) == (
            "trips",
            "hudi",
            ("id",),
            "id > 1",
        )
        assert request.skip_corrupt
        assert group.spec.start == StartLatest()
        assert group.spec.scope.upto == Position(InstantTime("20260105000000000"))
        assert (limits.max_commits, limits.max_files, limits.max_bytes, limits.max_rows) == (3, 4, 5, 6)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"query": "snapshot"}, "query=snapshot cannot be consumed by a group"),
            ({"query": "cdc", "on_lost_range": "snapshot"}, "onLostRange=snapshot"),
            ({"cdc_format": "hudi"}, "query=cdc"),
            ({"upto": "latest"}, "upto=latest would change at each join"),
            ({"after": "soon"}, "option after: got 'soon'"),
            ({"limit": 3}, "limit does not apply here"),
            ({"as_of": "1"}, "does not apply here"),
            ({"colums": "id"}, "did you mean columns"),
            ({"max_splits": 0}, "option max_splits"),
            ({"reader_id": "r r"}, "reader id 'r r': expected letters"),
        ],
    )
    def test_bad_options_are_refused_before_any_request(
        self, new_consumer: ConsumerFactory, group: FakeGroup, options: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=message):
            new_consumer(**{"reader_id": "r", **options})
        assert not group.calls_of("join")

    def test_consumer_needs_a_server(self) -> None:
        with pytest.raises(ConfigurationError, match="a consumer group needs a server"):
            Consumer(None, "trips", group="g", reader_id="r")

    def test_join_with_another_scope_is_refused(self, new_consumer: ConsumerFactory) -> None:
        new_consumer("r-1").join()
        with pytest.raises(ConfigurationError, match="another scope"):
            new_consumer("r-2", where="id > 1").join()


def test_unused_options_are_a_warning(group: FakeGroup) -> None:
    with pytest.warns(UserWarning, match=r"penstock.Consumer: not used by Penstock's readers: hoodie.table.name"):
        Consumer(None, "trips", group="g", reader_id="r", enumerator=group, **{"hoodie.table.name": "t"})
