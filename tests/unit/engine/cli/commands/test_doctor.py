"""`penstock doctor`: one line for each check with its level, the exit code, and the level of each measured value."""

from __future__ import annotations

import datetime
import os
import pathlib
import sys
import time
from typing import TYPE_CHECKING

import pytest

from penstock.engine.doctor import machine, warm
from penstock.engine.doctor.findings import (
    Finding,
    Level,
    PythonFacts,
    judged_certificate,
    judged_java,
    judged_kernels,
    judged_library,
    judged_skew,
    judged_spark_python,
    requirement_of,
)
from penstock.engine.doctor.machine import probed_python, spark_python_finding, this_python
from penstock.engine.doctor.reach import storage_findings
from penstock.engine.spark.interpreter import command
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
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests start no Java and load no kernels."""
    monkeypatch.setattr(machine, "banner_of", lambda java: 'openjdk version "17.0.1"')
    monkeypatch.setattr(machine, "cached_kernels", lambda: (3, 3))


def by_check(findings: list[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {finding["check"]: finding for finding in findings}


class TestMeaning:
    """The level of each measured value; pure."""

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
        levels = [judged_kernels(*kernels).level for kernels in ((None, 0, 9), ("f", 0, 9), ("f", 4, 9))]
        assert levels == [Level.WARN, Level.WARN, Level.OK]


def test_doctor_without_arguments_checks_the_machine(cli: Cli) -> None:
    result = cli("doctor", "--format", "json")
    assert result.code == 0, result.text
    assert all(set(entry) == FIELDS for entry in result.json)
    findings = by_check(result.json)
    assert findings["library pyarrow"]["level"] == "ok"
    assert {"python", "penstock", "java", "kernel cache"} <= findings.keys()


def test_warm_compiles_before_the_checks(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_USES", (("these", lambda: None), ("those", lambda: None)))
    findings = cli("doctor", "--warm", "--format", "json").json
    assert [finding["text"].partition(":")[0] for finding in findings[:2]] == ["these", "those"]
    assert [finding["check"] for finding in findings[:3]] == ["warm", "warm", "python"]
    assert "warm" not in by_check(cli("doctor", "--format", "json").json)


def test_library_below_its_minimum_version_is_a_failure(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_version", lambda name: "0.1" if name == "pyarrow" else "99")
    result = cli("doctor")
    assert result.code == 1
    (line,) = [line for line in result.text.splitlines() if "library pyarrow" in line]
    assert line.startswith("fail  library pyarrow")
    assert '-> pip install "pyarrow>=' in line


def test_compiled_kernels_of_this_machine_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    compiled, kernels = machine.cached_kernels()
    assert 0 <= compiled <= kernels
    assert kernels >= 3


class TestSparkPython:
    """The command that Spark runs for its Python processes."""

    OWN = PythonFacts((3, 11), {"penstock": "1.0", "pyarrow": "26.0"})

    def judged(self, facts: PythonFacts | None, variable: str = "PYSPARK_PYTHON", path: str | None = "/p") -> Finding:
        return judged_spark_python(variable, "python3", path, facts, self.OWN, "/venv/bin/penstock-python")

    def test_same_versions(self) -> None:
        finding = self.judged(self.OWN)
        assert finding == Finding(
            "spark python", Level.OK, "PYSPARK_PYTHON=python3: /p, Python 3.11, penstock 1.0, pyarrow 26.0"
        )

    @pytest.mark.parametrize(
        ("facts", "path", "text"),
        [
            (None, None, "no such command, so Spark cannot start its Python processes"),
            (None, "/p", "/p does not run as Python"),
            (PythonFacts((3, 11), {"pyarrow": "26.0"}), "/p", "/p has no penstock, so Spark does not find the format"),
            (PythonFacts((3, 11), {}), "/p", "/p has no penstock and no pyarrow, so Spark does not find the format"),
            (PythonFacts((3, 12), OWN.packages), "/p", "/p is Python 3.12, this one 3.11; Spark needs the same minor"),
        ],
    )
    def test_command_that_cannot_work(self, facts: PythonFacts | None, path: str | None, text: str) -> None:
        """A failure if the user set it, a warning if it is Spark's default."""
        chosen, default = self.judged(facts, path=path), self.judged(facts, variable="", path=path)
        assert (chosen.level, default.level) == (Level.FAIL, Level.WARN)
        assert chosen.text.startswith(f"PYSPARK_PYTHON=python3: {text}")
        assert default.text.startswith(f"python3 of the PATH: {text}")
        assert chosen.advice == "set PYSPARK_PYTHON=/venv/bin/penstock-python"
        assert default.advice == f"{chosen.advice}, or import penstock.spark before the session"

    def test_other_versions_are_a_warning(self) -> None:
        finding = self.judged(PythonFacts((3, 11), {"penstock": "0.9", "pyarrow": "26.0"}))
        assert (finding.level, finding.advice) == (Level.WARN, "install the same versions")
        assert finding.text.endswith("penstock 0.9, pyarrow 26.0; this Python has penstock 1.0, pyarrow 26.0")

    @pytest.mark.parametrize(
        ("environment", "start"),
        [
            ({}, "python3 of the PATH: /bin/python3"),
            ({"PYSPARK_PYTHON": "a"}, "PYSPARK_PYTHON=a: /bin/a"),
            ({"PYSPARK_PYTHON": "a", "PYSPARK_DRIVER_PYTHON": "b"}, "PYSPARK_DRIVER_PYTHON=b: /bin/b"),
        ],
    )
    def test_order_of_variables_is_sparks(self, environment: dict[str, str], start: str) -> None:
        finding = spark_python_finding(environment, lambda name: f"/bin/{name}", lambda path: this_python())
        assert finding.level is Level.OK
        assert finding.text.startswith(start)

    def test_pythons_of_this_machine(self, tmp_path: pathlib.Path) -> None:
        """This environment, one without packages, one that is no Python, one that does not exist."""
        bare, other = tmp_path / "bare", tmp_path / "other"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -I "$@"\n')
        other.write_text("#!/bin/sh\necho 7\n")
        bare.chmod(0o755)
        other.chmod(0o755)
        assert probed_python(command()) == probed_python(sys.executable) == this_python()
        assert probed_python(str(bare)) == PythonFacts(this_python().version, {})
        assert probed_python(str(other)) is None
        assert probed_python(str(tmp_path / "nothing")) is None

    def test_command_line(self, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
        monkeypatch.setenv("PYSPARK_PYTHON", command())
        monkeypatch.delenv("PYSPARK_DRIVER_PYTHON", raising=False)
        assert by_check(cli("doctor", "--format", "json").json)["spark python"]["level"] == "ok"
        monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "nothing"))
        ended = cli("doctor")
        assert ended.code == 1
        (line,) = [line for line in ended.text.splitlines() if "spark python" in line]
        assert line.startswith("fail  spark python")
        assert f"PYSPARK_PYTHON={tmp_path / 'nothing'}: no such command" in line
        assert line.endswith(f"-> set PYSPARK_PYTHON={command()}")

    def test_without_spark_nothing_is_checked(self, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(machine, "_version", lambda name: None if name == "pyspark" else "99")
        assert "spark python" not in by_check(cli("doctor", "--format", "json").json)


@pytest.mark.golden
class TestStorage:
    """Checks of the storage of a table."""

    def test_reachable_storage_is_ok(self, cli: Cli, golden: GoldenTables) -> None:
        result = cli("doctor", golden.table(V9), "--format", "json")
        findings = by_check(result.json)
        assert result.code == 0
        assert [findings[f"storage {what}"]["level"] for what in ("reach", "listing", "rights", "clock")] == ["ok"] * 4

    def test_clock_ahead_of_the_storage_is_reported(self, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
        table = golden.copy(V9, tmp_path)
        newest = max((table / ".hoodie" / "timeline").iterdir())
        now_s = time.time()
        for ahead_s, level in ((20, Level.WARN), (200, Level.FAIL)):
            os.utime(newest, (now_s + ahead_s, now_s + ahead_s))
            (finding,) = [
                entry for entry in storage_findings(str(table), lambda: now_s) if entry.check == "storage clock"
            ]
            assert finding.level is level, finding

    def test_missing_data_file_is_reported(self, cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
        table = golden.copy(V9, tmp_path)
        for file in table.rglob("*.log.*"):
            if ".hoodie" not in file.parts:
                file.unlink()
        result = cli("doctor", table)
        assert result.code == 1
        assert "a file of a completed commit is gone" in result.text

    def test_missing_table_is_reported(self, cli: Cli, tmp_path: pathlib.Path) -> None:
        result = cli("doctor", tmp_path)
        assert result.code == 1
        assert "fail  storage " in result.text and "TABLE_NOT_FOUND" in result.text


@pytest.mark.golden
def test_server_and_its_storage_are_checked(cli: Cli, golden: GoldenTables) -> None:
    with serve({"orders": str(golden.table(V9))}, "127.0.0.1:0") as server:
        findings = by_check(cli("doctor", "orders", "--server", server.address, "--format", "json").json)
        unknown = cli("doctor", "nosuch", "--server", server.address)
    assert [findings[check]["level"] for check in ("server", "server table", "storage rights")] == ["ok"] * 3
    assert unknown.code == 1


def test_unreachable_server_is_a_failure(cli: Cli, unused_port: int) -> None:
    result = cli("doctor", "--server", f"127.0.0.1:{unused_port}")
    assert result.code == 1
    assert "fail  server " in result.text


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
        result = cli("doctor", "--server", server.address, *flags, "--format", "json")
    findings = by_check(result.json)
    assert result.code == 1
    assert (findings["certificate of the server"]["level"], findings["certificate serverCa"]["level"]) == (
        "warn",
        "warn",
    )
    assert findings["certificate serverCert"]["level"] == "fail"
    assert findings["server"]["level"] == "fail" and "expired" in findings["server"]["text"]


def test_doctor_json_has_the_documented_fields() -> None:
    from penstock.engine.cli.commands.doctor import finding_fields

    assert set(finding_fields(Finding("c", Level.OK, "t"))) == FIELDS
