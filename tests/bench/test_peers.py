"""The comparison with other formats: the expected sums, and that a wrong result ends it."""

from __future__ import annotations

import pathlib

import pyarrow.parquet as pq
import pytest

import penstock
from bench import peers
from bench.changes_range import completion_times
from bench.peer_tables import sums


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("peers")
    peers.write_rows(folder / "rows", 200, 3, 0.1)
    peers.write_hudi(str(folder / "merge_on_read"), "merge_on_read", sorted((folder / "rows").iterdir()))
    return folder


def test_range_has_the_newest_version_of_each_written_row(folder: pathlib.Path) -> None:
    path = str(folder / "merge_on_read")
    expected = peers.newest_sums(folder)
    written = sum(pq.read_metadata(file).num_rows for file in sorted((folder / "rows").iterdir())[1:])
    assert 0 < expected["rows"] < written, "no key is written twice"
    assert sums(iter(penstock.read(path, query="incremental", after=completion_times(path)[0]))) == expected


@pytest.mark.parametrize("wrong", [{"rows": 1}, {"sum": 1}])
def test_contestant_with_other_results_ends_the_comparison(folder: pathlib.Path, wrong: dict[str, int]) -> None:
    run = {"cpu_s": 1.0, **peers.newest_sums(folder)}
    peers.check(folder, {"rows": {peers.PLAIN: [run]}})
    with pytest.raises(SystemExit, match="expected"):
        peers.check(folder, {"rows": {peers.PLAIN: [run, {**run, **wrong}]}})
