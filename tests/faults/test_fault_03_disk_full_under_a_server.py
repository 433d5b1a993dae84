"""Fault 3, at the server: calls that are not durable are not acknowledged; it stays down until restarted."""

from __future__ import annotations

import pathlib
import resource
from typing import Any

import pytest

from penstock.proto.errors import StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import GroupScope, GroupSpec
from penstock.proto.model.queries import Changes, PlanRequest
from tests.faults.served import CASE, ONCE, Served, check_changes, drain, following, until

pytestmark = pytest.mark.golden
REQUEST = PlanRequest(table="t", query=Changes(ChangeFormat.HUDI))
SPEC = GroupSpec(scope=GroupScope(request=REQUEST))


def test_fault_03_server_with_a_full_disk_is_unavailable_until_restarted(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file size limit makes the disk full for the process, which therefore writes no bytecode: it would be cut."""
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with Served(tmp_path, golden.table(CASE)) as server:
        client = server.client(ONCE)
        member = client.join_group("g", "r1", SPEC, "first").member
        until(lambda: client.describe_group("t", "g").pending_splits, "splits")
        wal_bytes = max(path.stat().st_size for path in (tmp_path / "state").glob("*-wal"))
        assert wal_bytes > 3 * server.log.stat().st_size  # the log file stays below the limit
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (wal_bytes, resource.RLIM_INFINITY))
        with pytest.raises(StorageError, match="start the server again"):
            client.request_splits(member, 2, 1)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
        calls = (
            lambda: client.request_splits(member, 2, 1),
            lambda: client.request_splits(member, 2, 2),
            lambda: client.heartbeat(member),
            lambda: client.join_group("g", "r2", SPEC, "second"),
            lambda: client.open_plan(REQUEST, "once"),
            lambda: client.describe_group("t", "g"),
        )
        for call in calls:
            with pytest.raises(StorageError, match="start the server again") as caught:
                call()
            assert str(tmp_path) not in str(caught.value), "the path of the state is in the server's log only"
        assert server.serves() == "NOT_SERVING"
        server.kill()
        server.start()
        described = client.describe_group("t", "g")
        assert (described.held_splits, [one.reader_id for one in described.readers]) == (0, ["r1"])
        assert client.request_splits(member, 2, 1) == client.request_splits(member, 2, 1)
        assert client.describe_group("t", "g").held_splits == 2
        with following(server, "r1") as reader:
            check_changes(golden, drain(reader))
