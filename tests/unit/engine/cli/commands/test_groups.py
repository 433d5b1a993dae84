"""`penstock groups` with a scripted group: output, requests to the server, usage errors."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.proto.errors import StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import (
    GroupAlignment,
    GroupLag,
    GroupScope,
    GroupSpec,
    GroupStatus,
    StartAt,
    StartLatest,
    StartSnapshot,
)
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaAccess, KafkaPlace, PartitionPlace, Phase
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from penstock.proto.model.streams import Alignment, EventTimeRule, SnapshotPlace

if TYPE_CHECKING:
    from tests.unit.engine.cli.command_line import Cli

SERVER = ("--server", "127.0.0.1:7070")


@pytest.fixture
def service(group: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Every server address leads to the scripted group."""
    group.spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="trips", query=Incremental(), where="id > 1")))
    monkeypatch.setattr("penstock.engine.group.connect.group_enumerator_for", lambda server, access: group)
    return group


def test_groups_are_listed(cli: Cli, service: Any) -> None:
    result = cli("groups", "list", *SERVER)
    assert result.code == 0
    assert [line.split() for line in result.text.splitlines()] == [
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
            "tables": None,
            "over": None,
        }
    ]
    assert cli("groups", "list", *SERVER, "--table", "other", "--format", "json").json == []
    assert service.calls_of("list") == [("list", ""), ("list", ""), ("list", "other")]


def test_group_is_described(cli: Cli, service: Any) -> None:
    report = cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json
    assert report["lag"] == {
        "commits": 2,
        "size_bytes": 3_000_000,
        "seconds": 61.5,
        "loss_commits": 8,
        "loss_seconds": None,
        "holds_cleaner": False,
    }
    assert report["members"] == [{"reader_id": "r", "epoch": 2, "held_splits": 1, "lease_left_ms": 4000}]
    assert report["scope"]["query"] == "incremental"
    assert report["scope"]["max_commits"] == 5
    assert report["error"] is None
    text = cli("groups", "describe", "trips", "g", *SERVER).text
    cells = [line.split(maxsplit=2) for line in text.splitlines()]
    for expected in (["lag", "commits", "2"], ["lag", "size_bytes", "3000000"], ["lag", "seconds", "61.5"]):
        assert expected in cells
    assert ["scope", "where", "id > 1"] in cells
    assert text.splitlines()[-1].split() == ["r", "2", "1", "4000"]


def test_group_with_a_watermark_prints_it_and_its_place_in_the_snapshot(
    cli: Cli, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json
    assert (plain["watermark"], plain["snapshot"], plain["scope"]["event_time"]) == (None, None, None)
    assert "snapshot" not in cli("groups", "describe", "trips", "g", *SERVER).text
    request = PlanRequest(table="trips", query=Incremental(), event_time="at", event_time_unit="ms")
    rule = EventTimeRule(max_out_of_orderness_us=1_500_000)
    service.spec = GroupSpec(scope=GroupScope(request=request, rule=rule, idle_timeout_us=60_000_000))
    described, place = service.describe_group, SnapshotPlace(done=3, total=9, digest="0" * 32)
    timed = {"watermark_us": 1_700_000_000_123_456, "snapshot": place}
    monkeypatch.setattr(service, "describe_group", lambda *arguments: replace(described(*arguments), **timed))
    report = cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json
    assert (report["watermark"], report["snapshot"]) == (
        "2023-11-14T22:13:20.123Z",
        {"planned_splits": 3, "splits": 9},
    )
    assert (report["scope"]["max_out_of_orderness_seconds"], report["scope"]["idle_timeout_seconds"]) == (1.5, 60.0)
    cells = [line.split() for line in cli("groups", "describe", "trips", "g", *SERVER).text.splitlines()]
    assert ["snapshot", "planned_splits", "3"] in cells
    assert ["watermark", "2023-11-14T22:13:20.123Z"] in cells


def test_aligned_group_prints_how_far_it_may_read(cli: Cli, service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json
    assert (plain["alignment"], plain["scope"]["align_with"], plain["scope"]["max_drift_seconds"]) == (None, None, None)
    assert "alignment" not in cli("groups", "describe", "trips", "g", *SERVER).text
    request = PlanRequest(table="trips", query=Incremental(), event_time="at")
    rule, alignment = EventTimeRule(max_out_of_orderness_us=1), Alignment(set="s", max_drift_us=60_000_000)
    service.spec = GroupSpec(scope=GroupScope(request=request, rule=rule, alignment=alignment))
    described, aligned = service.describe_group, GroupAlignment("s", 1_700_000_000_123_456, held=True)
    monkeypatch.setattr(service, "describe_group", lambda *arguments: replace(described(*arguments), alignment=aligned))
    report = cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json
    assert report["alignment"] == {"set": "s", "until": "2023-11-14T22:13:20.123Z", "held": True}
    assert (report["scope"]["align_with"], report["scope"]["max_drift_seconds"]) == ("s", 60.0)
    cells = [line.split() for line in cli("groups", "describe", "trips", "g", *SERVER).text.splitlines()]
    assert ["alignment", "held", "True"] in cells


def test_group_without_a_topic_prints_no_kafka_fields(cli: Cli, service: Any) -> None:
    assert cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json["kafka"] is None
    assert "kafka" not in cli("groups", "describe", "trips", "g", *SERVER).text


def test_hybrid_group_prints_its_phase_and_its_hand_over(
    cli: Cli, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hybrid = Hybrid(mode=HybridMode.APPEND, topic="orders", access=KafkaAccess(client=(("sasl.password", "pa55"),)))
    request = PlanRequest(table="trips", query=Incremental(), hybrid=hybrid)
    service.spec = GroupSpec(scope=GroupScope(request=request))
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
    described = service.describe_group
    monkeypatch.setattr(service, "describe_group", lambda *arguments: replace(described(*arguments), kafka=place))
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


def test_group_of_changes_prints_their_format(cli: Cli, service: Any) -> None:
    service.spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="trips", query=Changes(ChangeFormat("hudi")))))
    assert cli("groups", "describe", "trips", "g", *SERVER, "--format", "json").json["scope"]["query"] == "cdc (hudi)"


