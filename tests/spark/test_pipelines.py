"""Declarative pipelines: the next run after a commit, and what Spark refuses.

The pipeline of the guide runs in `tests/docs`.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import penstock
from tests.progress import PROGRESS_S

CASE = "A_merge_event_timestamp_v9_h120"
LAST = "20261120213117962"
"""The completion time of its last commit."""
DATABASE = "pipeline_orders"

SPEC = """name: orders
storage: file://{folder}/storage
database: {database}
libraries:
  - glob:
      include: transformations/**
"""
SQL = """CREATE MATERIALIZED VIEW ids AS SELECT count(*) AS n, max(id) AS last FROM {database}.lake;
CREATE STREAMING TABLE streamed AS SELECT id FROM STREAM {database}.lake;
"""


@pytest.fixture
def database(spark: SparkSession) -> Iterator[str]:
    """A database for the tables of the pipeline."""
    spark.sql(f"CREATE DATABASE {DATABASE}")
    yield DATABASE
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


def run_pipeline(folder: pathlib.Path, connect_url: str, *arguments: str) -> str:
    """Runs Spark's command line for pipelines against the Connect server. Returns its output."""
    run = subprocess.run(
        [sys.executable, "-P", "-m", "pyspark.pipelines.cli", *(arguments or ("run",))],
        cwd=folder,
        env={**os.environ, "SPARK_REMOTE": connect_url},
        capture_output=True,
        text=True,
        timeout=PROGRESS_S,
    )
    output = run.stdout + run.stderr
    assert run.returncode == 0, output[-6000:]
    return output


def write_pipeline(folder: pathlib.Path, **files: str) -> None:
    (folder / "transformations").mkdir()
    (folder / "spark-pipeline.yml").write_text(SPEC.format(folder=folder, database=DATABASE))
    for name, text in files.items():
        (folder / "transformations" / name.replace("_", ".")).write_text(text)


@pytest.mark.exhaustive
def test_later_run_adds_the_rows_of_new_commits(
    spark: SparkSession, connect_url: str, database: str, golden: Any, tmp_path: pathlib.Path
) -> None:
    """The first run has the rows of Hudi; a run after a commit adds the rows of this commit to a streaming table."""
    folder = golden.copy(CASE, tmp_path)
    (last,) = (folder / ".hoodie" / "timeline").glob(f"*_{LAST}.deltacommit")
    completed = last.rename(tmp_path / last.name)
    before = penstock.read(folder).read_all()
    spark.sql(f"CREATE TABLE {database}.lake USING penstock LOCATION '{folder}'")
    write_pipeline(tmp_path, orders_sql=SQL.format(database=database))

    def column(table: str, name: str) -> Counter[Any]:
        session = spark.newSession()  # a session caches the files of a table, and another one writes them
        return Counter(row[name] for row in session.table(f"{database}.{table}").collect())

    run_pipeline(tmp_path, connect_url)
    assert column("ids", "n") == Counter([before.num_rows])
    assert column("streamed", "id") == Counter(before["id"].to_pylist())

    completed.rename(last)
    run_pipeline(tmp_path, connect_url)
    snapshot = golden.expected(CASE, "snapshot")
    written = snapshot.filter(pc.equal(snapshot["_hoodie_commit_time"], last.name.partition("_")[0]))
    assert written.num_rows > 0
    assert column("streamed", "id") == Counter(before["id"].to_pylist()) + Counter(written["id"].to_pylist())
    assert column("ids", "n") == Counter([snapshot.num_rows])


@pytest.mark.exhaustive
def test_pipeline_refuses_temporary_views(connect_url: str, database: str, golden: Any, tmp_path: pathlib.Path) -> None:
    """Why the guide tells pipelines to create tables before they run: Spark refuses views inside."""
    table = str(golden.table(CASE))
    text = f"import penstock.spark\npenstock.spark.create_views(spark, {str(pathlib.Path(table).parent)!r})\n"
    write_pipeline(tmp_path, orders_py=text)
    with pytest.raises(AssertionError, match="SESSION_MUTATION_IN_DECLARATIVE_PIPELINE"):
        run_pipeline(tmp_path, connect_url, "dry-run")
