"""`penstock demo` from start to end. One altered row makes it fail."""

from __future__ import annotations

import io
import pathlib
import re
import shutil
import subprocess
import sys
from importlib.resources import as_file

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from penstock.engine.demo import written_table
from penstock.engine.demo.main import run
from penstock.engine.demo.sample import packaged_data
from penstock.engine.write.results import WriteResult
from penstock.engine.write.write import write
from penstock.proto.errors import PenstockError


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


def test_written_table_is_planned_and_read_back(data: pathlib.Path) -> None:
    code, printed = demo(data, "write")
    assert code == 0, printed
    assert re.search(r"equal  snapshot of the written table: [1-9]\d* rows", printed)
    assert re.search(r"equal  range of its second commit, which the enumerator plans as [1-9]\d* splits", printed)


def test_one_row_that_is_not_written_is_detected(data: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written_table, "write", lambda path, rows: write(path, rows.slice(1)))
    code, printed = demo(data, "write")
    assert code == 1
    assert "1 missing rows" in printed


def test_commit_that_the_enumerator_does_not_see_is_an_error(
    data: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def write_once(path: str, rows: pa.Table) -> WriteResult:
        return written[0] if written else written.append(write(path, rows)) or written[0]

    monkeypatch.setattr(written_table, "write", write_once)
    with pytest.raises(PenstockError, match="the enumerator sees no commit"):
        demo(data, "write")


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_whole_demo_from_any_folder(tmp_path: pathlib.Path) -> None:
    """All read paths and the write, as a user starts them. Two slots request splits. No file remains."""
    command = [sys.executable, "-m", "penstock", "demo"]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=170
    )
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-4000:]
    assert "Every row of every read equals" in result.stdout
    assert "each split once, up to 2 slots a plan" in result.stdout
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []
