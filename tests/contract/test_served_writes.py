"""Writes of a table through a real server over gRPC: two writers, the list of writes, and the command line."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.cli.main import run
from penstock.engine.write.service.remote_transaction import WriteServer, write_server
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import RunningServer, serve
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, Fenced, PenstockError, TableNotFound, WriteConflict
from penstock.proto.model.writes import (
    NO_PROGRESS,
    BegunWrite,
    TouchedGroups,
    WriteCommit,
    WriteId,
    WriteProgress,
    WriteSpec,
    WriteState,
)
from tests.unit.engine.write.service.coordinated import create, ids, rows, write_through


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "t"
    create(path)
    return path


@pytest.fixture
def server(table: pathlib.Path) -> Iterator[RunningServer]:
    with serve({"t": str(table)}, "127.0.0.1:0", functions=TableFunctions(timelines=ServedTimeline)) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> EnumeratorClient:
    return EnumeratorClient(server.address)


def connected(server: RunningServer) -> WriteServer:
    """The server, as a writer reaches it."""
    known = write_server(server.address, None)
    assert known is not None
    return known


def test_two_writers_share_a_table(server: RunningServer, table: pathlib.Path, client: EnumeratorClient) -> None:
    def second() -> None:
        penstock.write("t", rows("b", "riga"), server=server.address)
        (first,) = client.list_writes("t")
        with pytest.raises(WriteConflict, match=f"instant {first.instant}"):
            penstock.write("t", rows("c", "oslo"), server=server.address)

    write_through(connected(server), "t", rows("a", "oslo"), after=second)
    assert ids(table) == [(f"{name}{n}", 1) for name in "ab" for n in range(3)]
    assert client.list_writes() == ()


def test_calls_have_the_answers_of_the_service(client: EnumeratorClient) -> None:
    this, touched = WriteId("t", "a", 1), TouchedGroups(groups=frozenset({("p", "00000001-x")}))
    spec = WriteSpec(action="deltacommit", by_bucket=True)
    begun = client.begin_write(this, "r", spec)
    assert isinstance(begun, BegunWrite)
    assert client.begin_write(this, "r", spec) == begun
    client.lease_groups(this, touched)
    assert client.renew_write(this, WriteProgress(3, 77)) == begun.lease_ms
    (shown,) = client.list_writes()
    assert (shown.id, shown.state, shown.instant, shown.groups) == (this, WriteState.OPEN, begun.instant, 1)
    assert shown.progress == WriteProgress(3, 77)
    assert 0 < shown.lease_left_ms <= begun.lease_ms
    assert client.list_writes("another") == ()
    client.abort_write(this)
    client.abort_write(this)
    with pytest.raises(Fenced, match="it was aborted"):
        client.renew_write(this, NO_PROGRESS)
    with pytest.raises(Fenced, match="it was aborted"):
        client.commit_write(this, WriteCommit(metadata=b"", touched=touched, writes_base_files=True))


@pytest.mark.parametrize(
    ("this", "spec", "error"),
    [
        (WriteId("unknown", "a", 1), WriteSpec(action="commit"), TableNotFound),
        (WriteId("t", "a b", 1), WriteSpec(action="commit"), ConfigurationError),
        (WriteId("t", "a", 0), WriteSpec(action="commit"), ConfigurationError),
        (WriteId("t", "a", 1), WriteSpec(action="clean"), ConfigurationError),
        (WriteId("t", "a", 1), WriteSpec(action="commit", requested=bytes(1 << 20)), ConfigurationError),
        (WriteId("t", "a" * 201, 1), WriteSpec(action="commit"), ConfigurationError),
    ],
)
def test_begins_that_cannot_be(
    client: EnumeratorClient, this: WriteId, spec: WriteSpec, error: type[PenstockError]
) -> None:
    with pytest.raises(error):
        client.begin_write(this, "r", spec)
    assert client.list_writes() == ()


def test_server_without_timelines_says_so(table: pathlib.Path) -> None:
    with (
        serve({"t": str(table)}, "127.0.0.1:0") as running,
        pytest.raises(ConfigurationError, match="coordinates no writes"),
    ):
        penstock.write("t", rows("a", "oslo"), server=running.address)


def test_command_writes_through_a_server(
    server: RunningServer, table: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(rows("a", "oslo"), file)
    assert run(["write", "t", str(file), "--server", server.address, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 3
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"id": "b0", "seq": 1, "city": "riga"}\n')
    assert run(["write", "t", str(lines), "--server", server.address]) == 0
    assert ids(table) == [("a0", 1), ("a1", 1), ("a2", 1), ("b0", 1)]


def test_command_lists_writes(
    server: RunningServer, client: EnumeratorClient, capsys: pytest.CaptureFixture[str]
) -> None:
    begun = client.begin_write(WriteId("t", "a", 4), "r", WriteSpec(action="deltacommit"))
    assert run(["writes", "list", "--server", server.address, "--format", "json"]) == 0
    (shown,) = json.loads(capsys.readouterr().out)
    assert 0 < shown.pop("lease_left_ms") <= begun.lease_ms
    assert shown == {
        "table": "t",
        "owner": "a",
        "epoch": 4,
        "state": "open",
        "instant": begun.instant,
        "groups": 0,
        "files": 0,
    }
    assert run(["writes", "list", "--server", server.address, "--table", "other"]) == 0
    assert begun.instant not in capsys.readouterr().out
    assert run(["writes", "list", "--server", server.address]) == 0
    assert begun.instant in capsys.readouterr().out
