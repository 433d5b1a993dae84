"""Text columns kept as indices: the same text comes out, one value is held once, and no index is trusted."""

from __future__ import annotations

import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.base.file import BaseFile
from penstock.reader.split.emit import BatchSize
from penstock.reader.values import dictionary_text
from penstock.reader.values.dictionary_text import (
    IndexOutOfDictionary,
    PlainText,
    among,
    checked,
    concatenated,
    constant_columns,
    encoded_constants,
    is_encoded,
    text_bytes,
)
from penstock.table.schema.avro import parse_record_schema
from penstock.table.storage.filesystem import open_storage

NAMES = ("one", "few", "many", "none", "some", "wide")
FIELDS = ", ".join(f'{{"name": "{name}", "type": ["null", "string"]}}' for name in NAMES)
RECORD = parse_record_schema(f'{{"type": "record", "name": "r", "fields": [{FIELDS}]}}')
ROWS = 20_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pa.Table]:
    """A file of two row groups, of columns of one value, few, many, and nulls."""
    table = pa.table(
        {
            "one": pa.repeat("always", ROWS),
            "few": ["left" if number < ROWS // 2 else "right" for number in range(ROWS)],
            "many": [f"value {number}" for number in range(ROWS)],
            "none": pa.nulls(ROWS, pa.string()),
            "some": [None if number < ROWS // 4 else "there" for number in range(ROWS)],
            "wide": pa.repeat("w" * 300, ROWS),
        }
    )
    folder = tmp_path_factory.mktemp("encoded")
    pq.write_table(table, folder / "f.parquet", row_group_size=ROWS * 3 // 4)
    return folder, table


def batches(folder: pathlib.Path, encoded: tuple[str, ...], size: BatchSize) -> list[pa.RecordBatch]:
    ref = FileRef("f.parquet", (folder / "f.parquet").stat().st_size)
    with BaseFile(open_storage(str(folder)), ref, RECORD, NAMES, table="t", may_be_encoded=encoded) as base:
        return [batch for group in base.row_groups(WholeFile(), size) for batch in group.batches()]


def test_same_text_comes_out(written: tuple[pathlib.Path, pa.Table]) -> None:
    folder, table = written
    result = batches(folder, NAMES, BatchSize(3000, 1 << 24))
    encoded = {name for name in NAMES if is_encoded(result[0].column(name).type)}
    assert encoded == set(NAMES) - {"wide"}, "many values are read as indices too, wide ones become text at once"
    plain = PlainText()
    assert pa.Table.from_batches([plain.batch(batch) for batch in result]) == table
    assert not any(is_encoded(kind) for kind in batches(folder, (), BatchSize(3000, 1 << 24))[0].schema.types)


@pytest.mark.parametrize(("least", "is_text"), [(ROWS + 1, True), (ROWS, False)])
def test_files_of_few_rows_are_text(
    written: tuple[pathlib.Path, pa.Table], monkeypatch: pytest.MonkeyPatch, least: int, is_text: bool
) -> None:
    monkeypatch.setattr(dictionary_text, "LEAST_ROWS", least)
    folder, table = written
    result = batches(folder, NAMES, BatchSize(3000, 1 << 24))
    encoded = {name for name in NAMES if is_encoded(result[0].column(name).type)}
    assert (encoded == {"many"}) is is_text, "whose dictionary is large, so that it is read as indices anyway"
    plain = PlainText()
    assert pa.Table.from_batches([plain.batch(batch) for batch in result]) == table


def test_one_value_is_held_once(written: tuple[pathlib.Path, pa.Table]) -> None:
    result = batches(written[0], NAMES, BatchSize(3000, 1 << 24))
    plain = PlainText()
    places = {plain.column("one", batch.column("one")).buffers()[2].address for batch in result}
    assert len(places) == 1


def test_batches_are_bounded_by_the_text_that_they_stand_for(written: tuple[pathlib.Path, pa.Table]) -> None:
    plain = PlainText()
    for batch in batches(written[0], NAMES, BatchSize(1 << 20, 1 << 20)):
        assert plain.batch(batch).nbytes <= text_bytes(batch) <= 1.1 * (1 << 20)


TEXTS = st.lists(st.none() | st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=20)


@given(TEXTS, st.sets(st.sampled_from(["a", "b", "c", "", "d"])), st.integers(0, 5))
def test_encoded_or_not_the_answers_are_the_same(texts: list[str | None], expected: set[str], offset: int) -> None:
    plain = pa.array(texts, pa.string())
    encoded = plain.dictionary_encode().slice(offset)
    plain = plain.slice(offset)
    values = pa.array(sorted(expected), pa.string())
    assert among(encoded, values).to_pylist() == among(plain, values).to_pylist()
    assert PlainText().column("c", checked(encoded)).to_pylist() == plain.to_pylist()


@given(
    st.lists(st.none() | st.sampled_from(["", "a", "b", "ab", "é"]), min_size=1, max_size=6)
    | st.tuples(st.sampled_from(["", "a", "é", "w" * 300]), st.integers(1, 9)).map(lambda given: [given[0]] * given[1]),
    st.integers(0, 5),
)
def test_decoded_columns_of_one_value_are_indices(texts: list[str | None], offset: int) -> None:
    column = pa.array(["z", *texts, "z"], pa.string()).slice(1, len(texts)).slice(min(offset, len(texts) - 1))
    batch = pa.record_batch({"c": column, "d": column})
    result = encoded_constants(batch, ["c"])
    values = column.to_pylist()
    constant = values[0] is not None and len(set(values)) == 1 and len(values[0]) < 300
    assert (is_encoded(result.column("c").type), is_encoded(result.column("d").type)) == (constant, False)
    assert PlainText().batch(result).to_pydict() == batch.to_pydict()


@given(st.lists(st.lists(st.none() | st.sampled_from(["a", "b"]), min_size=1, max_size=3), min_size=1, max_size=4))
def test_parts_put_together_are_the_column(parts: list[list[str | None]]) -> None:
    batches = [encoded_constants(pa.record_batch({"c": pa.array(part, pa.string())}), ["c"]) for part in parts]
    result = concatenated([batch.column(0) for batch in batches], pa.default_memory_pool())
    values = [value for part in parts for value in part]
    assert is_encoded(result.type) == (None not in values and len(set(values)) == 1)
    assert PlainText().column("c", result).to_pylist() == values


@pytest.mark.parametrize("index", [-1, 1, 2**31 - 1])
def test_index_without_a_value_is_refused(index: int) -> None:
    indices = pa.array(np.array([0, index, 0], np.int32))
    with pytest.raises(IndexOutOfDictionary, match=f"index {index} into a dictionary of 1"):
        checked(pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False))


def test_indices_into_no_values_are_refused() -> None:
    indices = pa.array(np.zeros(2, np.int32))
    with pytest.raises(IndexOutOfDictionary):
        checked(pa.DictionaryArray.from_arrays(indices, pa.array([], pa.string()), safe=False))


def encoded_texts(path: pathlib.Path, columns: tuple[str, ...] = NAMES) -> list[dict[str, str]]:
    footer = pq.read_metadata(path)
    return [constant_columns(footer, number, columns) for number in range(footer.num_row_groups)]


def test_column_with_one_value_by_the_footer_is_not_decoded(written: tuple[pathlib.Path, pa.Table]) -> None:
    """`some` is one value after the nulls of the first row group; `few` in the second row group only."""
    path = written[0] / "f.parquet"
    assert encoded_texts(path) == [{"one": "always"}, {"one": "always", "few": "right", "some": "there"}]
    assert encoded_texts(path, ("few", "many")) == [{}, {"few": "right"}]


def test_column_of_one_value_is_read_where_no_other_is(tmp_path: pathlib.Path) -> None:
    pq.write_table(pa.table({"one": pa.repeat("always", 10)}), tmp_path / "f.parquet")
    ref = FileRef("f.parquet", (tmp_path / "f.parquet").stat().st_size)
    with BaseFile(open_storage(str(tmp_path)), ref, RECORD, ("one",), table="t", may_be_encoded=("one",)) as base:
        (group,) = base.row_groups(WholeFile(), BatchSize(4, 1 << 20))
        assert [PlainText().batch(batch).column(0).to_pylist() for batch in group.batches()] == [
            ["always"] * 4,
            ["always"] * 4,
            ["always"] * 2,
        ]


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_pages_of_other_writers_that_have_no_indices_are_read_as_text(tmp_path: pathlib.Path, encoding: str) -> None:
    values = ["a", "b", None] * 10
    table = pa.table({"few": values})
    pq.write_table(table, tmp_path / "f.parquet", use_dictionary=False, column_encoding={"few": encoding})
    ref = FileRef("f.parquet", (tmp_path / "f.parquet").stat().st_size)
    with BaseFile(open_storage(str(tmp_path)), ref, RECORD, ("few",), table="t", may_be_encoded=("few",)) as base:
        (group,) = base.row_groups(WholeFile(), BatchSize(100, 1 << 20))
        assert [value for batch in group.batches() for value in batch.column(0).to_pylist()] == values


@given(st.lists(st.sampled_from(["a", "b", "", "ä" * 200]), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_statistics_that_do_not_prove_one_value_are_not_used(values: list[str], null: bool, statistics: bool) -> None:
    rows = [*values, None] if null else values
    remaining = pa.BufferOutputStream()
    pq.write_table(pa.table({"one": pa.array(rows, pa.string())}), remaining, write_statistics=statistics)
    footer = pq.read_metadata(pa.BufferReader(remaining.getvalue()))
    same = statistics and not null and len(set(values)) == 1 and len(values[0].encode()) <= 256
    assert constant_columns(footer, 0, ("one",)) == ({"one": values[0]} if same else {})


def test_constant_that_is_not_utf8_is_not_used(tmp_path: pathlib.Path) -> None:
    table = pa.table({"one": pa.array([b"\xff"] * 3, pa.binary())})
    pq.write_table(table, tmp_path / "f.parquet")
    assert encoded_texts(tmp_path / "f.parquet") == [{}]
