"""`penstock create`, `penstock write` and `penstock rollback`."""

from __future__ import annotations

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

import penstock
from tests.unit.engine.cli.command_line import Cli


def test_reports_as_json(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, file = str(tmp_path / "orders"), tmp_path / "orders.parquet"
    pq.write_table(pa.table({"id": ["a", "b"], "n": [1, 2]}), file)
    created = cli("create", table, "--schema", str(file), "--record-key", "id", "--buckets", "1", "--format", "json")
    assert (created.code, json.loads(created.text)) == (0, {"table": table, "table_version": 9})
    written = json.loads(cli("write", table, str(file), "--format", "json").text)
    assert (written["rows"], written["inserted"]) == (2, 2)
    assert sorted(penstock.read(table).read_all()["id"].to_pylist()) == ["a", "b"]
    rolled_back = cli("rollback", table, "--format", "json")
    assert (rolled_back.code, json.loads(rolled_back.text)) == (0, {"table": table, "rolled_back": []})
