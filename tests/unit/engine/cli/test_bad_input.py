"""Damaged tables that Hudi wrote, and usage errors: a named error, the documented exit code, no rows."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

pytestmark = pytest.mark.golden

V9, V6 = "A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150"
TABLES = (V9, V6)
MAGIC = b"#HUDI#"


def timeline_files(table: pathlib.Path) -> list[pathlib.Path]:
    """Completed write instants in timeline order."""
    folder = table / ".hoodie" / "timeline"
    folder = folder if folder.exists() else table / ".hoodie"
    return sorted(file for file in folder.glob("*.deltacommit") if file.is_file())


def data_files(table: pathlib.Path, kind: str) -> list[pathlib.Path]:
    """Base files (`*.parquet`) or log files (`.*.log.*`) of the partitions."""
    files = [file for file in table.rglob(kind) if ".hoodie" not in file.parts and not file.name.endswith(".crc")]
    return sorted(files)


def without_checksums(table: pathlib.Path) -> None:
    """Removes Hadoop's `.crc` files: real damage does not update them."""
    for file in table.rglob(".*.crc"):
        file.unlink()


def properties(table: pathlib.Path) -> list[pathlib.Path]:
    return sorted((table / ".hoodie").glob("hoodie.properties*"))


def garble_properties(table: pathlib.Path) -> str:
    for file in properties(table):
        file.write_bytes(b"\xff\xfe\x00nothing of use")
    return "hoodie.properties"


def empty_properties(table: pathlib.Path) -> str:
    for file in properties(table):
        file.write_bytes(b"")
    return "hoodie.properties"


def truncate_commit(table: pathlib.Path) -> str:
    file = timeline_files(table)[-1]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return file.name


def empty_commit(table: pathlib.Path) -> str:
    file = timeline_files(table)[1]
    file.write_bytes(b"")
    return file.name


def garble_commit(table: pathlib.Path) -> str:
    file = timeline_files(table)[0]
    file.write_bytes(b"[]")
    return file.name


def remove_base_file(table: pathlib.Path) -> str:
    file = data_files(table, "*.parquet")[0]
    file.unlink()
    return file.name


def remove_log_file(table: pathlib.Path) -> str:
    file = data_files(table, ".*.log.*")[0]
    file.unlink()
    return file.name


def truncate_base_file(table: pathlib.Path) -> str:
    file = data_files(table, "*.parquet")[0]
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    return file.name


def garble_base_pages(table: pathlib.Path) -> str:
    file = data_files(table, "*.parquet")[0]
    data = bytearray(file.read_bytes())
    data[4:3000] = bytes(2996)
    file.write_bytes(data)
    return file.name


def truncate_log_file(table: pathlib.Path) -> str:
    file = data_files(table, ".*.log.*")[-1]
    file.write_bytes(file.read_bytes()[:-40])
    return file.name


def damage_block_content(table: pathlib.Path) -> str:
    """Bytes in the middle of the largest log file's records."""
    file = max(data_files(table, ".*.log.*"), key=lambda one: one.stat().st_size)
    data = bytearray(file.read_bytes())
    middle = len(data) - len(data) // 4
    data[middle : middle + 24] = b"\xff" * 24
    file.write_bytes(data)
    return file.name


def damage_block_length(table: pathlib.Path) -> str:
    file = data_files(table, ".*.log.*")[0]
    data = bytearray(file.read_bytes())
    assert data[:6] == MAGIC
    data[6:14] = (2**62).to_bytes(8, "big")
    file.write_bytes(data)
    return file.name


def damage_magic(table: pathlib.Path) -> str:
    file = data_files(table, ".*.log.*")[0]
    data = file.read_bytes()
    file.write_bytes(b"#HUDY#" + data[6:])
    return file.name


