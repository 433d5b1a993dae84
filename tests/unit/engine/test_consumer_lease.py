"""The lease and the retries of a consumer: heartbeats, fencing, and failing servers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.proto.errors import (
    CorruptFile,
    Fenced,
    Overloaded,
    PermissionDenied,
    StorageError,
    UnknownGroup,
)
from tests.unit.engine.consumer_factory import ALL, LEASE_MS, ConsumerFactory, polled
from tests.unit.engine.fake_group import FakeClock, FakeGroup, FakeReading


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

        monkeypatch.setattr("penstock.engine.group.split_work.read_split", slow)
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
