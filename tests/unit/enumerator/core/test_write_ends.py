"""Ends of write transactions in the core: commits, aborts, leases that expire, and what the core remembers of them."""

from __future__ import annotations

import pytest

from penstock.enumerator.core.events import Tick
from penstock.enumerator.core.writes import state as write_state
from penstock.proto.errors import ConfigurationError, Fenced, WriteConflict
from penstock.proto.model.writes import MAX_COMMIT_BYTES, WriteEnd, WriteState
from tests.unit.enumerator.core.writes import LEASE_MS, Core, groups, write_id


class TestEnds:
    def test_repeated_commit_has_the_first_answer(self) -> None:
        core = Core()
        this = core.begin("a")
        core.commit(this, groups())
        assert core.commit(this, groups(), b"other").state is WriteState.DECIDED
        core.complete(this)
        core.complete(this)
        again = core.commit(this, groups())
        assert (again.state, again.completion) == (WriteState.COMPLETED, f"9{1:016d}")

    def test_commit_of_groups_without_a_lease_is_refused(self) -> None:
        core = Core()
        this = core.begin("a")
        core.lease(this, groups("f"))
        for touched in (groups("f", "g"), groups("f", inserts=("p",))):
            with pytest.raises(ConfigurationError, match="for which it has no lease"):
                core.commit(this, touched)
        core.commit(this, groups("f"))

    def test_commit_metadata_is_bounded(self) -> None:
        core = Core()
        this = core.begin("a")
        with pytest.raises(ConfigurationError, match="commit metadata"):
            core.commit(this, groups(), bytes(MAX_COMMIT_BYTES + 1))

    def test_refused_commit_has_the_same_answer_again(self) -> None:
        core = Core()
        this = core.begin("a")
        core.commit(this, groups())
        core.refuse(this, "another writer changed g")
        for _ in range(2):
            with pytest.raises(WriteConflict, match="another writer changed g"):
                core.commit(this, groups())
            core.roll_back(this)
        assert core.of(this).state is WriteState.ABORTED

    def test_late_results_of_the_timeline_change_nothing(self) -> None:
        core = Core()
        this = core.begin("a")
        core.commit(this, groups())
        core.refuse(this)
        with pytest.raises(WriteConflict):
            core.complete(this)
        other = core.begin("b")
        core.commit(other, groups())
        core.complete(other)
        core.refuse(other)
        core.roll_back(other)
        assert core.of(other).state is WriteState.COMPLETED

    def test_aborted_write_takes_no_more_calls(self) -> None:
        core = Core()
        this = core.begin("a")
        core.abort(this)
        core.abort(this)
        for call in (lambda: core.renew(this), lambda: core.commit(this, groups())):
            with pytest.raises(Fenced, match="it was aborted"):
                call()

    def test_decided_commit_is_not_aborted(self) -> None:
        core = Core()
        this = core.begin("a")
        core.commit(this, groups())
        with pytest.raises(Fenced, match="its commit is decided"):
            core.abort(this)
        core.complete(this)
        with pytest.raises(Fenced, match="its commit is completed"):
            core.abort(this)
        core.abort(write_id("never begun"))

    def test_lease_ends_without_calls(self) -> None:
        core = Core()
        quiet, lively, decided = core.begin("a"), core.begin("b"), core.begin("c")
        core.commit(decided, groups())
        core.tick(LEASE_MS - 1_000)
        core.renew(lively)
        core.tick(2_000)
        assert core.of(quiet).end is WriteEnd.EXPIRED
        assert core.of(lively).state is WriteState.OPEN
        assert core.of(decided).state is WriteState.DECIDED
        with pytest.raises(Fenced, match="its lease ended"):
            core.commit(quiet, groups())

    def test_suspended_server_gives_new_leases(self) -> None:
        core = Core()
        this = core.begin("a")
        before_ms, core.now_ms = core.now_ms, core.now_ms + 10 * LEASE_MS
        core.handle(Tick(before_ms))
        assert core.of(this).until_ms == core.now_ms + LEASE_MS

    def test_old_ends_are_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(write_state, "MAX_ENDED", 3)
        core = Core()
        ids = [core.begin(f"w{number}") for number in range(5)]
        for this in ids:
            core.abort(this)
            core.roll_back(this)
        assert list(core.state.writes["t"].ended) == ids[2:]
        with pytest.raises(Fenced, match="it is not known here"):
            core.renew(ids[0])

    def test_changed_groups_are_forgotten_without_writes_that_began_before(self) -> None:
        core = Core()
        slow, fast = core.begin("slow"), core.begin("fast")
        core.lease(fast, groups("f"))
        core.commit(fast, groups("f"))
        core.complete(fast)
        assert core.of(fast).held == groups("f")
        core.abort(slow)
        core.roll_back(slow)
        assert not core.of(fast).held.size

    def test_changed_groups_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(write_state, "MAX_ENDED_GROUPS", 3)
        core = Core()
        core.begin("slow")
        ids = [core.begin(f"w{number}") for number in range(3)]
        for number, this in enumerate(ids):
            touched = groups(f"a{number}", f"b{number}")
            core.lease(this, touched)
            core.commit(this, touched)
            core.complete(this)
        assert [core.of(this).held.size for this in ids] == [0, 0, 2]
