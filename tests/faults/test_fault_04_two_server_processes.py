"""Fault 4, at the server: a second process on the state waits, and takes over after a kill or with `--takeover`."""

from __future__ import annotations

import pathlib
import signal
from typing import Any

import pytest

from penstock.proto.errors import StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import Assignments, GroupScope, GroupSpec
from penstock.proto.model.queries import Changes, PlanRequest
from tests.faults.served import CASE, ONCE, Served, check_changes, drain, following, until

pytestmark = pytest.mark.golden
SPEC = GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=Changes(ChangeFormat.HUDI))))


def test_fault_04_second_server_waits_and_takes_over_after_a_kill(golden: Any, tmp_path: pathlib.Path) -> None:
    table = golden.table(CASE)
    first, second = Served(tmp_path, table), Served(tmp_path, table, name="second", metrics=True)
    with first, second.start(ready=False):
        client = first.client(ONCE)
        member = client.join_group("g", "r1", SPEC, "first").member
        until(lambda: client.describe_group("t", "g").pending_splits, "splits")
        assignments = client.request_splits(member, 2, 1)
        assert isinstance(assignments, Assignments) and len(assignments.splits) == 2
        until(lambda: f"process {first.pid} on " in second.log.read_text(), "that it waits, and for whom")
        assert second.serves() == "NOT_SERVING"
        with pytest.raises(StorageError, match="its state is not replayed yet"):
            second.client(ONCE).request_splits(member, 2, 1)
        assert second.process is not None
        second.process.send_signal(signal.SIGSTOP)  # so that the state is kept before the second server opens it
        first.kill()
        second.process.send_signal(signal.SIGCONT)
        second.wait_ready()
        assert second.client(ONCE).request_splits(member, 2, 1) == assignments
        assert second.metric("penstock_enumerator_leader_epoch") == 2
        with following(second, "r1") as reader:
            check_changes(golden, drain(reader))


def test_fault_04_takeover_fences_the_first_whose_next_write_is_refused(golden: Any, tmp_path: pathlib.Path) -> None:
    """Calls to the first server then fail like calls to an unreachable server, so readers are not fenced but retry."""
    table = golden.table(CASE)
    first, second = Served(tmp_path, table), Served(tmp_path, table, name="second", flags=["--takeover"])
    with first:
        client = first.client(ONCE)
        member = client.join_group("g", "r1", SPEC, "first").member
        until(lambda: client.describe_group("t", "g").pending_splits, "splits")
        with second:
            for _ in range(2):
                with pytest.raises(StorageError, match="epoch 2 writes now"):
                    client.request_splits(member, 2, 1)
            assert first.serves() == "NOT_SERVING"
            assert second.client(ONCE).describe_group("t", "g").held_splits == 0
            assignments = second.client(ONCE).request_splits(member, 2, 1)
            assert isinstance(assignments, Assignments) and len(assignments.splits) == 2
            with following(second, "r1") as reader:
                check_changes(golden, drain(reader))
