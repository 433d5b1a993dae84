"""`penstock read` of tables that Hudi wrote: formats, destinations, servers."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.cli.commands import read as read_command
from penstock.engine.cli.shell import Shell
from penstock.enumerator.server.run import serve
from penstock.proto.model.reports import PHASES

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

pytestmark = pytest.mark.golden

V9, V6, RANGES = "A_merge_event_long_v9_h120", "A_merge_event_long_v6_h0150", "B_v9_inc_mor"


def same(actual: pa.Table, expected: pa.Table) -> None:
    names = expected.column_names
    key = "_hoodie_record_key"
    assert actual.select(names).sort_by(key).to_pylist() == expected.sort_by(key).to_pylist()


@pytest.mark.parametrize("name", [V9, V6])
@pytest.mark.parametrize(
    ("suffix", "load"), [("parquet", pq.read_table), ("arrow", lambda file: pa.ipc.open_file(file).read_all())]
)
def test_snapshot_is_written_to_a_file(
    cli: Cli,
    golden: GoldenTables,
    tmp_path: pathlib.Path,
    name: str,
    suffix: str,
    load: Callable[[pathlib.Path], pa.Table],
) -> None:
    file = tmp_path / f"rows.{suffix}"
    result = cli("read", golden.table(name), "-o", file)
    assert (result.code, result.stdout, result.stderr) == (0, b"", "")
    same(load(file), golden.expected(name, "snapshot"))


@pytest.mark.parametrize(
    ("query_id", "arguments"),
    [("read_optimized", ["--query", "read_optimized"]), ("time_travel_1", ["--as-of"]), ("time_travel_2", ["--as-of"])],
)
@pytest.mark.parametrize("name", [V9, V6])
def test_other_queries(
    cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path, name: str, query_id: str, arguments: list[str]
) -> None:
    query = next(one for one in golden.case(name)["queries"] if one["id"] == query_id)
    extra = [query["as_of"]] if query["as_of"] else []
    file = tmp_path / "rows.parquet"
    assert cli("read", golden.table(name), *arguments, *extra, "-o", file).code == 0
    same(pq.read_table(file), golden.expected(name, query_id))


def test_ranges_with_options_of_hudi_and_of_penstock(cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    query = next(one for one in golden.case(RANGES)["queries"] if one["id"] == "inc_mid")
    penstock_flags = ["--query", "incremental", "--after", query["begin"]] + (
        ["--upto", query["end"]] if query["end"] else []
    )
    hudis = [f"{name}={value}" for name, value in query["options"].items()]
    for number, arguments in enumerate((penstock_flags, [part for pair in hudis for part in ("--option", pair)])):
        file = tmp_path / f"{number}.parquet"
        result = cli("read", golden.table(RANGES), *arguments, "-o", file)
        assert (result.code, result.stderr) == (0, "")
        same(pq.read_table(file), golden.expected(RANGES, "inc_mid"))


def test_delete_marker_with_options_of_hudi(cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    case, file = "A_merge_custom_delete_v6_h0150", tmp_path / "rows.parquet"
    marker = ("--option", "hoodie.payload.delete.field=op", "--option", "hoodie.payload.delete.marker=D")
    assert cli("read", golden.table(case), *marker, "-o", file).code == 0
    same(pq.read_table(file), golden.expected(case, "snapshot_opts"))


def test_json_lines_on_stdout(cli: Cli, golden: GoldenTables) -> None:
    expected = golden.expected(V9, "snapshot")
    result = cli("read", golden.table(V9), "--format", "jsonl", "--columns", "id,ts,v")
    rows = [json.loads(line) for line in result.text.splitlines()]
    assert sorted(rows, key=lambda row: row["id"]) == expected.select(["id", "ts", "v"]).sort_by("id").to_pylist()


def test_all_types_have_a_json_form(cli: Cli, golden: GoldenTables) -> None:
    result = cli("read", golden.table("A_types_v9_h120"), "--format", "jsonl")
    assert result.code == 0, result.stderr
    assert len([json.loads(line) for line in result.text.splitlines()]) == 12


def test_text_table_is_the_default_format(cli: Cli, golden: GoldenTables) -> None:
    result = cli("read", golden.table(V9), "--columns", "v,id", "--limit", "3")
    head, rule, *rows = result.text.splitlines()
    assert head.split() == ["v", "id"]
    assert len(rows) == 3
    assert result.stderr == ""
    assert len(rule) == max(map(len, [head, rule]))


def test_filters_and_limits(cli: Cli, golden: GoldenTables) -> None:
    all_rows = golden.expected(V9, "snapshot").filter(pa.compute.field("v") > 20).num_rows
    assert all_rows > 1
    result = cli("read", golden.table(V9), "--where", "v > 20", "--format", "jsonl")
    assert len(result.text.splitlines()) == all_rows
    assert (
        len(cli("read", golden.table(V9), "--where", "v > 20", "--format", "jsonl", "--limit", "1").text.splitlines())
        == 1
    )
    assert cli("read", golden.table(V9), "--limit", "0", "--format", "jsonl").text == ""


def test_environment(cli: Cli, golden: GoldenTables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_LIMIT", "2")
    monkeypatch.setenv("PENSTOCK_COLUMNS", "id")
    assert len(cli("read", golden.table(V9), "--format", "jsonl").text.splitlines()) == 2
    assert len(cli("read", golden.table(V9), "--format", "jsonl", "--limit", "4").text.splitlines()) == 4


def test_writers_options_are_one_warning(cli: Cli, golden: GoldenTables) -> None:
    pairs = ["--option", "hoodie.table.name=t", "--option", "hoodie.upsert.shuffle.parallelism=2", "--limit", "1"]
    result = cli("read", golden.table(V9), *pairs)
    assert result.code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: not used by Penstock's readers: hoodie.table.name, hoodie.upsert")


@pytest.mark.parametrize("name", [V9, V6])
def test_read_through_a_server(cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path, name: str) -> None:
    file = tmp_path / "rows.parquet"
    with serve({"orders": str(golden.table(name))}, "127.0.0.1:0") as server:
        assert cli("read", "orders", "--server", server.address, "-o", file).code == 0
        described = cli("table", "desc", "orders", "--server", server.address, "--format", "json").json
        missing = cli("read", "order", "--server", server.address)
        bad = cli("read", "orders", "--server", server.address, "--columns", "nosuch")
    same(pq.read_table(file), golden.expected(name, "snapshot"))
    assert described["base_path"] == str(golden.table(name))
    assert (missing.code, missing.stderr[:24]) == (1, "error [TABLE_NOT_FOUND]:")
    assert "orders" in missing.stderr
    assert (bad.code, "nosuch" in bad.stderr) == (2, True)


class TestProgress:
    """The progress bar on stderr, only on a terminal without other output."""

    @pytest.mark.parametrize(
        ("stderr_terminal", "stdout_terminal", "output", "quiet", "visible"),
        [
            (True, False, None, False, True),
            (True, True, None, False, False),
            (True, True, "x.parquet", False, True),
            (True, False, None, True, False),
            (False, False, "x.parquet", False, False),
        ],
    )
    def test_progress_is_printed_on_a_terminal(
        self,
        monkeypatch: pytest.MonkeyPatch,
        stderr_terminal: bool,
        stdout_terminal: bool,
        output: str | None,
        quiet: bool,
        visible: bool,
    ) -> None:
        monkeypatch.setattr("sys.stderr.isatty", lambda: stderr_terminal)
        monkeypatch.setattr("sys.stdout.isatty", lambda: stdout_terminal)
        with read_command._progress(Shell(quiet=quiet), output) as progress:
            assert (progress is not None) == visible

    def test_progress_never_writes_to_stdout(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        from penstock.engine.arrow import Progress

        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        with read_command._progress(Shell(), "x.parquet") as progress:
            assert progress is not None
            progress(Progress(rows=7, splits_done=1, splits=2))
        assert capsys.readouterr().out == ""


def test_profile_is_a_table_on_stderr(cli: Cli, golden: GoldenTables, tmp_path: pathlib.Path) -> None:
    rows = golden.expected(V9, "snapshot").num_rows
    result = cli("read", golden.table(V9), "-o", tmp_path / "rows.parquet", "--profile")
    assert (result.code, result.stdout) == (0, b"")
    lines = result.stderr.splitlines()
    assert [line.split()[0] for line in lines[1:10]] == ["planning", *PHASES, "output", "total"]
    assert f"{rows:,} rows of" in result.stderr
    plain = cli("read", golden.table(V9), "--format", "jsonl")
    profiled = cli("read", golden.table(V9), "--format", "jsonl", "--profile")
    assert profiled.stdout == plain.stdout
    profile = json.loads(profiled.stderr)["profile"]
    assert list(profile["seconds"]) == ["planning", *PHASES, "output"]
    assert sum(profile["seconds"].values()) == pytest.approx(profile["total_seconds"], abs=1e-4)
    assert profile["rows"] == rows
    assert profile["log_records"]["won"] > 0
    assert min(profile["seconds"][phase] for phase in ("planning", "log_decode", "base_decode", "merge", "emit")) > 0


def test_profile_is_off_by_default(cli: Cli, golden: GoldenTables) -> None:
    assert cli("read", golden.table(V9), "--format", "jsonl").stderr == ""
