"""Logs with HFile data blocks of Hudi 1.2.0, which Hudi cannot read: the rows are those that it returns for a table of
the same writes with Avro blocks. `cases_I.json` has those of Hudi 0.15.0, which reads its own."""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.table.log.blocks import BlockKind, LogBlock, read_blocks
from tests.golden.rows import difference

GOLDEN = pathlib.Path(__file__).parent
CASES = {case["name"]: case for case in json.loads((GOLDEN / "hfile_twins.json").read_text())}
QUERIES = [(name, query["id"]) for name, case in CASES.items() for query in case["queries"]]
OF_A_TABLE = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"]

pytestmark = pytest.mark.golden


def unpacked(name: str, folder: pathlib.Path) -> pathlib.Path:
    with zipfile.ZipFile(GOLDEN / "tables" / f"{name}.zip") as archive:
        archive.extractall(folder)
    return folder


def read(path: pathlib.Path, **options: Any) -> pa.Table:
    return penstock.read(str(path), **options).read_all().drop_columns(OF_A_TABLE)


@pytest.mark.parametrize(("name", "query_id"), QUERIES)
def test_rows_are_those_of_the_twin(name: str, query_id: str, tmp_path: pathlib.Path) -> None:
    (query,) = (query for query in CASES[name]["queries"] if query["id"] == query_id)
    options = {"as_of": query["as_of"]} if query["as_of"] else {}
    assert difference(read(unpacked(name, tmp_path), **options), pq.read_table(GOLDEN / query["expected"])) == ""


@pytest.mark.parametrize("name", CASES)
def test_the_logs_have_hfile_blocks_that_hudi_refused(name: str, tmp_path: pathlib.Path) -> None:
    logs = [file for file in unpacked(name, tmp_path).glob("p=*/.*.log.*") if not file.name.endswith(".crc")]
    kinds = {
        block.kind
        for log in logs
        for block in read_blocks(pa.py_buffer(log.read_bytes()), log.name)
        if isinstance(block, LogBlock)
    }
    assert kinds == {BlockKind.HFILE_DATA, BlockKind.DELETE}
    assert "ClassCastException" in {query["id"]: query["own_error"] for query in CASES[name]["queries"]}["snapshot"]


@pytest.mark.parametrize("name", CASES)
def test_changes_lead_to_the_snapshot(name: str, tmp_path: pathlib.Path) -> None:
    path = unpacked(name, tmp_path)
    state: dict[str, dict[str, Any]] = {}
    for change in penstock.read(str(path), query="cdc", after="earliest").read_all().sort_by("_change_seq").to_pylist():
        if change["_change_type"].startswith("-"):
            del state[change["_hoodie_record_key"]]
        else:
            state[change["_hoodie_record_key"]] = change
    rows = read(path)
    assert [
        {column: state[row["_hoodie_record_key"]][column] for column in row} for row in rows.to_pylist()
    ] == rows.to_pylist()
    assert len(state) == rows.num_rows
