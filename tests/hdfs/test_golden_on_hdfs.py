"""Golden tables in HDFS: rows, ranges and changes are those of the same tables on a local disk."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.hdfs.cluster import client_environment, hdfs_cluster
from tests.store_answers import CASES

pytestmark = [pytest.mark.ops, pytest.mark.golden]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory, golden: Any) -> list[dict[str, Any]]:
    """What `reads.py` printed."""
    environment = client_environment()
    with hdfs_cluster(tmp_path_factory.mktemp("hdfs")) as store:
        folders = [str(golden.table(case)) for case in CASES]
        command = [sys.executable, "-P", "-m", "tests.hdfs.reads", store, *folders]
        ended = subprocess.run(command, env={**environment, "PYTHONPATH": "."}, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr[-2000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.parametrize("case", CASES)
def test_table_in_the_store_reads_as_on_the_disk(lines: list[dict[str, Any]], golden: Any, case: str) -> None:
    (line,) = [line for line in lines[: len(CASES)] if line["table"] == case]
    assert line["equal"] == [True, True, True]
    assert line["rows"] == golden.expected(case, "snapshot").num_rows


def test_missing_files_and_tables_are_errors_that_name_them(lines: list[dict[str, Any]]) -> None:
    """Negative control: the store's files are read, not those of the disk."""
    (_, damaged), (code, missing) = (line["error"] for line in lines[len(CASES) :])
    assert ".parquet" in damaged
    assert code == "TABLE_NOT_FOUND" and "no table at TABLE" in missing
