"""Parquet files that crash pyarrow or exhaust memory: each is CorruptFile. Without the checks these tests abort."""

from __future__ import annotations

import copy
import io
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.enumerator.planning.event_time.bounds import EventTimeColumn, row_group_bounds, row_group_sizes
from penstock.proto.errors import CorruptFile, PenstockError
from penstock.proto.model.splits import FileRef, WholeFile
from penstock.reader.base import file as base_file
from penstock.reader.base.file import BaseFile
from penstock.reader.split.emit import BatchSize
from penstock.reader.values.dictionary_text import PlainText
from penstock.table.parquet import pages
from penstock.table.parquet.footer import read_base_footer
from penstock.table.schema.avro import parse_record_schema
from tests.fuzz import thrift_tree
from tests.fuzz.memory_storage import MemoryStorage
from tests.fuzz.thrift_tree import BINARY, I16, I32, I64, LIST, SET, STRUCT, Node

RECORD = parse_record_schema(
    '{"type":"record","name":"r","fields":[{"name":"key","type":"string"},{"name":"n","type":["null","long"]}]}'
)
KEY, N = 0, 1


def written(**options: Any) -> bytes:
    """A file of two row groups."""
    table = pa.table({"key": [f"key {n}" for n in range(2000)], "n": pa.array(range(2000), pa.int64())})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=1000, compression="gzip", store_schema=False, **options)
    return sink.getvalue()


def with_footer(data: bytes, change: Callable[[Node], None]) -> bytes:
    """The file with a changed footer of the right length."""
    size = int.from_bytes(data[-8:-4], "little")
    root, _ = thrift_tree.parse(data[-8 - size : -8])
    change(root)
    footer = thrift_tree.write(root)
    return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def chunks(root: Node) -> list[Node]:
    """The column chunks of the first row group."""
    return dict(dict(root.fields)[4].value[0].fields)[1].value


def metadata(root: Node, column: int) -> dict[int, Node]:
    """A column chunk's metadata by field."""
    return dict(dict(chunks(root)[column].fields)[3].fields)


def read(data: bytes) -> int:
    """Rows of the file as a base file, with and without the kernel that checks small files; errors are alike."""
    outcomes = []
    for compiled in (True, False):
        try:
            outcomes.append(read_once(data, compiled=compiled))
        except CorruptFile as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]
    return read_once(data, compiled=True)


def read_once(data: bytes, *, compiled: bool) -> int:
    """Rows of the file as a base file."""
    storage, ref = MemoryStorage({"file.parquet": data}), FileRef("file.parquet", len(data))
    with BaseFile(storage, ref, RECORD, ["key", "n"], table="t", key="key", compiled=compiled) as file:
        groups = list(file.row_groups(WholeFile(), BatchSize(100, 1 << 20)))
        return sum(batch.num_rows for group in groups for batch in group.batches())


def read_far(data: bytes) -> int:
    """As `read`, from an object store."""
    with patch.object(base_file, "is_local", lambda storage: False):
        return read(data)


def footer(data: bytes) -> None:
    """The planner's statistics of a footer."""
    footer_read = read_base_footer(MemoryStorage({"file.parquet": data}), FileRef("file.parquet", len(data)))
    assert max(row_group_sizes(footer_read, len(data))) <= len(data)
    for field in RECORD.fields:
        row_group_bounds(footer_read, EventTimeColumn(field.name, field.type))


def test_valid_file_is_read() -> None:
    assert read(written()) == 2000
    footer(written())


@pytest.mark.parametrize("use", [read, footer])
def test_row_group_of_more_columns_than_the_schema_is_corrupt(use: Callable[[bytes], object]) -> None:
    data = with_footer(written(), lambda root: chunks(root).append(chunks(root)[N]))
    with pytest.raises(CorruptFile, match=r"columns"):
        use(data)


@pytest.mark.parametrize("kind", [0, 1, 3, 6, 7, 99, -1, 2**31 - 1])
def test_column_of_another_type_than_in_the_schema_is_corrupt(kind: int) -> None:
    def change(root: Node) -> None:
        metadata(root, N)[1].value = kind

    with pytest.raises(CorruptFile, match="type"):
        footer(with_footer(written(), change))


@pytest.mark.parametrize("field", [1, 2, 5, 6])
@pytest.mark.parametrize("size", [0, 1, 7])
def test_statistics_shorter_than_a_value_are_corrupt(field: int, size: int) -> None:
    def change(root: Node) -> None:
        dict(metadata(root, N)[12].fields)[field].value = bytes(size)

    with pytest.raises(CorruptFile, match="statistics"):
        footer(with_footer(written(), change))


