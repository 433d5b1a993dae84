"""`penstock streams list` on a scripted server: text, JSON, the table that is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.engine.cli.commands.streams import event_time_text
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.model.groups import GroupLag, ServerStatus
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.server_status import StreamState, StreamStatus
from penstock.proto.model.streams import END_OF_TIME_US, SnapshotPlace

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli

SERVER = ("--server", "127.0.0.1:7070")
STREAMS = (
    StreamStatus(
        table="orders",
        name="[red]q",
        state=StreamState.HELD,
        committed=EARLIEST,
        planned=Position(InstantTime("20260103000000000"), 2),
        batches=7,
        silent_ms=1_500,
        watermark_us=1_700_000_000_500_000,
        snapshot=SnapshotPlace(done=3, total=9, digest="00ff"),
        lag=GroupLag(commits=2, size_bytes=900, seconds=61.4, loss_commits=1, loss_seconds=30.0),
        lag_age_ms=100,
        alignment="clicks",
        ceiling_us=1_700_000_600_000_000,
    ),
    StreamStatus(
        table="orders",
        name="stream-0a",
        state=StreamState.FAILED,
        committed=EARLIEST,
        planned=EARLIEST,
        error_code="POSITION_EXPIRED",
    ),
)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tables that the command asks for."""
    asked: list[str] = []

    def describe(client: EnumeratorClient, table: str = "") -> ServerStatus:
        asked.append(table)
        return ServerStatus(version="1", now_ms=1, uptime_ms=1, streams=STREAMS)

    monkeypatch.setattr(EnumeratorClient, "describe_server", describe)
    return asked


def test_streams_are_listed(cli: Cli, tables: list[str]) -> None:
    result = cli("streams", "list", *SERVER, "--table", "orders")
    assert result.code == 0 and tables == ["orders"]
    names, _, first, second = (line.split() for line in result.text.splitlines())
    assert names[:4] == ["table", "name", "state", "committed"]
    assert first[:4] == ["orders", "[red]q", "held", "0"]
    text = " ".join(first[4:])
    assert text.startswith("20260103000000000+2 (3 of 9 splits) 61 s 2 commits 1 commits, 30 s 2023-11-14 22:13:20")
    assert text.endswith("clicks up to 2023-11-14 22:23:20")
    assert second == ["orders", "stream-0a", "failed", "POSITION_EXPIRED", "0", "0", "-", "-", "-", "-", "-"]


def test_streams_are_listed_as_json(cli: Cli, tables: list[str]) -> None:
    first, second = cli("streams", "list", *SERVER, "--format", "json").json
    assert tables == [""]
    assert first == {
        "table": "orders",
        "name": "[red]q",
        "state": "held",
        "committed": "0",
        "planned": "20260103000000000+2",
        "batches": 7,
        "silent_ms": 1500,
        "watermark_us": 1_700_000_000_500_000,
        "snapshot": {"done": 3, "total": 9},
        "kafka": None,
        "lag": {
            "commits": 2,
            "size_bytes": 900,
            "seconds": 61.4,
            "loss_commits": 1,
            "loss_seconds": 30.0,
            "holds_cleaner": False,
            "age_ms": 100,
        },
        "error_code": None,
        "alignment": "clicks",
        "ceiling_us": 1_700_000_600_000_000,
    }
    assert (second["lag"], second["error_code"], second["watermark_us"]) == (None, "POSITION_EXPIRED", None)


def test_list_needs_a_server(cli: Cli) -> None:
    result = cli("streams", "list")
    assert result.code == 2 and "server" in result.stderr


@pytest.mark.parametrize(
    ("at_us", "text"),
    [(None, "-"), (0, "1970-01-01 00:00:00"), (2**63 - 1, str(2**63 - 1)), (END_OF_TIME_US, "9999-01-01 00:00:00")],
)
def test_any_event_time_has_a_text(at_us: int | None, text: str) -> None:
    assert event_time_text(at_us) == text
