"""`--query cdc` on the command line: the formats hudi and rows, ranges, plans of changes."""

from __future__ import annotations

import json
import pathlib
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import penstock

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables
    from tests.unit.engine.cli.command_line import Cli

pytestmark = pytest.mark.golden

CASE = "B_v9_cdc_mor_data_before"


@pytest.fixture
def path(golden: GoldenTables) -> str:
    return str(golden.table(CASE))


def test_changes_in_the_format_hudi(cli: Cli, golden: GoldenTables, path: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "changes.parquet"
    result = cli("read", path, "--query", "cdc", "--cdc-format", "hudi", "--after", "earliest", "-o", out)
    assert result.code == 0, result.stderr
    actual, expected = pq.read_table(out), golden.expected(CASE, "cdc_all")
    assert actual.column_names == ["op", "ts_ms", "before", "after"]
    assert sorted(zip(actual["op"].to_pylist(), actual["ts_ms"].to_pylist(), strict=True)) == sorted(
        zip(expected["op"].to_pylist(), expected["ts_ms"].to_pylist(), strict=True)
    )


def test_format_rows_is_the_default_and_equals_penstock_read(cli: Cli, path: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "changes.parquet"
    where = "_change_type IN ('-U', '+U')"
    columns = "_change_type,id,v,_change_seq"
    result = cli(
        "read", path, "--query", "cdc", "--after", "earliest", "--columns", columns, "--where", where, "-o", out
    )
    assert result.code == 0, result.stderr
    actual = pq.read_table(out)
    expected = penstock.read(
        path, query="cdc", after="earliest", columns=tuple(columns.split(",")), where=where
    ).read_all()
    assert actual.sort_by("_change_seq").equals(expected.sort_by("_change_seq"))
    assert set(actual["_change_type"].to_pylist()) == {"-U", "+U"}


def test_limit_of_changes_is_exact(cli: Cli, path: str) -> None:
    result = cli("read", path, "--query", "cdc", "--after", "earliest", "--limit", "3", "--format", "jsonl")
    assert result.code == 0, result.stderr
    assert [set(json.loads(line)) >= {"_change_type", "id"} for line in result.text.splitlines()] == [True] * 3


def test_columns_are_those_of_the_format(cli: Cli, path: str) -> None:
    for form, column in (("rows", "before"), ("hudi", "id")):
        result = cli("read", path, "--query", "cdc", "--cdc-format", form, "--after", "earliest", "--columns", column)
        assert result.code == 2
        assert result.stderr.startswith("error [CONFIGURATION]: ")


class TestPlan:
    """`splits plan --query cdc`."""

    def plan(self, cli: Cli, *arguments: object) -> Any:
        result = cli("splits", "plan", *arguments, "--query", "cdc", "--after", "earliest", "--format", "json")
        assert result.code == 0, result.stderr
        return result.json

    def test_each_split_lists_its_commits(self, cli: Cli, path: str) -> None:
        plan = self.plan(cli, path, "--explain")
        sources = set()
        for split in plan["splits"]:
            assert (split["base_file"], split["log_files"], split["row_groups"]) == (None, [], None)
            keys = [step["order_key"] for step in split["changes"]]
            assert keys == sorted(keys)
            assert split["order_key"] == keys[-1]
            assert all(step["files"] for step in split["changes"])
            sources |= {step["told_by"] for step in split["changes"]}
            assert all(step["instant"] in split["why"] for step in split["changes"][:5])
        assert {"every row of the new file group", "the group before and after, compared"} < sources
        assert any(text.startswith("logged by the writer in 1 file") for text in sources)
        assert "changes of (after, upto]" in plan["range"]
        instants = {item["requested_time"] for item in plan["instants"]}
        assert instants == {step["instant"] for split in plan["splits"] for step in split["changes"]}

    def test_splits_of_rows_list_no_commits(self, cli: Cli, path: str) -> None:
        result = cli("splits", "plan", path, "--format", "json")
        assert {json.dumps(split["changes"]) for split in result.json["splits"]} == {"null"}

    def test_plan_of_changes_as_text(self, cli: Cli, path: str) -> None:
        result = cli("splits", "plan", path, "--query", "cdc", "--after", "earliest")
        assert result.code == 0, result.stderr
        assert "commits" in result.text
