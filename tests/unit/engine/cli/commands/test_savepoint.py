"""`penstock savepoint` and `penstock restore`."""

from __future__ import annotations

import json
import pathlib

import pyarrow as pa

import penstock
from tests.unit.engine.cli.command_line import Cli


def test_savepoint_and_restore(cli: Cli, tmp_path: pathlib.Path) -> None:
    table, rows = str(tmp_path / "orders"), pa.table({"id": ["a"], "n": [1]})
    penstock.create_table(table, rows.schema, record_key="id", buckets=1)
    saved = penstock.write(table, rows).instant
    told = json.loads(cli("savepoint", table, "--dry-run", "--format", "json").text)
    assert (told["instant"], told["files"]) == (saved, 1) and told["protected_bytes"] > 0
    assert "has no savepoint" in cli("restore", table).stderr
    assert cli("savepoint", table).text.startswith(f"the savepoint of {saved} protects 1 files")
    later = penstock.write(table, pa.table({"id": ["b"], "n": [2]})).instant
    assert cli("restore", table, "--dry-run").text == f"would remove {later}; the newest write is {saved}\n"
    done = json.loads(cli("restore", table, "--format", "json").text)
    assert (done["savepoint"], done["removed"]) == (saved, [later])
    assert penstock.read(table).read_all()["id"].to_pylist() == ["a"]
    assert cli("savepoint", table, "--delete").code
    assert json.loads(cli("savepoint", table, saved, "--delete", "--format", "json").text)["deleted"] == saved
    assert "has no savepoint" in cli("restore", table).stderr