def keys_of_one_value(columns: list[str], change: Callable[[Node], None]) -> set[str]:
    """The keys that are read, with other columns, from a file in which all keys are equal and the footer is changed."""
    sink = io.BytesIO()
    table = pa.table({"key": pa.repeat("same", 1000), "n": pa.array(range(1000), pa.int64())})
    pq.write_table(table, sink, store_schema=False)
    data = with_footer(sink.getvalue(), change)
    storage, plain = MemoryStorage({"file.parquet": data}), PlainText()
    ref = FileRef("file.parquet", len(data))
    with BaseFile(storage, ref, RECORD, columns, table="t", may_be_encoded=["key"]) as file:
        groups = file.row_groups(WholeFile(), BatchSize(100, 1 << 20))
        return {key for group in groups for batch in group.batches() for key in plain.batch(batch)["key"].to_pylist()}


def test_text_of_one_value_is_not_decoded() -> None:
    def no_pages(root: Node) -> None:
        metadata(root, KEY)[9].value = metadata(root, KEY)[11].value = 2**40

    assert keys_of_one_value(["key", "n"], no_pages) == {"same"}


def test_wrong_statistics_of_unselected_columns_do_not_prevent_a_read() -> None:
    def short(root: Node) -> None:
        dict(metadata(root, N)[12].fields)[5].value = b"short"

    assert keys_of_one_value(["key"], short) == {"same"}


@pytest.mark.parametrize(("field", "levels"), [(2, 1), (2, 3), (3, 1), (3, 5)])
def test_size_statistics_of_other_levels_are_corrupt(field: int, levels: int) -> None:
    """pyarrow checks them against the schema without catching the exception: the process would end."""

    def change(root: Node) -> None:
        numbers = [Node(I64, 0) for _ in range(levels)]
        sizes = metadata(root, N)[16]
        others = [(number, node) for number, node in sizes.fields if number != field]
        sizes.fields = sorted([*others, (field, Node(LIST, numbers, I64))], key=lambda pair: pair[0])

    for use in (read, read_far, footer):
        if (field, levels) == (2, 1):  # as many levels as the column
            use(with_footer(written(), change))
        else:
            with pytest.raises(CorruptFile, match="size statistics"):
                use(with_footer(written(), change))


def schema(root: Node) -> list[Node]:
    """The schema's elements: its root, and each column."""
    return dict(root.fields)[2].value


@pytest.mark.parametrize(
    ("repetition", "error"),
    [
        ((3, Node(I64, 1)), "size statistics of 2 levels, expected 1"),
        ((3, Node(I16, 1)), "size statistics of 2 levels, expected 1"),
        ((3, Node(I32, (1 << 32) + 1)), "a number of 33 bits"),
        ((3 + (1 << 16), Node(I32, 1)), "a field with the number 65539"),
    ],
)
def test_repetition_that_pyarrow_reads_otherwise_is_corrupt(repetition: tuple[int, Node], error: str) -> None:
    """pyarrow skips a field of another type, and keeps 32 bits of a number and 16 of a field's. A check that follows
    the field otherwise lets size statistics pass at which the process would end."""

    def change(root: Node) -> None:
        element = schema(root)[1 + N]
        element.fields = sorted(
            [*(pair for pair in element.fields if pair[0] != 3), repetition], key=lambda pair: pair[0]
        )

    for use in (read, read_far, footer):
        with pytest.raises(CorruptFile, match=error):
            use(with_footer(written(), change))


@pytest.mark.parametrize(("number", "kind"), [(2, LIST), (2, SET), (2 + (1 << 16), LIST)])
def test_second_schema_is_corrupt_or_ignored_as_by_pyarrow(number: int, kind: int) -> None:
    """pyarrow takes the last list as the schema, and skips a set."""

    def change(root: Node) -> None:
        other = copy.deepcopy(schema(root))
        other[1 + N].fields = [pair for pair in other[1 + N].fields if pair[0] != 3]
        root.fields.append((number, Node(kind, other, STRUCT)))

    for use in (read, read_far, footer):
        if kind == SET:
            use(with_footer(written(), change))
        else:
            with pytest.raises(CorruptFile, match=r"schema after the row groups|a field with the number"):
                use(with_footer(written(), change))


def test_each_changed_type_of_a_field_gives_rows_or_an_error() -> None:
    """Each byte of the footer that may begin an i32 says i64 or i16 instead: no read ends the process."""
    data = written()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    places = [at for at in range(begin, len(data) - 8) if data[at] & 15 == I32]
    outcomes: Counter[str] = Counter()
    for at in places:
        for kind in (I16, I64):
            changed = bytearray(data)
            changed[at] = data[at] & 0xF0 | kind
            try:
                read(bytes(changed))
                outcomes["rows"] += 1
            except PenstockError:
                outcomes["error"] += 1
    assert outcomes.total() == 2 * len(places) > 100 and outcomes["rows"] and outcomes["error"]


def test_size_statistics_of_texts_for_numbers_are_corrupt() -> None:
    def change(root: Node) -> None:
        metadata(root, N)[16].fields.insert(0, (1, Node(I64, 5)))

    for use in (read, read_far, footer):
        with pytest.raises(CorruptFile, match="size statistics"):
            use(with_footer(written(), change))


