"""`penstock doctor`: a line a check, its level, the exit code; what each number means."""

from __future__ import annotations

import datetime
import os
import pathlib
import time
from typing import TYPE_CHECKING

import pytest

from penstock.engine.doctor import machine
from penstock.engine.doctor.findings import (
    Finding,
    Level,
    judged_certificate,
    judged_java,
    judged_kernels,
    judged_library,
    judged_skew,
    requirement_of,
)
from penstock.engine.doctor.reach import storage_findings
from penstock.enumerator.server.config.settings import Settings, TableSettings, TlsSettings
from penstock.enumerator.server.run import serve, serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.proto.client.certificates import Validity
from tests.certificates import Authority

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

V9 = "A_merge_event_long_v9_h120"
FIELDS = {"check", "level", "text", "advice"}
NOW = datetime.datetime(2026, 6, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def a_quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java is started and no kernel loaded for these tests."""
    monkeypatch.setattr(machine, "banner_of", lambda java: 'openjdk version "17.0.1"')
    monkeypatch.setattr(machine, "cached_kernels", lambda: (3, 3))


def by_check(found: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in found}


class TestMeaning:
    """Pure judgements."""

    @pytest.mark.parametrize(
        ("line", "version", "level"),
        [
            ("numpy>=2.0", "2.4.6", Level.OK),
            ("numpy>=2.0", "1.26.4", Level.FAIL),
            ("numpy>=2.0", None, Level.FAIL),
            ("protobuf<9,>=7.35.1", "9.0", Level.FAIL),
            ("protobuf<9,>=7.35.1", "7.35.1", Level.OK),
            ("grpcio>=1.85.1", "1.85", Level.FAIL),
            ('confluent-kafka>=2.8; extra == "kafka"', None, Level.OK),
            ('confluent-kafka>=2.8; extra == "kafka"', "2.7.9", Level.FAIL),
            ("x~=1.4", "2.0", Level.FAIL),
            ("x~=1.4", "1.9", Level.OK),
        ],
    )
    def test_libraries(self, line: str, version: str | None, level: Level) -> None:
        needed = requirement_of(line)
        assert needed is not None
        assert judged_library(needed, version).level is level

    def test_libraries_of_tests_are_not_checked(self) -> None:
        assert requirement_of('pytest>=8.3; extra == "test"') is None

    @pytest.mark.parametrize(("ahead_s", "level"), [(0.2, "ok"), (-30, "warn"), (30, "warn"), (61, "fail")])
    def test_clocks(self, ahead_s: float, level: str) -> None:
        assert judged_skew("c", ahead_s, "it").level == level

    @pytest.mark.parametrize(("left", "level"), [(-DAY, "fail"), (3 * DAY, "warn"), (90 * DAY, "ok")])
    def test_certificates(self, left: datetime.timedelta, level: str) -> None:
        assert judged_certificate("c", Validity(NOW - 400 * DAY, NOW + left), NOW).level == level
        assert judged_certificate("c", None, NOW).level is Level.WARN

    def test_java_is_required_only_with_spark(self) -> None:
        assert judged_java(None, None, needed=False).level is Level.OK
        assert judged_java(None, None, needed=True).level is Level.WARN
        assert judged_java(11, "11", needed=True).level is Level.WARN
        assert judged_java(21, "21", needed=True).level is Level.OK

    def test_kernels(self) -> None:
        found = [judged_kernels(*told).level for told in ((None, 0, 9), ("f", 0, 9), ("f", 4, 9))]
        assert found == [Level.WARN, Level.WARN, Level.OK]


def test_doctor_without_arguments_checks_the_machine(cli: Cli) -> None:
    ended = cli("doctor", "--format", "json")
    assert ended.code == 0, ended.text
    assert all(set(each) == FIELDS for each in ended.json)
    found = by_check(ended.json)
    assert found["library pyarrow"]["level"] == "ok"
    assert {"python", "penstock", "java", "kernel cache"} <= found.keys()


def test_library_below_its_minimum_version_is_a_failure(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_version", lambda name: "0.1" if name == "pyarrow" else "99")
    ended = cli("doctor")
    assert ended.code == 1
    (line,) = [line for line in ended.text.splitlines() if "library pyarrow" in line]
    assert line.startswith("fail  library pyarrow")
    assert '-> pip install "pyarrow>=' in line


def test_compiled_kernels_of_this_machine_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    compiled, kernels = machine.cached_kernels()
    assert 0 <= compiled <= kernels
    assert kernels >= 3


@pytest.mark.golden
class TestStorage:
    """A table's storage."""

    def test_reachable_storage_is_ok(self, cli: Cli, golden: GoldenTables) -> None:
        ended = cli("doctor", golden.table(V9), "--format", "json")
        found = by_check(ended.json)
        assert ended.code == 0
        assert [found[f"storage {what}"]["level"] for what in ("reach", "listing", "rights", "clock")] == ["ok"] * 4

    def test_clock_ahead_of_the_storage_is_reported(self, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
        table = golden.copy(V9, tmp_path)
        newest = max((table / ".hoodie" / "timeline").iterdir())
        now_s = time.time()
        for ahead_s, level in ((20, Level.WARN), (200, Level.FAIL)):
            os.utime(newest, (now_s + ahead_s, now_s + ahead_s))
            (told,) = [each for each in storage_findings(str(table), lambda: now_s) if each.check == "storage clock"]
            assert told.level is level, told

    def test_missing_data_file_is_reported(self, cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
        table = golden.copy(V9, tmp_path)
        for file in table.rglob("*.log.*"):
            if ".hoodie" not in file.parts:
                file.unlink()
        ended = cli("doctor", table)
        assert ended.code == 1
        assert "a file of a completed commit is gone" in ended.text

    def test_missing_table_is_reported(self, cli: Cli, tmp_path: pathlib.Path) -> None:
        ended = cli("doctor", tmp_path)
        assert ended.code == 1
        assert "fail  storage " in ended.text and "TABLE_NOT_FOUND" in ended.text


@pytest.mark.golden
def test_server_and_its_storage_are_checked(cli: Cli, golden: GoldenTables) -> None:
    with serve({"orders": str(golden.table(V9))}, "127.0.0.1:0") as server:
        found = by_check(cli("doctor", "orders", "--server", server.address, "--format", "json").json)
        unknown = cli("doctor", "nosuch", "--server", server.address)
    assert [found[check]["level"] for check in ("server", "server table", "storage rights")] == ["ok"] * 3
    assert unknown.code == 1


def test_unreachable_server_is_a_failure(cli: Cli, unused_port: int) -> None:
    ended = cli("doctor", "--server", f"127.0.0.1:{unused_port}")
    assert ended.code == 1
    assert "fail  server " in ended.text


def test_expired_certificates_of_server_and_client_are_reported(cli: Cli, tmp_path: pathlib.Path) -> None:
    authority = Authority(tmp_path / "pki")
    soon = authority.signed("server", "127.0.0.1", end=datetime.datetime.now(datetime.UTC) + DAY)
    past = datetime.datetime.now(datetime.UTC) - 3 * DAY
    old = authority.signed("client", "me", begin=past, end=past + DAY)
    tls = TlsSettings(cert=soon.cert, key=soon.key)
    settings = Settings(tables={"t": TableSettings(path="x")}, tls=tls)
    service = EnumeratorService({"t": "x"}, poll_ms=None)
    flags = ["--server-ca", authority.ca, "--server-cert", old.cert, "--server-key", old.key]
    with serve_enumerator(service, groups=service, settings=settings) as server:
        ended = cli("doctor", "--server", server.address, *flags, "--format", "json")
    found = by_check(ended.json)
    assert ended.code == 1
    assert (found["certificate of the server"]["level"], found["certificate serverCa"]["level"]) == ("warn", "warn")
    assert found["certificate serverCert"]["level"] == "fail"
    assert found["server"]["level"] == "fail" and "expired" in found["server"]["text"]


def test_doctor_json_has_the_documented_fields() -> None:
    from penstock.engine.cli.commands.doctor import finding_fields

    assert set(finding_fields(Finding("c", Level.OK, "t"))) == FIELDS
