"""The simple index: a key belongs to the group whose base file holds it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from penstock.proto.errors import TableError
from penstock.proto.model.files import FileRef
from penstock.reader.merge.fold import RecordKind
from penstock.writer.index.locations import FooterTest, KeySearch, KeysOf, locate, unlocated
from penstock.writer.index.slices import LatestSlice, TableSlices
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.partition_paths import RowPartitions

STORED = {("a", "g1"): [["k1", "k2"], ["k3"]], ("a", "g2"): [["k4"]], ("b", "g3"): [["k1"]]}


def slice_of(partition: str, file_id: str, *, base: bool = True) -> LatestSlice:
    file = FileRef(f"{partition}/{file_id}", 1) if base else None
    return LatestSlice(partition=partition, file_id=file_id, base=file, base_instant="1", logs=(), key="1")


def rows(*keys: tuple[str, str]) -> KeyedRows:
    paths = tuple(sorted({partition for partition, _ in keys}))
    return KeyedRows(
        rows=pa.table({"id": [key for _, key in keys]}),
        keys=pa.chunked_array([[key for _, key in keys]]),
        partitions=RowPartitions(paths, np.array([paths.index(partition) for partition, _ in keys])),
        kinds=np.full(len(keys), RecordKind.DATA, np.uint8),
        ordering=(),
    )


def keys_of(item: LatestSlice, test: FooterTest | None) -> Iterator[pa.Array]:
    for batch in STORED[item.group]:
        yield pa.array(batch)


def search(keys: KeysOf) -> KeySearch:
    return KeySearch(keys_of=keys, by_footers=False, where="table t")


SLICES = TableSlices({"a": [slice_of("a", "g1"), slice_of("a", "g2")], "b": [slice_of("b", "g3")]}, frozenset())
ROWS = rows(("b", "k2"), ("a", "k3"), ("c", "k1"), ("a", "k4"), ("a", "k9"), ("b", "k1"), ("a", "k3"))


def test_keys_are_located_within_their_partition() -> None:
    located = list(locate(ROWS, SLICES, search(keys_of)))
    assert [(one.partition, one.rows.tolist(), one.places.tolist()) for one in located] == [
        ("a", [1, 3, 4, 6], [0, 1, -1, 0]),
        ("b", [0, 5], [-1, 0]),
        ("c", [2], [-1]),
    ]
    assert located[0].of_slice(0).tolist() == [1, 6] and located[0].new.tolist() == [4]


def test_key_of_several_slices_and_rows_is_located_in_each() -> None:
    stored = {"g1": [["k1", "k2"], ["k1"]], "g2": [["k2", "k9", "k9"]]}
    slices = TableSlices({"a": [slice_of("a", "g1"), slice_of("a", "g2")]}, frozenset())
    (one,) = locate(
        rows(("a", "k2"), ("a", "k3"), ("a", "k1")),
        slices,
        search(lambda item, test: (pa.array(batch) for batch in stored[item.file_id])),
    )
    assert (one.rows.tolist(), one.places.tolist()) == ([0, 0, 1, 2], [0, 1, -1, 0])
    assert [one.of_slice(place).tolist() for place in (0, 1)] == [[0, 2], [0]] and one.new.tolist() == [1]
    assert one.repeated == {0}, "k9 is none of the searched keys"


def test_without_search_all_keys_are_new() -> None:
    assert [one.new.tolist() for one in unlocated(ROWS, SLICES)] == [[1, 3, 4, 6], [0, 5], [2]]


def test_only_partitions_of_the_rows_are_read() -> None:
    read = []

    def recorded(item: LatestSlice, test: FooterTest | None) -> Iterator[pa.Array]:
        read.append(item.file_id)
        return keys_of(item, test)

    list(locate(rows(("b", "x")), SLICES, search(recorded)))
    assert read == ["g3"]


def test_group_with_logs_only_is_refused() -> None:
    slices = TableSlices({"a": [slice_of("a", "g1"), slice_of("a", "g4", base=False)]}, frozenset())
    with pytest.raises(TableError, match=r"partition 'a': file group g4 has only logs"):
        list(locate(ROWS, slices, search(keys_of)))


def test_row_stands_once_for_each_slice_that_has_its_key() -> None:
    copies = {"g1": ["k1", "k2", "k1"], "g2": ["k2"], "g3": ["k3"]}

    def repeated(item: LatestSlice, test: FooterTest | None) -> Iterator[pa.Array]:
        yield pa.array(copies[item.file_id])

    slices = TableSlices({"a": [slice_of("a", name) for name in copies]}, frozenset())
    (one,) = locate(rows(("a", "k2"), ("a", "k9"), ("a", "k1"), ("a", "k3")), slices, search(repeated))
    assert (one.rows.tolist(), one.places.tolist()) == ([0, 0, 1, 2, 3], [0, 1, -1, 0, 2])
    assert one.of_slice(1).tolist() == [0] and one.new.tolist() == [1]


def test_footers_are_tested_for_the_keys_of_their_partition() -> None:
    tested: dict[str, tuple[bool, bool]] = {}

    def recorded(item: LatestSlice, test: FooterTest | None) -> Iterator[pa.Array]:
        assert test is not None
        ranges = [{b"hoodie_min_record_key": key, b"hoodie_max_record_key": key} for key in (b"k1", b"k3")]
        tested[item.file_id] = (test(ranges[0]), test(ranges[1]))
        return keys_of(item, test)

    by_footers = KeySearch(keys_of=recorded, by_footers=True, where="table t")
    list(locate(rows(("a", "k3"), ("b", "k1")), SLICES, by_footers))
    assert tested == {"g1": (False, True), "g2": (False, True), "g3": (True, False)}