@pytest.mark.parametrize("kind", [1, 2])
def test_encrypted_column_is_corrupt(kind: int) -> None:
    """1: with the footer's key, 2: with a separate key."""

    def change(root: Node) -> None:
        path = Node(LIST, [Node(BINARY, b"n")], BINARY)
        key = Node(STRUCT, None, 0, [(1, path)] if kind == 2 else [])
        chunks(root)[N].fields.append((8, Node(STRUCT, None, 0, [(kind, key)])))

    for use in (read, read_far, footer):
        with pytest.raises(CorruptFile, match="encrypted"):
            use(with_footer(written(), change))


def test_unknown_codec_is_corrupt() -> None:
    def change(root: Node) -> None:
        metadata(root, N)[4].value = 2**31 - 1

    data = with_footer(written(), change)
    with pytest.raises(CorruptFile):
        read(data)
    footer(data)  # planning does not depend on it


def test_column_path_that_is_not_text_is_not_selected() -> None:
    def change(root: Node) -> None:
        metadata(root, N)[3].value[0].value = b"\xff"

    assert read(with_footer(written(), change)) == 2000


def test_column_without_metadata_is_corrupt() -> None:
    def change(root: Node) -> None:
        chunk = chunks(root)[N]
        chunk.fields = [(number, node) for number, node in chunk.fields if number != 3]

    for use in (read, read_far, footer):
        with pytest.raises(CorruptFile):
            use(with_footer(written(), change))


@pytest.mark.parametrize("group_rows", [0, 999, 1001, 2**40, -1])
def test_row_group_of_more_or_fewer_rows_than_its_columns_is_corrupt(group_rows: int) -> None:
    def change(root: Node) -> None:
        dict(dict(root.fields)[4].value[0].fields)[3].value = group_rows

    with pytest.raises(CorruptFile):
        read(with_footer(written(), change))


@pytest.mark.parametrize("group_rows", [-1, 2**40 + 1, 2**63 - 1])
def test_row_group_of_more_rows_than_a_file_can_have_gives_no_statistics_to_plan_by(group_rows: int) -> None:
    def change(root: Node) -> None:
        dict(dict(root.fields)[4].value[0].fields)[3].value = group_rows

    with pytest.raises(CorruptFile, match="rows"):
        footer(with_footer(written(), change))


@pytest.mark.parametrize("size_bytes", [2**40, 2**63 - 1])
def test_row_group_is_planned_with_at_most_the_size_of_its_file(size_bytes: int) -> None:
    def change(root: Node) -> None:
        metadata(root, N)[7].value = metadata(root, KEY)[7].value = size_bytes

    footer(with_footer(written(), change))


@pytest.mark.parametrize("values", [0, 999, -1, 2**31])
def test_column_of_more_or_fewer_values_than_rows_is_corrupt(values: int) -> None:
    def change(root: Node) -> None:
        metadata(root, N)[5].value = values

    with pytest.raises(CorruptFile):
        read(with_footer(written(), change))


@pytest.mark.parametrize("field", [2, 3], ids=["uncompressed", "compressed"])
@pytest.mark.parametrize("value", [2**31 - 1, 2**30, 1 << 24, -1, -(2**31)])
def test_fault_17_page_of_a_hostile_size_is_corrupt_before_it_is_allocated(field: int, value: int) -> None:
    data = written(use_dictionary=False)
    size = int.from_bytes(data[-8:-4], "little")
    root, _ = thrift_tree.parse(data[-8 - size : -8])
    at = metadata(root, N)[9].value
    header, length = thrift_tree.parse(data[at:])
    header.fields = [(number, Node(I32, value) if number == field else node) for number, node in header.fields]
    page = thrift_tree.write(header)
    grown = len(page) - length
    hostile = data[:at] + page + data[at + length + max(grown, 0) :]
    with pytest.raises(CorruptFile, match="page at byte"):
        read(hostile)


def test_page_beyond_the_limit_is_corrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 1000)
    with pytest.raises(CorruptFile, match="at most 1000 are decoded"):
        read_once(written(use_dictionary=False), compiled=False)


@pytest.mark.parametrize("depth", [101, 50_000])
def test_schema_of_many_levels_is_corrupt(depth: int) -> None:
    def change(root: Node) -> None:
        schema = dict(root.fields)[2].value
        level = Node(thrift_tree.STRUCT, None, 0, [(4, Node(thrift_tree.BINARY, b"g")), (5, Node(I32, 1))])
        schema[1:1] = [level] * depth

    for use in (read, read_far, footer):
        with pytest.raises(CorruptFile):
            use(with_footer(written(), change))


@pytest.mark.parametrize("length", [0, 2**31 - 1, 2**32 - 1])
def test_hostile_footer_length_is_corrupt(length: int) -> None:
    data = written()
    for use in (read, read_far, footer):
        with pytest.raises(CorruptFile):
            use(data[:-8] + length.to_bytes(4, "little") + data[-4:])
