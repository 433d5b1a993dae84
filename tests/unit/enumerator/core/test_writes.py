"""Write transactions in the core: begins, epochs, leases of file groups, principals, restarts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.enumerator.core.events import Tick
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.writes import events as ev
from penstock.enumerator.core.writes.decide import WriteLimits
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    Overloaded,
    PermissionDenied,
    StorageError,
    TableError,
    WriteConflict,
)
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import MAX_GROUPS_A_LEASE, MAX_REQUESTED_BYTES, TouchedGroups, WriteEnd, WriteState
from tests.unit.enumerator.core.writes import BUCKETS, LEASE_MS, SPEC, Core, groups, write_id


class TestBegin:
    def test_write_is_open_once_it_has_an_instant(self) -> None:
        core = Core()
        this = write_id("a")
        assert core.request(this).state is WriteState.REQUESTED
        assert core.of(this).instant == ""
        core.give_instant(this)
        assert (core.of(this).state, core.of(this).instant) == (WriteState.OPEN, f"{1:017d}")

    def test_repeated_begin_is_the_same_write(self) -> None:
        core = Core()
        this = core.begin("a")
        again = core.request(this)
        assert (again.instant, again.state) == (f"{1:017d}", WriteState.OPEN)
        assert len(core.state.writes["t"].live) == 1

    def test_second_begin_of_an_epoch_is_fenced(self) -> None:
        core = Core()
        this = core.begin("a")
        with pytest.raises(Fenced, match="another process has begun this epoch"):
            core.request(this, request_id="another")
        core.renew(this)

    def test_later_epoch_fences_the_earlier_one(self) -> None:
        core = Core()
        first = core.begin("a", 1)
        second = core.begin("a", 2)
        assert core.of(first).end is WriteEnd.FENCED
        calls: tuple[Callable[[], object], ...] = (
            lambda: core.renew(first),
            lambda: core.lease(first, groups("f")),
            lambda: core.commit(first, groups()),
            lambda: core.request(first),
        )
        for call in calls:
            with pytest.raises(Fenced, match="a later epoch of its owner began"):
                call()
        core.renew(second)

    def test_earlier_epoch_does_not_begin_after_a_later_one(self) -> None:
        core = Core()
        core.begin("a", 2)
        with pytest.raises(Fenced, match="epoch 2 of this owner has begun"):
            core.request(write_id("a", 1))
        core.begin("b", 1)

    def test_later_epoch_waits_for_a_decided_commit(self) -> None:
        core = Core()
        first = core.begin("a", 1)
        core.commit(first, groups())
        core.begin("b", 1)
        with pytest.raises(StorageError, match=r"epoch 1 of this owner .* is decided, and not complete yet"):
            core.request(write_id("a", 2))
        core.complete(first)
        core.begin("a", 2)
        assert core.of(first).state is WriteState.COMPLETED

    def test_instants_must_be_in_order(self) -> None:
        core = Core(instants=7)
        core.begin("a")
        this = write_id("b")
        core.request(this)
        for instant in (f"{8:017d}", f"{3:017d}"):
            with pytest.raises(TableError, match="the timeline went back"):
                core.handle(ev.InstantCreated(id=this, instant=InstantTime(instant), newest_completed="", pending=()))
        core.give_instant(this)

    def test_instant_of_a_write_that_ended_meanwhile_is_not_used(self) -> None:
        core = Core()
        this = write_id("a")
        core.request(this)
        core.abort(this)
        assert core.of(this).state is WriteState.ABORTED, "it has no instant that must be rolled back"
        with pytest.raises(Fenced, match="it was aborted"):
            core.give_instant(this)

    def test_begin_may_wait_longer_than_a_lease_for_its_instant(self) -> None:
        core, begin_ms = Core(), WriteLimits().begin_ms
        this, other = write_id("a"), write_id("b")
        for write in (this, other):
            core.request(write)
        core.now_ms += begin_ms - 1
        core.handle(Tick(core.now_ms))
        core.give_instant(this)
        core.now_ms += 1
        core.handle(Tick(core.now_ms))
        assert core.of(this).state is WriteState.OPEN
        with pytest.raises(Fenced, match="its lease ended"):
            core.give_instant(other)

    def test_bounds(self) -> None:
        core = Core(CoordinatorSettings(writes=WriteLimits(max_writes_of_table=2, max_writes_of_principal=3)))
        core.begin("a", principal="alice")
        core.begin("b", principal="alice")
        with pytest.raises(Overloaded, match="2 open writes"):
            core.begin("c")
        other = write_id("a", table="u")
        core.request(other, principal="alice")
        with pytest.raises(Overloaded, match="the caller has 3 open writes"):
            core.request(write_id("b", table="u"), principal="alice")
        core.request(write_id("b", table="u"), principal="bob")

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"action": "clean"}, "expected a write's action"),
            ({"requested": bytes(MAX_REQUESTED_BYTES + 1)}, "requested file"),
        ],
    )
    def test_impossible_specs_are_refused(self, change: dict[str, object], text: str) -> None:
        with pytest.raises(ConfigurationError, match=text):
            Core().request(write_id("a"), spec=replace(SPEC, **change))  # type: ignore[arg-type]

    def test_epochs_begin_at_one(self) -> None:
        with pytest.raises(ConfigurationError, match="an epoch is 1 or more"):
            Core().request(write_id("a", 0))


class TestLeases:
    def test_conflict_is_told_at_once_and_takes_nothing(self) -> None:
        core = Core()
        first, second = core.begin("a"), core.begin("b")
        core.lease(first, groups("f", "g"))
        text = re.escape("'a', epoch 1 (instant 00000000000000001), holds file group g of partition 'p'")
        with pytest.raises(WriteConflict, match=text):
            core.lease(second, groups("g", "h"))
        assert not core.of(second).held.size
        core.lease(second, groups("h"))

    def test_groups_are_held_until_the_commit_is_complete(self) -> None:
        core = Core()
        first, second = core.begin("a"), core.begin("b")
        core.lease(first, groups("f"))
        core.commit(first, groups("f"))
        with pytest.raises(WriteConflict, match="holds file group f"):
            core.lease(second, groups("f"))
        core.complete(first)
        with pytest.raises(WriteConflict, match="changed file group f of partition 'p' after this write had begun"):
            core.lease(second, groups("f"))
        third = core.begin("c")
        core.lease(third, groups("f"))

    def test_groups_are_held_until_the_rollback(self) -> None:
        core = Core()
        first, second = core.begin("a"), core.begin("b")
        core.lease(first, groups("f"))
        core.abort(first)
        with pytest.raises(WriteConflict, match="holds file group f of partition 'p' until it is rolled back"):
            core.lease(second, groups("f"))
        core.roll_back(first)
        core.lease(second, groups("f"))

    def test_repeated_leases_are_none(self) -> None:
        core = Core()
        this = core.begin("a")
        core.lease(this, groups("f"))
        before = len(core.log)
        core.lease(this, groups("f"))
        assert len(core.log) == before
        core.lease(this, groups("f", "g"))
        assert core.of(this).held == groups("f", "g")

    def test_new_groups_of_one_bucket_conflict(self) -> None:
        core = Core()
        first, second = core.begin("a", spec=BUCKETS), core.begin("b", spec=BUCKETS)
        core.lease(first, groups("00000007-aaaa", inserts=("p",)))
        with pytest.raises(WriteConflict, match="holds bucket 00000007 of partition 'p'"):
            core.lease(second, groups("00000007-bbbb"))
        core.lease(second, groups("00000008-bbbb", inserts=("p",)))

    def test_inserts_into_one_partition_conflict_without_buckets(self) -> None:
        core = Core()
        first, second = core.begin("a"), core.begin("b")
        core.lease(first, groups("f", inserts=("p",)))
        with pytest.raises(WriteConflict, match="holds inserts into partition 'p'"):
            core.lease(second, groups("g", inserts=("p",)))
        core.lease(second, groups("g", inserts=("q",)))

    @pytest.mark.parametrize("is_first", [True, False])
    def test_inserts_anywhere_conflict_with_a_global_index(self, is_first: bool) -> None:
        core = Core()
        first, second = core.begin("a"), core.begin("b")
        of_table = replace(groups("g", inserts=("q",)), keys_of_table=True)
        plain = groups("f", inserts=("p",))
        core.lease(first, of_table if is_first else plain)
        with pytest.raises(WriteConflict, match="inserts into partition"):
            core.lease(second, plain if is_first else of_table)

    def test_bounds(self) -> None:
        core = Core()
        this = core.begin("a")
        many = TouchedGroups(groups=frozenset(("p", str(number)) for number in range(MAX_GROUPS_A_LEASE + 1)))
        with pytest.raises(ConfigurationError, match="ask for them in parts"):
            core.lease(this, many)
        for start in range(0, 20_000, 10_000):
            part = frozenset(("p", str(number)) for number in range(start, start + 10_000))
            core.lease(this, TouchedGroups(groups=part))
        with pytest.raises(ConfigurationError, match="write in parts"):
            core.lease(this, groups("one more"))

    def test_write_without_an_instant_takes_none(self) -> None:
        core = Core()
        this = write_id("a")
        core.request(this)
        with pytest.raises(Fenced, match="no instant yet"):
            core.lease(this, groups("f"))


class TestPrincipals:
    def test_calls_of_another_principal_are_refused(self) -> None:
        core = Core()
        this = core.begin("a", principal="alice")
        events: tuple[ev.WriteEvent, ...] = (
            ev.BeginWrite(id=this, request_id="a/1", spec=SPEC, principal="bob"),
            ev.BeginWrite(id=write_id("a", 2), request_id="x", spec=SPEC, principal="bob"),
            ev.LeaseGroups(id=this, touched=groups("f"), principal="bob"),
            ev.AbortWrite(id=this, principal="bob"),
        )
        for event in events:
            with pytest.raises(PermissionDenied, match="another principal"):
                core.handle(event)
        core.lease(this, groups("f"), principal="alice")


class TestRestarts:
    @pytest.mark.parametrize("compacted", [False, True])
    def test_state_is_restored(self, compacted: bool) -> None:
        core = Core()
        done, slow, gone = core.begin("done"), core.begin("slow", spec=BUCKETS), core.begin("gone")
        decided, failed, requested = core.begin("decided"), core.begin("failed"), write_id("requested")
        core.lease(done, groups("d", inserts=("q",)))
        core.lease(slow, groups("00000001-x"))
        core.commit(done, groups("d"))
        core.complete(done)
        core.abort(gone)
        core.roll_back(gone)
        core.commit(decided, groups(), b"metadata")
        core.commit(failed, groups())
        core.refuse(failed, "refused")
        core.request(requested, principal="alice")
        before = [core.of(each) for each in (done, slow, gone, decided, failed, requested)]
        core.restart(compacted=compacted)
        for write in before:
            expected = replace(write, until_ms=None)
            assert replace(core.of(write.id), until_ms=None) == expected
        assert core.of(slow).until_ms == core.now_ms + LEASE_MS
        third = core.begin("third")
        assert core.of(third).begun == core.of(done).completed + 1
