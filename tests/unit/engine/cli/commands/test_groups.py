"""`penstock groups`: what it shows of a scripted group, what it asks for, what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.proto.errors import StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import GroupScope, GroupSpec, StartAt, StartLatest
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaAccess, KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli

SERVER = ("--server", "127.0.0.1:7070")


@pytest.fixture
def door(group: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The scripted group behind any server."""
    group.spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="trips", query=Incremental(), where="id > 1")))
    monkeypatch.setattr("penstock.engine.group.connect.group_enumerator_for", lambda server, access: group)
    return group


def test_groups_are_listed(cli: Cli, door: Any) -> None:
    ended = cli("groups", "list", *SERVER)
    assert ended.code == 0
    assert [line.split() for line in ended.text.splitlines()] == [
        ["table", "group", "state", "committed", "planned", "readers"],
        ["-----", "-----", "-------", "---------", "-------------------", "-------"],
        ["trips", "g", "running", "0", "20260103000000000+2", "1"],
    ]
    assert cli("groups", "list", *SERVER, "--format", "json").json == [
        {
            "table": "trips",
            "group": "g",
            "state": "running",
            "committed": "0",
            "planned": "20260103000000000+2",
            "readers": 1,
        }
    ]
    assert cli("groups", "list", *SERVER, "--table", "other", "--format", "json").json == []
    assert door.named("list") == [("list", ""), ("list", ""), ("list", "other")]


def test_a_group_is_described(cli: Cli, door: Any) -> None:
    found = cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json
    assert found["lag"] == {
        "commits": 2,
        "size_bytes": 3_000_000,
        "seconds": 61.5,
        "loss_commits": 8,
        "loss_seconds": None,
    }
    assert found["members"] == [{"reader_id": "r", "epoch": 2, "held_splits": 1, "lease_left_ms": 4000}]
    assert found["scope"]["query"] == "incremental"
    assert found["scope"]["max_commits"] == 5
    assert found["error"] is None
    text = cli("groups", "describe", "trips", "g", *SERVER).text
    cells = [line.split(maxsplit=2) for line in text.splitlines()]
    for expected in (["lag", "commits", "2"], ["lag", "size_bytes", "3000000"], ["lag", "seconds", "61.5"]):
        assert expected in cells
    assert "scope where          id > 1" in text
    assert text.splitlines()[-1].split() == ["r", "2", "1", "4000"]


def test_group_without_a_topic_prints_no_kafka_fields(cli: Cli, door: Any) -> None:
    assert cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json["kafka"] is None
    assert "kafka" not in cli("groups", "describe", "trips", "g", *SERVER).text


def test_hybrid_group_prints_its_phase_and_its_hand_over(cli: Cli, door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    hybrid = Hybrid(mode=HybridMode.APPEND, topic="orders", access=KafkaAccess(client=(("sasl.password", "pa55"),)))
    request = PlanRequest(table="trips", query=Incremental(), hybrid=hybrid)
    door.spec = GroupSpec(scope=GroupScope(request=request))
    lake = cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json["kafka"]
    assert (lake["phase"], lake["mode"], lake["topic"]) == ("lake", "append", "orders")
    assert (lake["instant"], lake["partitions"]) == (None, [])
    place = KafkaPlace(
        phase=Phase.KAFKA,
        topic="orders",
        topic_id="id-1",
        instant=InstantTime("20260103000000000"),
        lake=Position(InstantTime("20260103000000123")),
        starts=((0, 17), (1, 12)),
        places=(PartitionPlace(0, 20, behind=4), PartitionPlace(1, 12), PartitionPlace(2, 3)),
    )
    described = door.describe_group
    monkeypatch.setattr(door, "describe_group", lambda *asked: replace(described(*asked), kafka=place))
    assert cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json["kafka"] == {
        "phase": "kafka",
        "mode": "append",
        "topic": "orders",
        "topic_id": "id-1",
        "instant": "20260103000000000",
        "position": "20260103000000123",
        "lag_records": 4,
        "partitions": [
            {"partition": 0, "start": 17, "next": 20, "lag_records": 4},
            {"partition": 1, "start": 12, "next": 12, "lag_records": 0},
            {"partition": 2, "start": None, "next": 3, "lag_records": 0},
        ],
    }
    text = cli("groups", "describe", "trips", "g", *SERVER).text
    cells = [line.split() for line in text.splitlines()]
    assert ["kafka", "phase", "kafka"] in cells
    assert ["kafka", "instant", "20260103000000000"] in cells
    assert ["partition", "start", "next", "lag_records"] in cells
    assert ["0", "17", "20", "4"] in cells
    assert ["2", "-", "3", "0"] in cells
    assert "pa55" not in text


def test_group_of_changes_prints_their_format(cli: Cli, door: Any) -> None:
    door.spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="trips", query=Changes(ChangeFormat("hudi")))))
    assert cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json["scope"]["query"] == "cdc (hudi)"


