"""`penstock demo` from start to end. One altered row makes it fail."""

from __future__ import annotations

import io
import pathlib
import shutil
import subprocess
import sys
from importlib.resources import as_file

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from penstock.engine.demo.main import run
from penstock.engine.demo.sample import packaged_data


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the packaged data that a test may alter."""
    with as_file(packaged_data()) as folder:
        shutil.copytree(folder, tmp_path / "orders")
    return tmp_path / "orders"


def demo(data: pathlib.Path, *read_paths: str) -> tuple[int, str]:
    """Runs the demo in this process; returns its exit code and output."""
    printed = io.StringIO()
    return run(Console(file=printed, width=200), data=data, read_paths=read_paths), printed.getvalue()


def test_every_range_and_the_snapshot_equal_hudi(data: pathlib.Path) -> None:
    code, printed = demo(data, "arrow")
    assert code == 0, printed
    assert printed.count("equal") >= 9
    assert "DIFFERS" not in printed
    next_steps = [line.split()[:2] for line in printed.partition("Next:")[2].splitlines() if line]
    assert next_steps == [["docs/quickstart.md", "ten"], ["docs/README.md", "guides"], ["penstock", "doctor"]]


@pytest.mark.parametrize("file", ["snapshot.parquet", "commit_2.parquet"])
def test_one_altered_row_is_detected(data: pathlib.Path, file: str) -> None:
    rows = pq.read_table(data / file)
    status = rows["status"].to_pylist()
    status[3] = "altered"
    at = rows.column_names.index("status")
    pq.write_table(rows.set_column(at, "status", pa.array(status)), data / file)
    code, printed = demo(data, "arrow")
    assert code == 1
    assert printed.count("DIFFERS") == 1
    assert "status='altered'" in printed


def test_one_missing_row_is_detected(data: pathlib.Path) -> None:
    pq.write_table(pq.read_table(data / "snapshot.parquet").slice(1), data / "snapshot.parquet")
    code, printed = demo(data, "arrow")
    assert code == 1
    assert "1 unexpected rows" in printed


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_whole_demo_from_any_folder(tmp_path: pathlib.Path) -> None:
    """All four read paths, as a user starts them. Two slots request splits. No file remains."""
    command = [sys.executable, "-m", "penstock", "demo"]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=170
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-4000:]
    assert "Every row of every read equals" in result.stdout
    assert "each split once, up to 2 slots a plan" in result.stdout
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
