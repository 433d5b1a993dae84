"""History files whose rows take far more memory than the file has bytes."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.errors import ConfigurationError, CorruptFile
from penstock.table.config.properties import load_properties
from penstock.table.storage.filesystem import open_storage
from penstock.table.timeline import archive as archive_module
from penstock.table.timeline import archive_v2_files, commits
from penstock.table.timeline.archive import Archive, ArchiveCache, read_archive
from penstock.table.timeline.archive_v2 import completions_by_instant, read_completions

CASE = "B_v9_arch_mor"
FILE = ".hoodie/timeline/history/20261120213612473_20261120213640535_1.parquet"
MIB = 1 << 20
LAYOUTS: dict[str, dict[str, Any]] = {
    "indices": {},
    "plain": {"use_dictionary": False},
    "front-coded": {
        "use_dictionary": False,
        "column_encoding": {"instantTime": "DELTA_BYTE_ARRAY", "metadata": "DELTA_BYTE_ARRAY"},
    },
}


def archive(folder: pathlib.Path) -> Archive:
    storage = open_storage(str(folder))
    return read_archive(storage, load_properties(storage), ArchiveCache())


def completions(folder: pathlib.Path) -> dict[str, str]:
    storage = open_storage(str(folder))
    return dict(completions_by_instant(read_completions(storage, load_properties(storage))))


def rewrite(folder: pathlib.Path, times: int, **options: Any) -> int:
    """Repeats each row of a history file; its size then."""
    table = pq.read_table(folder / FILE)
    rows = pa.array(np.repeat(np.arange(table.num_rows), times))
    encoded = [
        pa.chunked_array([column.combine_chunks().dictionary_encode().take(rows)]) if not options else column.take(rows)
        for column in table.columns
    ]
    pq.write_table(
        pa.table(encoded, names=table.column_names), folder / FILE, compression="zstd", store_schema=False, **options
    )
    return (folder / FILE).stat().st_size


@pytest.mark.golden
@pytest.mark.parametrize("options", LAYOUTS.values(), ids=list(LAYOUTS))
def test_repeated_rows_are_one_instant_each(golden: Any, tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    folder = golden.copy(CASE, tmp_path)
    whole, times = archive(folder), completions(folder)
    rewrite(folder, 3, **options)
    assert archive(folder) == whole
    assert completions(folder) == times


@pytest.mark.golden
def test_rows_of_few_instants_are_no_objects(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values of a row are counted: parsed metadata, and Arrow's memory."""
    folder = golden.copy(CASE, tmp_path)
    whole, times = archive(folder), completions(folder)
    assert rewrite(folder, 30_000) < MIB
    parsed: list[int] = []
    inner = archive_module.parse_commit
    monkeypatch.setattr(archive_module, "parse_commit", lambda *value: parsed.append(1) or inner(*value))
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    pa.set_memory_pool(pool)
    try:
        assert completions(folder) == times
        assert archive(folder) == whole
    finally:
        pa.set_memory_pool(before)
    assert len(parsed) == len(whole.commits)
    assert pool.max_memory() < 40 * MIB


def one_file(folder: pathlib.Path, **columns: Any) -> None:
    """A history file of the columns given, the others as its first row has them."""
    row = pq.read_table(folder / FILE).slice(0, 1)
    rows = len(next(iter(columns.values())))
    table = row.take(pa.array([0] * rows))
    for name, values in columns.items():
        table = table.set_column(table.column_names.index(name), name, values)
    pq.write_table(table, folder / FILE, compression="zstd", store_schema=False)


@pytest.mark.golden
def test_more_instants_than_are_held_are_refused(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = golden.copy(CASE, tmp_path)
    one_file(folder, instantTime=pa.array([f"2026{number:013d}" for number in range(3000)]))
    assert len(completions(folder)) > 3000
    monkeypatch.setattr(archive_v2_files, "MAX_INSTANTS", 2000)
    with pytest.raises(CorruptFile, match=r"_1\.parquet.*more than 2000 instants"):
        completions(folder)


@pytest.mark.golden
@pytest.mark.parametrize("column", ["instantTime", "completionTime", "action"])
def test_long_text_in_place_of_a_time_is_not_repeated(golden: Any, tmp_path: pathlib.Path, column: str) -> None:
    folder = golden.copy(CASE, tmp_path)
    indices = pa.array([0] * 50_000, pa.int32())
    one_file(folder, **{column: pa.DictionaryArray.from_arrays(indices, pa.array(["1" * MIB])).dictionary_encode()})
    with pytest.raises(CorruptFile, match=f"a value of {MIB} bytes in {column}"):
        completions(folder)


@pytest.mark.golden
def test_metadata_that_many_instants_share_is_parsed_once_and_still_counts(
    golden: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = golden.copy(CASE, tmp_path)
    one_file(folder, instantTime=pa.array([f"2026{number:013d}" for number in range(400)]))
    parsed: list[int] = []
    inner = commits.parse_commit
    monkeypatch.setattr(archive_module, "parse_commit", lambda *value: parsed.append(1) or inner(*value))
    result = archive(folder)
    assert len(parsed) < 100 < 400 < len(result.commits)
    assert result.commits["20260000000000007"].requested_time == "20260000000000007"
    monkeypatch.setattr(archive_module, "MAX_ARCHIVED", 100)
    parsed.clear()
    with pytest.raises(ConfigurationError, match="archived timeline of more than 100"):
        archive(folder)
    assert len(parsed) < 100
