"""The memory of a read: batches of bounded bytes, and a peak that does not grow with the base file."""

from __future__ import annotations

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.proto.model.splits import FileRef
from penstock.reader.read_split import ReadOptions, read_split
from penstock.reader.split import context as context_module
from penstock.reader.split import emit
from tests.oracle import slice_writer
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder, ordinals_of


def test_rows_of_any_width_come_in_batches_of_bounded_bytes(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context_module, "BATCH_BYTES", 10_000)
    folder = SliceFolder(tmp_path, {"ts": "long", "v": "string"})
    wide = [{"_hoodie_record_key": f"{n}", "ts": n, "v": "x" * 1000} for n in range(60)]
    folder.write_base([wide[:40]])
    folder.write_log(slice_writer.data_block(folder.avro, wide[20:], "20260102000000000"))
    for compiled in (True, False):
        result = folder.read(options=ReadOptions(1000, compiled))
        assert ordinals_of(result) == list(range(60))
        assert max(batch.batch.num_rows for batch in result) <= 10
    assert emit.BATCH_BYTES > 1 << 20


def test_memory_does_not_grow_with_the_base(tmp_path: pathlib.Path) -> None:
    """Arrow's peak while a base of 8 row groups streams past a log is that of a base of 2."""
    peaks = []
    for groups in (2, 8):
        below = tmp_path / f"{groups}"
        below.mkdir()
        folder = SliceFolder(below, {"ts": "long", "v": "double"})
        path = below / f"group_0-1-1_{BASE_INSTANT}.parquet"
        count = groups * 40_000
        columns = {name: pa.nulls(count, pa.string()) for name in slice_writer.META}
        columns["_hoodie_record_key"] = pa.array([f"key-{number:09d}" for number in range(count)])
        numbers = {"ts": np.arange(count), "v": np.random.default_rng(1).random(count)}
        pq.write_table(pa.table({**columns, **numbers}, folder.arrow), path, row_group_size=40_000)
        folder.base = FileRef(path.name, path.stat().st_size)
        rows = [{"_hoodie_record_key": f"key-{number * 7:09d}", "ts": 1, "v": 1.0} for number in range(100)]
        folder.write_log(slice_writer.data_block(folder.avro, rows, "20260102000000000"))
        pool = pa.default_memory_pool()
        before, peak, rows_read = pool.bytes_allocated(), 0, 0
        for result in read_split(folder.scan(), folder.split(), options=ReadOptions(4096)):
            rows_read += result.batch.num_rows
            peak = max(peak, pool.bytes_allocated() - before)
        assert rows_read == count
        peaks.append(peak)
    assert peaks[1] < peaks[0] * 1.25
