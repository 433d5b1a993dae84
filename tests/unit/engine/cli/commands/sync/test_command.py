"""`penstock sync` as a command line: plans, runs, restarts, exit codes."""

from __future__ import annotations

import json
import pathlib
import shutil
import urllib.request

import duckdb
import pytest

from tests.golden_tables import GoldenTables
from tests.unit.engine.cli.command_line import Cli

pytestmark = pytest.mark.golden

TABLE = "A_key_composite_v9_h120"


@pytest.fixture
def job(golden: GoldenTables, tmp_path: pathlib.Path) -> pathlib.Path:
    """A job with one table, `orders`."""
    shutil.copytree(golden.table(TABLE), tmp_path / "lake" / "orders")
    file = tmp_path / "job.toml"
    file.write_text(f'[[sync]]\nfrom = "{tmp_path}/lake/*"\nto = "duckdb:///{tmp_path}/copy.db"\n')
    return file


def rows_in(folder: pathlib.Path) -> int:
    with duckdb.connect(str(folder / "copy.db"), read_only=True) as copy:
        return int(copy.execute("SELECT count(*) FROM orders").fetchall()[0][0])


def test_once(cli: Cli, job: pathlib.Path, golden: GoldenTables) -> None:
    result = cli("sync", job, "--once", "--format", "json")
    rows = golden.expected(TABLE, "snapshot").num_rows
    (table,) = result.json["tables"]
    assert (result.code, table["table"], table["state"], table["rows"]) == (0, "orders", "current", rows)
    assert table["problem"] is None and result.json["problems"] == []
    assert rows_in(job.parent) == rows
    assert ": synced table=orders" in result.stderr
    again = cli("sync", job, "--once")
    assert again.code == 0 and "synced" not in again.stderr
    assert [line.split()[:4] for line in again.text.splitlines()][2] == ["orders", "orders", "current", "0"]


def test_plan_writes_nothing(cli: Cli, job: pathlib.Path) -> None:
    result = cli("sync", job, "--dry-run", "--format", "json")
    assert result.code == 0 and not (job.parent / "copy.db").exists()
    columns = {one["column"]: (one["type"], one["key"]) for one in result.json["columns"]}
    assert columns["k1"] == ("VARCHAR", True) and any(not is_key for _, is_key in columns.values())
    text = cli("sync", job, "--dry-run").text
    assert text.splitlines()[0].split() == ["table", "source", "column", "type", "key"]


def test_plan_of_a_source_that_cannot_be_read(cli: Cli, job: pathlib.Path) -> None:
    job.write_text(job.read_text() + '[[sync]]\nfrom = "/no/such/*"\nto = "duckdb:///other.db"')
    result = cli("sync", job, "--dry-run")
    assert result.code == 1 and "/no/such" in result.stderr and "orders" in result.text


def test_stopped_table_has_the_exit_code_of_its_error(cli: Cli, job: pathlib.Path, golden: GoldenTables) -> None:
    assert cli("sync", job, "--once").code == 0
    table = job.parent / "lake" / "orders"
    shutil.rmtree(table)
    shutil.copytree(golden.table("B_v9_inc_cow"), table)
    stopped = cli("sync", job, "--once")
    assert stopped.code == 3 and "sync stopped table=orders" in stopped.stderr and "[DATA_INVALIDATED]" in stopped.text
    assert cli("sync", job, "--once", "--restart", "orders").code == 0
    assert rows_in(job.parent) == golden.expected("B_v9_inc_cow", "snapshot").num_rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--restart", "x"), "--restart x: the job has no such table; it has orders"),
        (("--metrics", "nowhere"), "expected HOST:PORT"),
    ],
)
def test_bad_arguments(cli: Cli, job: pathlib.Path, arguments: tuple[str, ...], message: str) -> None:
    result = cli("sync", job, "--once", *arguments)
    assert result.code == 2 and message in result.stderr
    assert not (job.parent / "copy.db").exists()


@pytest.mark.parametrize(
    "option", ['cdcFormat = "hudi"', 'columns = "id"', 'onLostRange = "earliest"', 'after = "latest"']
)
def test_options_that_make_a_copy_unequal(cli: Cli, job: pathlib.Path, option: str) -> None:
    job.write_text(job.read_text() + f"options.{option}\n")
    result = cli("sync", job, "--once")
    assert result.code == 2 and f"option {option.partition(' ')[0]}: not for a sync" in result.text
    assert not (job.parent / "copy.db").exists()


def test_server_of_the_environment_does_not_count(cli: Cli, job: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_SERVER", "127.0.0.1:1")
    assert cli("sync", job, "--once").code == 0


def test_condition_selects_rows_and_may_not_change(cli: Cli, job: pathlib.Path) -> None:
    plain = job.read_text()
    job.write_text(plain + "options.where = \"k1 = 'no such key'\"\n")
    assert cli("sync", job, "--once").code == 0 and rows_in(job.parent) == 0
    job.write_text(plain)
    changed = cli("sync", job, "--once")
    assert changed.code == 2 and "it was stored with another `where`" in changed.text
    assert cli("sync", job, "--once", "--restart", "orders").code == 0 and rows_in(job.parent) > 0


def test_metrics_are_served_while_it_runs(
    cli: Cli, job: pathlib.Path, unused_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from penstock.engine.sync.runner import Runner

    scraped: list[str] = []
    before = Runner.exit_code

    def exit_code(runner: Runner) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{unused_port}/metrics") as response:
            scraped.append(response.read().decode())
        return before(runner)

    monkeypatch.setattr(Runner, "exit_code", exit_code)
    assert cli("sync", job, "--once", "--metrics", f"127.0.0.1:{unused_port}").code == 0
    assert 'penstock_sync_tables{state="current"} 1.0' in scraped[0]


def test_log_lines_are_objects_on_request(cli: Cli, job: pathlib.Path) -> None:
    result = cli("--log-format", "json", "sync", job, "--once")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert {line["message"] for line in lines} == {"synced"} and all(line["table"] == "orders" for line in lines)