@pytest.mark.parametrize(
    ("to", "start"),
    [
        ("earliest", StartAt(EARLIEST)),
        ("latest", StartLatest()),
        ("snapshot", StartSnapshot()),
        ("20260103000000000", StartAt(Position(InstantTime("20260103000000000")))),
        ("2026-01-03T01:00:00.000+01:00", StartAt(Position(InstantTime("20260103000000000")))),
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_group_reset_sends_the_new_start(cli: Cli, service: Any, to: str, start: object, dry: tuple[str, ...]) -> None:
    report = cli("groups", "reset", "trips", "g", *SERVER, "--to", to, *dry, "--format", "json").json
    assert service.calls_of("reset") == [("reset", "trips", "g", start, bool(dry))]
    assert report["dry_run"] is bool(dry)
    assert (report["before"], report["dropped_splits"]) == ("0", 4)


def test_group_reset_prints_text(cli: Cli, service: Any) -> None:
    text = cli("groups", "reset", "trips", "g", *SERVER, "--to", "earliest", "--dry-run").text
    assert ["dropped_splits", "4"] in [line.split() for line in text.splitlines()]


def test_group_is_deleted(cli: Cli, service: Any) -> None:
    result = cli("groups", "delete", "trips", "g", *SERVER)
    assert (result.code, result.stdout) == (0, b"")
    assert service.calls_of("delete") == [("delete", "trips", "g")]


@pytest.mark.parametrize("command", [("describe",), ("reset", "--to", "latest"), ("delete",)])
def test_unknown_group_exits_with_its_error_code(cli: Cli, service: Any, command: tuple[str, ...]) -> None:
    result = cli("groups", command[0], "trips", "nobody", *command[1:], *SERVER)
    assert result.code == 1
    assert result.stderr == "error [UNKNOWN_GROUP]: no group nobody on table trips\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_groups_usage_errors(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    result = cli("groups", *arguments)
    assert result.code == 2
    assert message in result.stderr
    assert result.stdout == b""


def test_unreachable_server_is_a_storage_error(cli: Cli, service: Any) -> None:
    service.fails = [StorageError("nobody answers")]
    result = cli("groups", "list", *SERVER)
    assert (result.code, result.stderr) == (75, "error [STORAGE]: nobody answers\n")


def test_group_over_tables_is_one_line_and_a_table_of_its_tables(cli: Cli, service: Any) -> None:
    whole = replace(service._summary(), table="s.*", tables=3)
    one = GroupStatus(
        summary=replace(service._summary(), table="s.a", over="s.*"),
        pending_splits=4,
        held_splits=1,
        lag=GroupLag(commits=2, size_bytes=3, seconds=61.5),
        error_code="TABLE",
    )
    other = replace(one, summary=replace(one.summary, table="s.b"), lag=None, error_code="")
    full = replace(service.describe_group("s.*", "g"), summary=whole, tables=(one, other))
    service.list_groups = lambda table="": (whole, one.summary, other.summary)
    service.describe_group = lambda table, group: full
    listed = [line.split() for line in cli("groups", "list", *SERVER).text.splitlines()[2:]]
    assert [line[:5] for line in listed] == [["s.*", "(3", "tables)", "g", "running"]]
    assert len(cli("groups", "list", *SERVER, "--table", "s.*").text.splitlines()) == 5
    assert [each["over"] for each in cli("groups", "list", *SERVER, "--format", "json").json] == [None, "s.*", "s.*"]
    text = cli("groups", "describe", "s.*", "g", *SERVER, "--tables", "1").text
    assert "s.a" in text and "s.b" not in text and "and 2 more tables" in text
    cells = [line.split() for line in text.splitlines()]
    assert ["s.a", "running", "0", "2", "61.5", "4", "1", "TABLE"] in cells
    by_table = cli("groups", "describe", "s.*", "g", *SERVER, "--format", "json").json["by_table"]
    assert [(each["table"], each["lag_commits"]) for each in by_table] == [("s.a", 2), ("s.b", None)]


def test_reset_of_a_pattern_takes_no_time_of_a_zone(cli: Cli, service: Any) -> None:
    result = cli("groups", "reset", "s.*", "g", "--to", "2026-01-01", *SERVER)
    assert result.code == 2 and "time zone of its own" in result.stderr
