"""A program whose environment is not activated: the `python3` of its PATH has neither Penstock nor pyarrow."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import venv
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.spark.interpreter import command
from tests.progress import PROGRESS_S

CASE = "B_v9_inc_cow"
ROWS = 50_000
"""The number of rows in each base file: a task has more to write than a socket holds when `take` ends it."""
PROGRAM = """
import json, os, sys
{first}
from pyspark.sql import SparkSession
settings = {{
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}}
spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
table = spark.read.format("penstock").load(sys.argv[1])
taken = [len(table.take(3)), len(table.limit(2).collect())]
print(json.dumps([table.count(), *taken, os.environ.get("PYSPARK_PYTHON")]))
spark.stop()
"""


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of a real `python3` without packages."""
    folder = tmp_path_factory.mktemp("python") / "empty"
    venv.create(folder, with_pip=False, symlinks=True)
    code = "import importlib.util as u; raise SystemExit(any(map(u.find_spec, ('penstock', 'pyarrow', 'pyspark'))))"
    subprocess.run([folder / "bin" / "python3", "-c", code], check=True, timeout=PROGRESS_S, env={})
    return folder / "bin"


@pytest.fixture(scope="module")
def large_table(golden: Any, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A table whose newest base files repeat their rows."""
    table: pathlib.Path = golden.copy(CASE, tmp_path_factory.mktemp("large"))
    files = [file for file in table.rglob("*.parquet") if ".hoodie" not in file.parts]
    newest = {file.name.split("_")[0]: file for file in sorted(files, key=lambda file: file.name.split("_")[-1])}
    for file in newest.values():
        rows = pq.read_table(file)
        pq.write_table(rows.take(pa.array(np.arange(ROWS) % rows.num_rows)), file)
    return table


def started(
    first: str, table: pathlib.Path, python: pathlib.Path, folder: pathlib.Path
) -> subprocess.CompletedProcess[str]:
    """The program, started by the path of this interpreter; `first` is its first statement."""
    java = pathlib.Path(shutil.which("java") or "java").parent
    names = ("HOME", "JAVA_HOME", "NUMBA_CACHE_DIR", "SPARK_SUBMIT_OPTS")  # the last: a JVM that starts faster
    kept = {name: os.environ[name] for name in names if name in os.environ}
    path = os.pathsep.join([str(python), "/usr/bin", "/bin", str(java)])
    (folder / "app.py").write_text(PROGRAM.format(first=first))
    return subprocess.run(
        [sys.executable, "app.py", str(table)],
        env={**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PROGRESS_S,
    )


def test_it_reads_and_ends_tasks_early_without_a_traceback(
    large_table: pathlib.Path, other_python: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """`import penstock.spark` is all that it needs; `take` and `limit` print no BrokenPipeError."""
    import penstock

    ended = started("import penstock.spark", large_table, other_python, tmp_path)
    assert ended.returncode == 0, ended.stderr
    rows = sum(batch.num_rows for batch in penstock.read(str(large_table), columns=["_hoodie_record_key"]))
    assert rows >= ROWS
    assert json.loads(ended.stdout) == [rows, 3, 2, command()]
    if command() != sys.executable:  # the suite on the oldest PySpark runs without the command penstock-python
        assert "Traceback" not in ended.stderr
        assert "BrokenPipeError" not in ended.stderr


@pytest.mark.exhaustive
def test_without_the_import_spark_does_not_find_the_format(
    large_table: pathlib.Path, other_python: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    """The reason for the import."""
    ended = started("pass", large_table, other_python, tmp_path)
    assert ended.returncode != 0
    assert "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: penstock." in ended.stderr
