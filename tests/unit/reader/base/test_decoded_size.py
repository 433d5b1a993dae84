"""Reads are bounded by the size of decoded rows, and give the same rows whatever the bounds are."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.base import decoded_size
from penstock.reader.base.decoded_size import pieces
from penstock.reader.base.file import BaseFile
from penstock.reader.merge.keys import number_keys
from penstock.reader.split.emit import BatchSize
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

MIB = 1 << 20
SIZE = BatchSize(32768, MIB)
RECORD = parse_record_schema(
    """{"type":"record","name":"r","fields":[
    {"name":"key","type":["null","string"]},
    {"name":"text","type":["null","string"]},
    {"name":"data","type":["null","bytes"]},
    {"name":"list","type":["null",{"type":"array","items":["null","string"]}]},
    {"name":"map","type":["null",{"type":"map","values":["null","string"]}]},
    {"name":"record","type":["null",{"type":"record","name":"s","fields":[{"name":"f","type":["null","string"]}]}]}
    ]}"""
)
TYPES: dict[str, pa.DataType] = {
    "key": pa.string(),
    "text": pa.string(),
    "data": pa.binary(),
    "list": pa.list_(pa.string()),
    "map": pa.map_(pa.string(), pa.string()),
    "record": pa.struct([("f", pa.string())]),
}
LONG = "x" * 65536
ROWS = 800
"""50 MiB of long values."""


@pytest.fixture(autouse=True)
def sixteenth(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixteenth of the bounds, so that small files meet them."""
    monkeypatch.setattr(decoded_size, "_READ_BYTES", 4 * MIB)
    monkeypatch.setattr(decoded_size, "_COLUMN_BYTES", MIB // 4)


def value(name: str, text: str) -> Any:
    """A value of the column that holds the text."""
    match name:
        case "list":
            return [text]
        case "map":
            return [("k", text)]
        case "record":
            return {"f": text}
        case "data":
            return text.encode()
        case _:
            return text


def write(folder: pathlib.Path, table: pa.Table, **options: Any) -> FileRef:
    pq.write_table(table, folder / "f.parquet", store_schema=False, compression="zstd", **options)
    return FileRef("f.parquet", (folder / "f.parquet").stat().st_size)


def repeated(name: str, rows: int = ROWS) -> pa.Table:
    """One long value in every row."""
    one = pa.array([value(name, LONG)], TYPES[name])
    return pa.table({name: one.take(pa.array([0] * rows))})


@contextmanager
def peak_bytes() -> Iterator[list[int]]:
    """Appends the most memory that Arrow had at a time."""
    before, pool = pa.default_memory_pool(), pa.proxy_memory_pool(pa.system_memory_pool())
    result: list[int] = []
    pa.set_memory_pool(pool)
    try:
        yield result
    finally:
        pa.set_memory_pool(before)
        result.append(pool.max_memory())


def read(folder: pathlib.Path, ref: FileRef, names: list[str], size: BatchSize = SIZE) -> Iterator[pa.RecordBatch]:
    with BaseFile(open_storage(str(folder)), ref, RECORD, names, table="t", may_be_encoded=["text"]) as base:
        for group in base.row_groups(WholeFile(), size):
            yield from group.batches()


def rows_and_peak(folder: pathlib.Path, ref: FileRef, name: str) -> tuple[int, int]:
    rows = 0
    with peak_bytes() as peak:
        for batch in read(folder, ref, [name]):
            rows += batch.num_rows
            assert batch.nbytes < 1.2 * MIB
            del batch
    return rows, peak[0]


@pytest.mark.parametrize("name", list(TYPES))
def test_repeated_values_take_no_more_memory_than_a_few_batches(tmp_path: pathlib.Path, name: str) -> None:
    ref = write(tmp_path, repeated(name), write_statistics=False)
    assert ref.size_bytes < MIB
    rows, peak = rows_and_peak(tmp_path, ref, name)
    assert rows == ROWS
    assert peak < 12 * MIB, "decoded at once they are 50 MiB"


@pytest.mark.parametrize(
    ("length", "name", "is_encoded"), [(20, "text", True), (300, "text", False), (20, "key", False)]
)
def test_text_that_is_read_as_indices_remains_so(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, length: int, name: str, is_encoded: bool
) -> None:
    """If the caller takes indices and the values are short, also where too many values are known to encode the column
    in the whole file."""
    monkeypatch.setattr(decoded_size, "_COLUMN_BYTES", 1024)
    texts = [f"{number % 500}".rjust(length) for number in range(3000)]
    ref = write(tmp_path, pa.table({name: pa.array([None, *texts])}))
    batches = list(read(tmp_path, ref, [name]))
    assert {pa.types.is_dictionary(batch.schema.field(name).type) for batch in batches} == {is_encoded}
    assert [text for batch in batches for text in batch.column(name).to_pylist()] == [None, *texts]


def test_without_the_bound_the_same_read_takes_all_rows_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ref = write(tmp_path, repeated("list"))
    monkeypatch.setattr(decoded_size, "_COLUMN_BYTES", 1 << 60)
    assert rows_and_peak(tmp_path, ref, "list")[1] > 50 * MIB


@pytest.mark.parametrize(
    "options",
    [{"use_dictionary": False}, {"dictionary_pagesize_limit": 1000}],
    ids=["plain", "plain after a dictionary"],
)
def test_long_values_in_few_pages_take_no_more_memory_than_a_few_batches(
    tmp_path: pathlib.Path, options: dict[str, Any]
) -> None:
    texts = pa.array(["short", LONG]).take(pa.array([0] * 20_000 + [1] * ROWS))
    ref = write(tmp_path, pa.table({"text": texts}), write_batch_size=16, **options)
    rows, peak = rows_and_peak(tmp_path, ref, "text")
    assert rows == 20_000 + ROWS
    assert peak < 15 * MIB


def test_values_that_repeat_the_one_before_take_no_more_memory_than_a_few_batches(tmp_path: pathlib.Path) -> None:
    encoding = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    ref = write(tmp_path, repeated("text"), **encoding)
    rows, peak = rows_and_peak(tmp_path, ref, "text")
    assert rows == ROWS
    assert peak < 15 * MIB


def test_long_keys_of_a_row_group_are_not_matched_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoded_size, "_KEYS_BYTES", MIB)
    ref = write(tmp_path, repeated("key"))
    table, _ = number_keys([pa.array([LONG])], compiled=False)
    with BaseFile(open_storage(str(tmp_path)), ref, RECORD, ["key"], table="t", key="key") as base:
        (group,) = base.row_groups(WholeFile(), SIZE)
        assert group.keys() is None
        assert sum(len(table.match(batch.column(0), 0).rows) for batch in group.batches()) == ROWS


