"""Fault 3: a sync of the disk takes 30 seconds of the server's clock, longer than a lease. Meanwhile no call is
answered; then all are, and no lease has ended because of it."""

from __future__ import annotations

import pathlib
import threading
from contextlib import ExitStack, closing
from typing import Any, Final
from unittest.mock import patch

import pytest

from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.journal import Journal, Ticket
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.model.groups import Assignments, SplitProgress
from tests.faults.checks import fail
from tests.faults.forgetful_disk import Call, ForgetfulDisk
from tests.faults.local_server import SPEC, Clock
from tests.faults.served import CASE, until

pytestmark = pytest.mark.golden
LEASE_MS: Final = 20_000
SYNC_MS: Final = 30_000


def under_a_slow_disk(golden: Any, folder: pathlib.Path) -> None:
    """A commit and a heartbeat wait for the disk; CheckFailed."""
    clock = Clock()
    with closing(ForgetfulDisk()) as disk, ExitStack() as stack:
        store = open_sqlite(folder / "state", connect=disk.connect)
        stack.callback(store.close)
        journal = Journal(store)
        stack.callback(journal.close)
        settings = CoordinatorSettings(lease_ms=LEASE_MS)
        coordinator = durable_coordinator(store, journal, clock_ms=clock, settings=settings)
        service = EnumeratorService(
            {"t": str(golden.table(CASE))}, clock_ms=clock, coordinator=coordinator, poll_ms=None
        )
        holder, other = (service.join_group("g", name, SPEC, name).member for name in ("holder", "other"))
        service.split_discovery.discover()
        assigned = service.request_splits(holder, 1, 1)
        assert isinstance(assigned, Assignments)
        done = tuple(SplitProgress(ref=one.ref, ordinal=9, finished=True) for one in assigned.splits)
        slow = stack.enter_context(_SlowSyncs(disk))
        calls = [
            threading.Thread(target=service.commit_splits, args=(holder, done)),
            threading.Thread(target=service.heartbeat, args=(other,)),
        ]
        for call in calls:
            call.start()
        until(
            lambda: slow.waiting + sum(not call.is_alive() for call in calls) >= len(calls),
            "each call waits, or was answered",
        )
        clock.now_ms += SYNC_MS
        if not all(call.is_alive() for call in calls):
            fail("no answer before it is durable", "a call was answered before its sync ended")
        slow.release.set()
        for call in calls:
            call.join()
        coordinator.tick()
        if len(readers := service.describe_group("t", "g").readers) != 2:
            fail("a slow disk ends no lease", f"after a sync of {SYNC_MS} ms the readers are {readers}")
        assert service.heartbeat(holder) == service.heartbeat(other) == LEASE_MS
        assert service.describe_group("t", "g").held_splits == 0


class _SlowSyncs:
    """Syncs end when they are released. `waiting` counts the calls that wait for one."""

    def __init__(self, disk: ForgetfulDisk) -> None:
        self.release, self.waiting, self._disk = threading.Event(), 0, disk
        real = Ticket.wait

        def wait(ticket: Ticket, *arguments: Any) -> None:
            self.waiting += 1
            real(ticket, *arguments)

        self._patch = patch.object(Ticket, "wait", wait)

    def __enter__(self) -> _SlowSyncs:
        self._patch.start()
        self._disk.before_call = self._before_call
        return self

    def __exit__(self, *error: object) -> None:
        self.release.set()
        self._patch.stop()

    def _before_call(self, call: Call) -> int:
        if call == "sync":
            self.release.wait()
        return 0


def test_fault_03_disk_that_syncs_for_30_seconds_delays_answers_and_ends_no_lease(
    golden: Any, tmp_path: pathlib.Path
) -> None:
    under_a_slow_disk(golden, tmp_path)