Damage = Callable[[pathlib.Path], str]
DATA_PROBLEMS: tuple[Damage, ...] = (
    garble_properties,
    empty_properties,
    truncate_commit,
    empty_commit,
    garble_commit,
    remove_base_file,
    remove_log_file,
    truncate_base_file,
    garble_base_pages,
    truncate_log_file,
    damage_block_content,
    damage_block_length,
    damage_magic,
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("damage", DATA_PROBLEMS, ids=lambda damage: damage.__name__)
def test_errors_of_damage_name_table_and_file(
    cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path, name: str, damage: Damage
) -> None:
    table = golden.copy(name, tmp_path)
    without_checksums(table)
    file = damage(table)
    output = tmp_path / "rows.parquet"
    result = cli("read", table, "-o", output)
    assert result.code == 3, (result.code, result.stderr)
    assert result.stdout == b""
    assert not output.exists()
    (line,) = result.stderr.splitlines()
    assert re.match(r"error \[(CORRUPT_FILE|CORRUPT_BLOCK|POSITION_EXPIRED|SCHEMA_MISMATCH|FORMAT)\]: ", line)
    assert file in line
    assert name in line


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("version", ["10", "5", "99"])
def test_other_table_versions_are_refused(
    cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path, name: str, version: str
) -> None:
    table = golden.copy(name, tmp_path)
    for file in properties(table):
        file.write_text(re.sub(r"(?m)^hoodie\.table\.version=\d+", f"hoodie.table.version={version}", file.read_text()))
    for command in (["read"], ["timeline"], ["table", "desc"], ["splits", "plan"]):
        result = cli(*command, table)
        assert (result.code, result.stdout) == (1, b"")
        assert result.stderr.startswith(
            "error [UNSUPPORTED_FEATURE]: " if version in ("5", "10") else "error [TABLE]: "
        )
        assert version in result.stderr
        assert name in result.stderr


@pytest.mark.parametrize("command", [["read"], ["timeline"], ["table", "desc"], ["splits", "plan"]])
class TestNoTable:
    """The path does not exist, or is not a table."""

    def test_missing_folder_is_no_table(self, cli: Cli, tmp_path: pathlib.Path, command: list[str]) -> None:
        self.refused(cli(*command, tmp_path / "nowhere"), "nowhere")

    def test_folder_without_hoodie_properties_is_no_table(
        self, cli: Cli, tmp_path: pathlib.Path, command: list[str]
    ) -> None:
        (tmp_path / "plain").mkdir()
        (tmp_path / "plain" / "x.parquet").write_bytes(b"PAR1")
        self.refused(cli(*command, tmp_path / "plain"), "plain")

    def test_file_is_no_table(self, cli: Cli, tmp_path: pathlib.Path, command: list[str]) -> None:
        (tmp_path / "file").write_bytes(b"x")
        self.refused(cli(*command, tmp_path / "file"), "file")

    @staticmethod
    def refused(result: object, message: str) -> None:
        code, stdout, stderr = result.code, result.stdout, result.stderr  # type: ignore[attr-defined]
        assert (code, stdout) == (1, b""), stderr
        assert stderr.startswith("error [TABLE_NOT_FOUND]: ")
        assert message in stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--option", "colums=id"], "did you mean columns"),
        (["--option", "hoodie.datasource.read.begin.instantime=0"], "hoodie.datasource.read.begin.instanttime"),
        (["--option", "nonsense"], "KEY=VALUE"),
        (["--columns", "id,vv"], "'?v'?"),
        (["--columns", "id,,v"], "columns"),
        (["--where", "nosuch > 1"], "nosuch"),
        (["--where", "v >"], "filter"),
        (["--where", "v like 5 +"], "filter"),
        (["--where", "v = 'text'"], "v"),
        (["--limit", "-1"], "limit"),
        (["--limit", "many"], "limit"),
        (["--query", "snapshots"], "did you mean snapshot"),
        (["--query", "incremental"], "after=earliest"),
        (["--query", "incremental", "--after", "yesterday"], "yesterday"),
        (["--query", "incremental", "--after", "2026-01-31"], "timelineTimezone"),
        (["--query", "incremental", "--after", "1700000000"], "1700000000"),
        (["--query", "incremental", "--after", "20270101000000000", "--upto", "20260101000000000"], "ends before"),
        (["--after", "earliest"], "query=incremental"),
        (["--as-of", "20261399"], "20261399"),
        (["--as-of", "2026-01-31", "--option", "timelineTimezone=Mars"], "Mars"),
        (["--as-of", "20260131", "--option", "asOf=20260131"], "options --as-of and asOf both set asOf: [^,]*$"),
        (["--on-corrupt", "skipp"], "did you mean skip"),
        (["--batch-rows", "0"], "--batch-rows"),
        (["--delete-field", "op"], "deleteField without deleteMarker"),
        (["--server", "nowhere"], "HOST:PORT"),
        (["--format", "csv"], "csv"),
        (["-o", "rows.csv"], "rows.csv"),
        (["--option", "eventTime=nosuch"], "nosuch"),
        (["--option", "hoodie.payload.delete.field=op"], "deleteField without deleteMarker"),
        (["--option", "deleteMarker=D"], "deleteMarker without deleteField"),
        (["--query", "cdc"], "query=cdc needs the option after"),
        (["--cdc-format", "hudi"], "cdcFormat.*give query=cdc"),
        (["--query", "cdc", "--after", "earliest", "--columns", "op"], "op"),
        (["--query", "cdc", "--after", "earliest", "--where", "before IS NULL"], "before"),
        (["--option", "hoodie.datasource.query.incremental.format=cdc"], "use query=cdc"),
        (["--option", "deleteMarker=D", "--option", "deleteField=nosuch"], "nosuch"),
    ],
)
def test_usage_problems(cli: Cli, golden: GoldenTables, arguments: list[str], message: str) -> None:
    result = cli("read", golden.table(V9), *arguments)
    assert (result.code, result.stdout) == (2, b""), result.stderr
    (line,) = result.stderr.splitlines()
    assert re.match(r"error \[(CONFIGURATION|USAGE)\]: ", line)
    assert re.search(message, line), line


