"""The kernel that checks small Parquet files accepts none that other checks refuse, and finds the same pages."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.reader.base.accepted_file import AcceptedFile
from penstock.reader.base.accepted_file import accepted_file as accepted
from penstock.reader.base.decoded_size import ReadSize, fits_one_read, read_size
from penstock.reader.split.emit import BatchSize
from penstock.table.parquet.checks import ParquetError, check_columns, check_footer_bytes, footer_length
from penstock.table.parquet.pages import check_pages
from tests.fuzz.mutation import page_header
from tests.fuzz.thrift_tree import mutated_footer

SIZE = BatchSize(32768, 16 << 20)
SEEDS = 200


def rows(count: int) -> pa.Table:
    return pa.table(
        {
            "key": [f"key {n:05}" for n in range(count)],
            "same": ["one"] * count,
            "n": pa.array([None if n % 7 == 0 else n for n in range(count)], pa.int64()),
            "day": pa.array(range(count), pa.date32()),
            "flag": [n % 2 == 0 for n in range(count)],
            "at": pa.array(range(count), pa.timestamp("us", "UTC")),
            "price": pa.array([None] * count, pa.decimal128(30, 2)),
            "list": [list(range(n % 4)) for n in range(count)],
            "home": [{"street": "x", "lines": [{"sku": "a"}] * (n % 3)} for n in range(count)],
            "tags": pa.array([[("k", "v")] * (n % 2) for n in range(count)], pa.map_(pa.string(), pa.string())),
        }
    )


FORMS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "gzip": {"compression": "gzip", "use_dictionary": False},
    "pages of version 2": {"data_page_version": "2.0", "compression": "zstd"},
    "front coded": {"use_dictionary": False, "column_encoding": {"key": "DELTA_BYTE_ARRAY"}},
    "small pages": {"data_page_size": 64, "write_batch_size": 10},
    "two row groups": {"row_group_size": 40},
    "without statistics": {"write_statistics": False, "store_schema": False},
    "page index": {"write_page_index": True, "write_page_checksum": True},
}


def written(table: pa.Table, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def accepted_file(data: bytes) -> AcceptedFile | None:
    """The kernel's facts, as they are asked for a file that is read whole."""
    try:
        return accepted(data, footer_length(data, len(data)))
    except ParquetError:
        return None


def check(data: bytes, found: AcceptedFile) -> None:
    """The checks without the kernel, with the same results."""
    footer = pq.ParquetFile(pa.BufferReader(data)).metadata
    check_columns(footer)
    checks = check_footer_bytes(data, footer_length(data, len(data)))
    assert checks.statistics_fault is None
    assert checks.schema == found.schema
    columns = {footer.schema.column(place).path.partition(".")[0] for place in range(footer.num_columns)}
    groups = [footer.row_group(number).num_rows for number in range(footer.num_row_groups)]
    assert found.rows == max(groups, default=0)
    for number, count in enumerate(groups):
        pages = check_pages(pa.BufferReader(data), footer, number, columns)
        if number == len(groups) - 1:
            assert found.pages() == pages
        if fits_one_read(found.rows, found.size_bytes, SIZE):
            assert read_size(footer, number, columns, SIZE, pages, lambda path: None) == ReadSize(count, ())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [1, 100, 1500])
def test_valid_files_are_accepted_with_the_same_pages(form: str, count: int) -> None:
    data = written(rows(count), **FORMS[form])
    found = accepted_file(data)
    assert found is not None
    check(data, found)


def test_small_file_is_one_read_and_a_large_value_is_not() -> None:
    small, large = (accepted_file(written(pa.table({"a": [text] * 100}))) for text in ("x", "x" * 100_000))
    assert small is not None
    assert large is not None
    assert fits_one_read(small.rows, small.size_bytes, SIZE)
    assert not fits_one_read(large.rows, large.size_bytes, SIZE)
    assert not fits_one_read(small.rows, small.size_bytes, BatchSize(99, 16 << 20))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mutate", [mutated_footer, page_header])
def test_changed_file_is_accepted_only_if_it_passes_the_checks(
    form: str, mutate: Callable[[bytes, random.Random], bytes]
) -> None:
    data = written(rows(30), **FORMS[form])
    refused = 0
    for seed in range(SEEDS):
        changed = mutate(data, random.Random(f"{form} {seed}"))
        found = accepted_file(changed)
        if found is None:
            refused += 1
            continue
        try:
            pq.ParquetFile(pa.BufferReader(changed))
        except (pa.ArrowException, OSError, UnicodeDecodeError):  # as it opens each file
            continue
        check(changed, found)
    assert refused > SEEDS // 10


@pytest.mark.parametrize("form", FORMS)
def test_bytes_of_a_file_are_accepted_only_if_it_passes_the_checks(form: str) -> None:
    data = written(rows(5), **FORMS[form])
    refused = 0
    for seed in range(SEEDS):
        rng = random.Random(seed)
        changed = bytearray(data)
        changed[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255))
        found = accepted_file(bytes(changed))
        if found is None:
            refused += 1
            continue
        try:
            pq.ParquetFile(pa.BufferReader(changed))
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            continue
        check(bytes(changed), found)
    assert refused


def test_every_beginning_of_a_file_is_refused() -> None:
    data = written(rows(3))
    assert [size for size in range(len(data)) if accepted_file(data[:size]) is not None] == []


def test_checks_see_a_file_that_is_wrongly_accepted() -> None:
    data = written(rows(30), use_dictionary=False)
    found = accepted_file(data)
    assert found is not None
    faults = 0
    for seed in range(SEEDS):
        try:
            check(page_header(data, random.Random(seed)), found)
        except (ParquetError, AssertionError):
            faults += 1
    assert faults > SEEDS // 10
