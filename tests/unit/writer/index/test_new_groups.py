"""The file groups of new keys: small files are filled, none beyond its limit, and no row is lost or repeated."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.model.files import FileRef
from penstock.writer.index.new_groups import FileSizes, average_row_bytes, place_new_rows
from penstock.writer.index.slices import LatestSlice

SIZES = FileSizes(max_file_bytes=1000, small_file_bytes=800, row_bytes=10)


def slice_of(file_id: str, size: int, *, logs: int = 0, compacted: bool = False, base: bool = True) -> LatestSlice:
    return LatestSlice(
        partition="p",
        file_id=file_id,
        base=FileRef(f"p/{file_id}", size) if base else None,
        base_instant="1",
        logs=tuple(FileRef(f"p/.{file_id}.{number}", 1) for number in range(logs)),
        key="1",
        being_compacted=compacted,
    )


def placed(rows: int, slices: list[LatestSlice], sizes: FileSizes = SIZES, locked: tuple[str, ...] = ()) -> list[tuple]:
    names = (f"new{number}" for number in itertools.count())
    writes = place_new_rows("p", np.arange(rows), slices, [("p", name) for name in locked], sizes, lambda: next(names))
    assert all((one.latest is not None) is one.rewrites for one in writes)
    assert np.concatenate([one.rows for one in writes] or [np.array([])]).tolist() == list(range(rows))
    return [(one.file_id, len(one.rows)) for one in writes]


def test_smallest_files_are_filled_first_then_new_ones() -> None:
    assert placed(250, [slice_of("b", 500), slice_of("a", 700), slice_of("c", 900)]) == [
        ("b", 50),
        ("a", 30),
        ("new0", 100),
        ("new1", 70),
    ]


@pytest.mark.parametrize(
    "item",
    [
        slice_of("a", 800),
        slice_of("a", 0),
        slice_of("a", 100, logs=1),
        slice_of("a", 100, compacted=True),
        slice_of("a", 100, base=False),
    ],
)
def test_other_files_are_not_filled(item: LatestSlice) -> None:
    assert placed(10, [item]) == [("new0", 10)]
    assert placed(10, [slice_of("a", 100)]) == [("a", 10)], "the control"


def test_locked_groups_and_those_beyond_the_number_are_not_filled() -> None:
    slices = [slice_of("a", 700), slice_of("b", 710)]
    assert placed(40, slices, locked=("a",)) == [("b", 29), ("new0", 11)]
    one = FileSizes(max_file_bytes=1000, small_file_bytes=800, row_bytes=10, small_files=1)
    assert placed(40, slices, one) == [("a", 30), ("new0", 10)]
    none = FileSizes(max_file_bytes=1000, small_file_bytes=0, row_bytes=10)
    assert placed(40, slices, none) == [("new0", 40)]


@given(st.integers(0, 500), st.lists(st.integers(0, 1200), max_size=4), st.integers(1, 2000))
def test_each_row_has_one_place_and_files_stay_below_the_limit(rows: int, sizes: list[int], row_bytes: int) -> None:
    limits = FileSizes(max_file_bytes=1000, small_file_bytes=800, row_bytes=row_bytes)
    slices = [slice_of(f"s{number}", size) for number, size in enumerate(sizes)]
    for name, count in placed(rows, slices, limits):
        assert count > 0
        if not name.startswith("new"):
            assert slices[int(name[1:])].size_bytes + count * row_bytes <= 1000
        else:
            assert count <= limits.rows_of_file


def test_average_is_that_of_the_newest_write_with_enough_bytes() -> None:
    written = [(100, 1), (5000, 0), (900, 90), (8000, 8)]
    assert average_row_bytes(written, SIZES, 1024) == 10
    assert average_row_bytes(written[:2], SIZES, 1024) == 1024
