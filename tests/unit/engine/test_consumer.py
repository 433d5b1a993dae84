"""A consumer of a group in memory: order of commits, resume, lease, retries, seek, leave."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import penstock
from penstock.engine.consumer import Consumer
from penstock.engine.group.lease import Runtime
from penstock.engine.group.reader import ConsumedBatch
from penstock.proto.errors import (
    ConfigurationError,
    CorruptFile,
    Fenced,
    Overloaded,
    PermissionDenied,
    StorageError,
    UnknownGroup,
)
from penstock.proto.model.groups import StartAt, StartLatest
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental

if TYPE_CHECKING:
    from tests.unit.engine.fake_group import FakeClock, FakeGroup, FakeHeartbeat, FakeReading

LEASE_MS = 9000


class ConsumerFactory:
    """Creates consumers of group g; the test triggers their `heartbeats`."""

    def __init__(self, group: FakeGroup, clock: FakeClock) -> None:
        self.group, self.clock = group, clock
        self.heartbeats: list[FakeHeartbeat] = []

    def __call__(self, reader_id: str = "r", **options: Any) -> Consumer:
        def start_heartbeat(beat: Callable[[], float | None], pause_s: float) -> FakeHeartbeat:
            heartbeat: Any = type(
                "Heartbeat", (), {"stopped": False, "stop": lambda self: setattr(self, "stopped", True)}
            )()
            heartbeat.beat, heartbeat.pause_s = beat, pause_s
            self.heartbeats.append(heartbeat)
            return heartbeat  # type: ignore[no-any-return]

        runtime = Runtime(now_ms=self.clock.now_ms, wait=self.clock.wait, start_heartbeat=start_heartbeat)
        return Consumer(
            None, "trips", group="g", reader_id=reader_id, enumerator=self.group, runtime=runtime, **options
        )


@pytest.fixture
def new_consumer(group: FakeGroup, clock: FakeClock, reading: FakeReading) -> ConsumerFactory:
    return ConsumerFactory(group, clock)


def polled(consumer: Consumer, max_batches: int = 1000) -> list[tuple[str, int, int, bool]]:
    """(split, first ordinal, next ordinal, end of split) of each batch that is available now."""
    rows = []
    while len(rows) < max_batches and (batch := consumer.poll(0)) is not None:
        assert batch.batch.column("id").to_pylist() == list(range(batch.first_ordinal, batch.next_ordinal))
        rows.append((batch.split_id, batch.first_ordinal, batch.next_ordinal, batch.end_of_split))
    return rows


ALL = [("a", 0, 10, False), ("a", 10, 20, False), ("a", 20, 25, True), ("c", 0, 10, True)]


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


class TestLease:
    """A reader stops when its lease ends, without a response of the server."""

    def test_heartbeats_renew_the_lease_every_third_of_it(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        with new_consumer() as consumer:
            (heartbeat,) = new_consumer.heartbeats
            assert heartbeat.pause_s == LEASE_MS / 3 / 1000
            for _ in range(20):
                clock.now += LEASE_MS // 3
                assert heartbeat.beat() == LEASE_MS / 3 / 1000
            assert consumer.lease_left_ms == LEASE_MS
            assert consumer.poll() is not None
            consumer.commit()
        assert heartbeat.stopped

    @pytest.mark.parametrize("late_ms", [LEASE_MS, LEASE_MS + 1, 10 * LEASE_MS])
    def test_expired_lease_refuses_poll_and_commit(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock, late_ms: int
    ) -> None:
        with new_consumer() as consumer:
            batch = consumer.poll()
            calls = len(group.calls)
            clock.now += late_ms
            with pytest.raises(Fenced, match=rf"reader r of group g: its lease of {LEASE_MS} ms is over.*Join again"):
                consumer.commit(batch)
            with pytest.raises(Fenced):
                consumer.poll()
            with pytest.raises(Fenced):
                consumer.commit()
            assert len(group.calls) == calls, "no request was sent"
            assert consumer.lease_left_ms == 0
        assert group.committed() == {}
        assert not group.calls_of("leave")

    def test_expired_lease_sends_no_heartbeat(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        """If only responses are lost, heartbeats would hold splits for a reader that has stopped."""
        with new_consumer() as consumer:
            (heartbeat,) = new_consumer.heartbeats
            consumer.poll()
            clock.now += LEASE_MS
            calls = len(group.calls)
            assert heartbeat.beat() is None
            assert len(group.calls) == calls
            with pytest.raises(Fenced, match="is over"):
                consumer.poll()

    def test_lease_is_valid_until_its_last_millisecond(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        with new_consumer() as consumer:
            batch = consumer.poll()
            clock.now += LEASE_MS - 1
            consumer.commit(batch)
        assert group.committed() == {"a": (10, False)}

    def test_lease_counts_from_the_sending_of_the_call(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        with new_consumer() as consumer:
            (heartbeat,) = new_consumer.heartbeats
            consumer.poll()
            real = group.heartbeat

            def slow(member: Any) -> int:
                lease_ms = real(member)
                clock.now += 8000
                return lease_ms

            group.heartbeat = slow  # type: ignore[method-assign]
            clock.now += 1000
            heartbeat.beat()
            assert consumer.lease_left_ms == 1000

    def test_read_that_outlasts_the_lease_returns_nothing(
        self,
        new_consumer: ConsumerFactory,
        group: FakeGroup,
        clock: FakeClock,
        reading: FakeReading,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def slow(*arguments: Any, **named: Any) -> Any:
            clock.now += LEASE_MS
            return reading.read(*arguments, **named)

        monkeypatch.setattr("penstock.engine.group.reader.read_split", slow)
        with new_consumer() as consumer, pytest.raises(Fenced):
            consumer.poll()

    def test_failed_heartbeats_are_repeated_sooner_and_do_not_renew(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        with new_consumer() as consumer:
            (heartbeat,) = new_consumer.heartbeats
            clock.now += 3000
            group.fails = [StorageError("no server"), Overloaded("busy")]
            assert heartbeat.beat() == 1.0
            assert heartbeat.beat() == 1.0
            assert consumer.lease_left_ms == LEASE_MS - 3000
            assert heartbeat.beat() == 3.0
            assert consumer.lease_left_ms == LEASE_MS

    @pytest.mark.parametrize("error", [Fenced("epoch 1 is not current"), UnknownGroup("gone"), PermissionDenied("no")])
    def test_permanent_error_of_a_heartbeat_is_raised_by_the_next_call(
        self, new_consumer: ConsumerFactory, group: FakeGroup, error: Exception
    ) -> None:
        with new_consumer() as consumer:
            consumer.poll()
            group.fails = [error]
            assert new_consumer.heartbeats[0].beat() is None
            with pytest.raises(type(error), match=str(error)):
                consumer.poll()
            with pytest.raises(type(error), match=str(error)):
                consumer.commit()

    def test_second_reader_of_the_same_id_fences_the_first(
        self, new_consumer: ConsumerFactory, group: FakeGroup
    ) -> None:
        first = new_consumer()
        batch = first.poll()
        with new_consumer() as second:
            with pytest.raises(Fenced, match="epoch 1 is not current"):
                first.commit(batch)
            first.close()
            assert polled(second) == ALL

    def test_join_again_continues_with_uncommitted_rows(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock, reading: FakeReading
    ) -> None:
        with new_consumer() as consumer:
            first, second = consumer.poll(), consumer.poll()
            consumer.commit(first)
            clock.now += LEASE_MS
            with pytest.raises(Fenced):
                consumer.poll()
            consumer.join()
            assert reading.open_now == 0
            assert [heartbeat.stopped for heartbeat in new_consumer.heartbeats] == [True, False]
            with pytest.raises(Fenced, match="handed out before the reader joined again"):
                consumer.commit(second)
            assert polled(consumer) == ALL[1:]
            consumer.commit()
        assert all(finished for _, finished in group.committed().values())


class TestRetries:
    """Calls to an unreachable server or storage are retried."""

    def test_calls_are_retried_with_growing_delays(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        group.fails = [StorageError("down")] * 3 + [Overloaded("busy")]
        with new_consumer() as consumer:
            assert len(group.calls_of("join")) == 5
            assert len({call[3] for call in group.calls_of("join")}) == 1, "all retries are one join"
            assert clock.waits == sorted(clock.waits)
            assert polled(consumer) == ALL

    def test_lost_response_is_repeated(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        with new_consumer() as consumer:
            group.lost = [StorageError("lost")] * 2
            assert polled(consumer) == ALL
        assert [call[3] for call in group.calls_of("request")][:3] == [1, 1, 1]

    def test_interrupted_request_is_repeated_by_the_next_poll(
        self, new_consumer: ConsumerFactory, group: FakeGroup
    ) -> None:
        with new_consumer() as consumer:
            group.lost = [StorageError("lost")]
            consumer.wake()
            group.fails = []
            assert consumer.poll() is None
            real, group.request_splits = group.request_splits, lambda *arguments: consumer.wake() or real(*arguments)  # type: ignore[method-assign,assignment,func-returns-value]
            assert consumer.poll() is None, "woken during the request"
            group.request_splits = real  # type: ignore[method-assign]
            assert polled(consumer) == ALL
        assert [call[3] for call in group.calls_of("request")][:2] == [1, 1]

    def test_retries_end_after_their_timeout(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        group.fails = [StorageError("down")] * 1000
        started = clock.now
        with pytest.raises(StorageError, match="down"):
            new_consumer().join()
        assert 60_000 <= clock.now - started <= 66_000

    def test_retries_end_with_the_lease(
        self, new_consumer: ConsumerFactory, group: FakeGroup, clock: FakeClock
    ) -> None:
        with new_consumer() as consumer:
            batch = consumer.poll()
            group.fails = [StorageError("down")] * 1000
            started = clock.now
            with pytest.raises(Fenced):
                consumer.commit(batch)
            assert LEASE_MS <= clock.now - started <= LEASE_MS + 5200
            group.fails = []

    def test_lost_commit_may_be_repeated(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        with new_consumer() as consumer:
            polled(consumer)
            group.lost = [StorageError("lost")]
            consumer.commit()
        assert group.calls_of("commit")[-1] == group.calls_of("commit")[-2]
        assert all(finished for _, finished in group.committed().values())

    def test_storage_error_within_a_split_resumes_after_the_last_batch(
        self, new_consumer: ConsumerFactory, reading: FakeReading
    ) -> None:
        reading.fails = {("a", 0): StorageError("s"), ("a", 20): StorageError("s"), ("c", 0): StorageError("s")}
        with new_consumer() as consumer:
            assert polled(consumer) == ALL
        assert [place for place in reading.opened if place[0] == "a"] == [("a", 0), ("a", 0), ("a", 20)]
        assert reading.open_now == 0

    def test_corrupt_file_is_raised_after_the_readable_batches(
        self, new_consumer: ConsumerFactory, group: FakeGroup, reading: FakeReading
    ) -> None:
        reading.fails = {("a", 10): CorruptFile("first"), ("a", 20): CorruptFile("then")}
        with new_consumer() as consumer:
            assert polled(consumer, 1) == ALL[:1]
            rows = polled(consumer, 1)
            assert rows == [("a", 10, 20, False)], "it was read again"
            reading.fails = {("a", 20): CorruptFile("again")}
            with pytest.raises(CorruptFile, match="again"):
                consumer.poll()
            consumer.commit()
            assert group.committed() == {"a": (20, False)}

    def test_end_of_a_split_detected_late_is_not_committed_without_a_call(
        self, new_consumer: ConsumerFactory, group: FakeGroup, reading: FakeReading, new_split: Any
    ) -> None:
        """The last rows were returned before the end of the split was detected."""
        group.rounds["plan-1"] = (new_split("a", 20),)
        reading.fails = {("a", 20): StorageError("s")}
        with new_consumer() as consumer:
            assert polled(consumer) == [("a", 0, 10, False), ("a", 10, 20, False)]
            assert group.committed() == {}
            consumer.commit()
            assert group.committed() == {"a": (20, True)}

    def test_interrupted_read_loses_nothing(
        self, new_consumer: ConsumerFactory, group: FakeGroup, reading: FakeReading
    ) -> None:
        """Ctrl-C during the read of the next batch: neither this batch nor the one before it was returned."""
        reading.fails = {("a", 20): KeyboardInterrupt()}  # type: ignore[dict-item]
        with new_consumer() as consumer:
            first = polled(consumer, 1)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll()
            consumer.commit()
            assert group.committed() == {"a": (10, False)}
            assert first + polled(consumer) == ALL

    def test_server_that_restarts_keeps_the_member(self, new_consumer: ConsumerFactory, group: FakeGroup) -> None:
        with new_consumer() as consumer:
            first = polled(consumer, 1)
            group.fails = [StorageError("restarting")] * 3
            consumer.commit()
            assert first + polled(consumer) == ALL
        assert len(group.calls_of("join")) == 1


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