def test_unreachable_server_is_a_retryable_error(cli: Cli, monkeypatch: pytest.MonkeyPatch, unused_port: int) -> None:
    from penstock.proto.client import client

    limits = client.CallLimits(attempts=1, deadline_ms=2000, plan_deadline_ms=2000)
    monkeypatch.setattr(client, "CallLimits", lambda: limits)
    result = cli("read", "t", "--server", f"127.0.0.1:{unused_port}")
    assert (result.code, result.stdout) == (75, b"")
    assert result.stderr.startswith("error [SERVER_UNAVAILABLE]: ")
    assert f"127.0.0.1:{unused_port}" in result.stderr


def test_unwritable_output_file_is_an_error(cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    (tmp_path / "full.parquet").mkdir()
    (tmp_path / "file").touch()
    for name, message in [
        ("", "-o: got an empty name"),
        (tmp_path / "nowhere" / "rows.parquet", f"-o {tmp_path}/nowhere/rows.parquet: there is no folder"),
        (tmp_path / "file" / "rows.parquet", f"-o {tmp_path}/file/rows.parquet: there is no folder"),
        (tmp_path / "full.parquet", f"-o {tmp_path}/full.parquet: expected a file, but that is a folder"),
        (f"{tmp_path}/new.parquet/", "expected a file"),
        (tmp_path / f"{'x' * 300}.parquet", "x.parquet: File name too long"),
    ]:
        for table in (golden.table(V9), tmp_path / "no table"):  # reported before the table is read
            result = cli("read", table, "-o", name)
            assert (result.code, result.stdout) == (2, b"")
            assert result.stderr.startswith("error [CONFIGURATION]: -o")
            assert message in result.stderr
            assert "partial" not in result.stderr
    assert sorted(file.name for file in tmp_path.iterdir()) == ["file", "full.parquet"]