def test_short_values_are_read_as_many_rows_at_once_as_before(tmp_path: pathlib.Path) -> None:
    texts = pa.array([f"{number:020d}" for number in range(20_000)])
    ref = write(tmp_path, pa.table({"text": pa.concat_arrays([texts] * 5)}))
    assert max(batch.num_rows for batch in read(tmp_path, ref, ["text"], BatchSize(9000, MIB))) == 9000


TEXTS = st.none() | st.sampled_from(["", "a", "é", "w" * 300, "v" * 5000])


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "text": TEXTS,
                "list": st.none() | st.lists(TEXTS, max_size=3),
                "map": st.none() | st.dictionaries(st.sampled_from(["k", "l"]), TEXTS).map(lambda d: list(d.items())),
                "record": st.none() | st.fixed_dictionaries({"f": TEXTS}),
            }
        ),
        min_size=1,
        max_size=30,
    ),
    size_bytes=st.sampled_from([1, 700, 6000, 1 << 20]),
    size_rows=st.sampled_from([1, 4, 100]),
    threshold=st.sampled_from([0, 1 << 22]),
)
def test_rows_are_the_same_whatever_the_size_is(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], size_bytes: int, size_rows: int, threshold: int
) -> None:
    names = ["text", "list", "map", "record"]
    table = pa.table({name: pa.array([row[name] for row in rows], TYPES[name]) for name in names})
    folder = tmp_path_factory.mktemp("same")
    ref = write(folder, table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoded_size, "_COLUMN_BYTES", threshold)
        result = list(read(folder, ref, names, BatchSize(size_rows, size_bytes)))
    together: dict[str, list[Any]] = {name: [] for name in names}
    for batch in result:
        assert batch.num_rows <= size_rows
        for name in names:
            together[name].extend(batch.column(name).to_pylist())
    assert together == {name: table.column(name).to_pylist() for name in names}


def test_pieces_follow_the_bytes_of_each_row() -> None:
    values = pa.array([*(f"s{number}" for number in range(100)), "l" * 1000])
    texts = values.take(pa.array([*range(100)] * 5 + [100] * 20 + [*range(100)] * 5)).dictionary_encode()
    batch = pa.record_batch({"text": texts})
    result = list(pieces(batch, BatchSize(1000, 10_000), batch.schema, ()))
    assert sum(piece.num_rows for piece in result) == 1020
    assert result[0].num_rows > 490, "short rows come together"
    assert len(result) < 10


def test_index_beyond_the_dictionary_is_detected_before_text_is_built() -> None:
    indices = pa.array([0, 7], pa.int32())
    batch = pa.record_batch({"text": pa.DictionaryArray.from_arrays(indices, pa.array(["a" * 5000]), safe=False)})
    with pytest.raises(pa.ArrowIndexError):
        list(pieces(batch, BatchSize(10, 1000), pa.schema([("text", pa.string())]), ()))
