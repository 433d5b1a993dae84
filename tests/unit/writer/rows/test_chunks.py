"""Data in chunks: their size, their rows, and errors of the source."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import ConfigurationError
from penstock.writer.rows.chunks import batches_of, without_pandas_index

SCHEMA = pa.schema([("n", pa.int64())])


def reader(sizes: list[int]) -> tuple[pa.RecordBatchReader, int]:
    batches, begin = [], 0
    for size in sizes:
        batches.append(pa.RecordBatch.from_pydict({"n": range(begin, begin + size)}, SCHEMA))
        begin += size
    return pa.RecordBatchReader.from_batches(SCHEMA, batches), begin


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 100))
def test_chunks_have_all_rows_in_order_and_at_most_the_size(sizes: list[int], most_bytes: int) -> None:
    stream, count = reader(sizes)
    chunks = list(batches_of(stream).chunks(most_bytes, "table t"))
    assert [n for chunk in chunks for n in chunk.column("n").to_pylist()] == list(range(count))
    assert all(chunk.nbytes <= max(8, most_bytes) for chunk in chunks) and chunks
    assert all(chunk.num_rows for chunk in chunks) or not count


def test_tables_that_fit_are_one_chunk() -> None:
    table = pa.table({"n": pa.chunked_array([[1], [2, 3]])})
    assert [chunk.to_pydict() for chunk in batches_of(table).chunks(24, "table t")] == [table.to_pydict()]
    assert [chunk.num_rows for chunk in batches_of(table).chunks(16, "table t")] == [1, 2]
    (batch,) = batches_of(table.slice(1).combine_chunks().to_batches()[0]).chunks(24, "table t")
    assert batch.column("n").to_pylist() == [2, 3]


def test_unnamed_index_of_a_data_frame_is_no_column() -> None:
    import pandas

    frame = pandas.DataFrame({"n": range(6), "m": range(6)})
    filtered = pa.Table.from_pandas(frame[frame.n > 2])
    assert filtered.schema.names == ["n", "m", "__index_level_0__"]
    assert without_pandas_index(filtered.schema).names == ["n", "m"]
    for data in (filtered, filtered.to_reader(), filtered.to_batches()[0], frame[frame.n > 2]):
        (chunk,) = batches_of(data).chunks(1 << 20, "table t")
        assert chunk.select(["n", "m"]).to_pydict() == {"n": [3, 4, 5], "m": [3, 4, 5]} and chunk.num_columns == 2
    for kept, names in (
        (pa.Table.from_pandas(frame.set_index("m")), {"n", "m"}),
        (pa.table({"__index_level_0__": [1], "n": [1]}), {"n", "__index_level_0__"}),
    ):
        (chunk,) = batches_of(kept).chunks(1 << 20, "table t")
        assert set(chunk.schema.names) == names
    both = pa.table([[1], [2]], names=["n", "n"])
    (chunk,) = batches_of(both).chunks(1 << 20, "table t")
    assert chunk.schema.names == ["n", "n"], "refused later, with the name"


def test_dictionaries_count_with_the_text_of_their_rows() -> None:
    texts = pa.array(["x" * 1000, "y" * 1000]).dictionary_encode()
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1] * 50), texts.dictionary)
    chunks = list(batches_of(pa.table({"t": column})).chunks(10_000, "table t"))
    assert len(chunks) >= 10 and sum(chunk.num_rows for chunk in chunks) == 100


def test_many_small_batches_are_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.writer.rows.chunks._MAX_BATCHES", 4)
    stream, _ = reader([1] * 11)
    (chunk,) = batches_of(stream).chunks(1 << 20, "table t")
    assert chunk.column("n").to_pylist() == list(range(11)) and chunk.column("n").num_chunks <= 5


def test_error_of_the_source_keeps_its_kind_and_names_the_table() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"n": [1]}, SCHEMA)
        raise OSError("the source is gone")

    stream = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    with pytest.raises(OSError, match="the source is gone") as caught:
        list(batches_of(stream).chunks(8, "table t"))
    assert caught.value.__notes__ == ["table t: its data ended with this error; nothing was written"]
    with pytest.raises(ConfigurationError, match=r"got list, expected a pyarrow\.Table"):
        batches_of([])


def runs_of(values: pa.Array, rows: int) -> pa.Array:
    """A run-end encoded column: each value as often as the others."""
    ends = pa.array([rows // len(values) * (n + 1) for n in range(len(values))], pa.int32())
    return pa.RunEndEncodedArray.from_arrays(ends, values)


@pytest.mark.parametrize("form", ["table", "batch", "reader"])
def test_few_bytes_that_stand_for_many_rows_are_decoded_in_slices(form: str) -> None:
    rows = 2_000_000_000
    table = pa.table({"n": runs_of(pa.array([1, 2]), rows), "t": runs_of(pa.array(["x" * 1000]), rows)})
    data = {"table": table, "batch": table.to_batches()[0], "reader": table.to_reader()}[form]
    before = pa.total_allocated_bytes()
    chunks = batches_of(data).chunks(64 << 20, "table t")
    first, second = next(chunks), next(chunks)
    assert pa.total_allocated_bytes() - before < 400 << 20
    assert first.schema.types == [pa.int64(), pa.string()] and first.nbytes <= 64 << 20
    assert second.num_rows > 10_000 and second["t"][0].as_py() == "x" * 1000


@given(st.lists(st.sampled_from(["a", "bb", "ccc" * 9, None]), min_size=1, max_size=8), st.integers(1, 5))
def test_decoded_slices_have_all_values_in_order(texts: list[str | None], times: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock.writer.rows.chunks._DECODED_BYTES", 60)
        patch.setattr("penstock.writer.rows.chunks._DECODED_ROWS", 7)
        column = runs_of(pa.array(texts, pa.string()), times * len(texts))
        for table in (pa.table({"t": column}), pa.table({"t": column}).slice(1)):
            (chunk,) = batches_of(table).chunks(1 << 20, "table t")
            assert chunk["t"].to_pylist() == table["t"].to_pylist()
            assert max(map(len, chunk["t"].chunks), default=0) <= 7