@pytest.mark.parametrize(
    ("to", "start"),
    [
        ("earliest", StartAt(EARLIEST)),
        ("latest", StartLatest()),
        ("20260103000000000", StartAt(Position(InstantTime("20260103000000000")))),
        ("2026-01-03T01:00:00.000+01:00", StartAt(Position(InstantTime("20260103000000000")))),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_group_reset_sends_the_new_start(cli: Cli, door: Any, to: str, start: object, dry: tuple[str, ...]) -> None:
    found = cli("groups", "reset", "trips", "g", *SERVER, "--to", to, *dry, "--format", "json").json
    assert door.named("reset") == [("reset", "trips", "g", start, bool(dry))]
    assert found["dry_run"] is bool(dry)
    assert (found["before"], found["dropped_splits"]) == ("0", 4)


def test_group_reset_prints_text(cli: Cli, door: Any) -> None:
    text = cli("groups", "reset", "trips", "g", *SERVER, "--to", "earliest", "--dry-run").text
    assert ["dropped_splits", "4"] in [line.split() for line in text.splitlines()]


def test_group_is_deleted(cli: Cli, door: Any) -> None:
    ended = cli("groups", "delete", "trips", "g", *SERVER)
    assert (ended.code, ended.stdout) == (0, b"")
    assert door.named("delete") == [("delete", "trips", "g")]


@pytest.mark.parametrize("command", [("describe",), ("reset", "--to", "latest"), ("delete",)])
def test_unknown_group_exits_with_its_error_code(cli: Cli, door: Any, command: tuple[str, ...]) -> None:
    ended = cli("groups", command[0], "trips", "nobody", *command[1:], *SERVER)
    assert ended.code == 1
    assert ended.stderr == "error [UNKNOWN_GROUP]: no group nobody on table trips\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("list",), "a consumer group needs a server"),
        (("describe", "trips", "g"), "a consumer group needs a server"),
        (("list", "--server", "example.org:1"), "TLS is required there"),
        (("reset", "trips", "g", *SERVER), "Missing option '--to'"),
        (("reset", "trips", "g", *SERVER, "--to", "soon"), "option to: got 'soon'"),
        (("describe", "trips", *SERVER), "Missing argument 'GROUP'"),
        (("describe", "trips", "g g", *SERVER), "group 'g g': expected letters"),
        (("delete", "trips", "", *SERVER), "`group`: got nothing"),
        (("list", *SERVER, "--group", "g"), "No such option"),
        (("list", *SERVER, "--format", "xml"), "'xml' is not one of"),
        ((), ""),
    ],
)
def test_groups_usage_errors(cli: Cli, arguments: tuple[str, ...], told: str) -> None:
    ended = cli("groups", *arguments)
    assert ended.code == 2
    assert told in ended.stderr
    assert ended.stdout == b""


def test_unreachable_server_is_a_storage_error(cli: Cli, door: Any) -> None:
    door.fails = [StorageError("nobody answers")]
    ended = cli("groups", "list", *SERVER)
    assert (ended.code, ended.stderr) == (75, "error [STORAGE]: nobody answers\n")
