"""Random histories of a file slice, written to disk, read by the reader and by the oracle: rows, order, ordinals.

Both modes, ordering columns of every type, ties, nulls, deletes by block and by mark, rows put in again, keys that the
base holds twice, with and without record positions; compiled and not, in batches of any size.
"""

from __future__ import annotations

import datetime
import decimal
import math
import pathlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.reader.read_split import ReadOptions
from tests.oracle import slice_writer
from tests.oracle.merge import java_double
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder, comparable, ordinals_of


@dataclass(frozen=True)
class Kind:
    """An ordering column: Avro type, five ascending values, the wrapper of its deletes and their value in it."""

    avro: Any
    values: tuple[Any, ...]
    wrapper: str
    wrapped: Callable[[Any], Any] = lambda value: value
    sortable: Callable[[Any], Any] = lambda value: value


def moments() -> tuple[datetime.datetime, ...]:
    first = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    return tuple(first + datetime.timedelta(microseconds=7 * step) for step in range(-2, 3))


def micros(moment: datetime.datetime) -> int:
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
KINDS = {
    "long": Kind("long", (-(2**63), -1, 0, 1, 2**63 - 1), "LongWrapper"),
    "int": Kind("int", (-(2**31), -1, 0, 1, 2**31 - 1), "IntWrapper"),
    "string": Kind(
        "string",
        ("", "a", "é", "\uff5e", "\U0001f600"),
        "StringWrapper",
        sortable=lambda text: None if text is None else text.encode(),
    ),
    "double": Kind("double", (-math.inf, -0.0, 0.0, 1.5, math.nan), "DoubleWrapper", sortable=java_double),
    "decimal": Kind(
        DECIMAL, tuple(decimal.Decimal(text) for text in ("-3.50", "-0.01", "0.00", "0.01", "99.99")), "DecimalWrapper"
    ),
    "date": Kind(
        {"type": "int", "logicalType": "date"},
        tuple(datetime.date(1970, 1, 1) + datetime.timedelta(days=step) for step in range(-2, 3)),
        "DateWrapper",
        lambda day: (day - datetime.date(1970, 1, 1)).days,
    ),
    "timestamp": Kind({"type": "long", "logicalType": "timestamp-micros"}, moments(), "TimestampMicrosWrapper", micros),
}
KEYS = st.sampled_from(["", "k1", "k2", "ключ", "k4", "a key of more than sixteen bytes", "k6", "k7"])
PLACES = st.one_of(st.none(), st.integers(0, 4))
ROWS = st.tuples(KEYS, PLACES)
DATA_BLOCK = st.tuples(
    st.just("data"), st.lists(st.tuples(KEYS, PLACES, st.sampled_from([None, False, True])), max_size=8)
)
DELETE_BLOCK = st.tuples(st.just("delete"), st.lists(st.tuples(KEYS, PLACES, st.booleans()), max_size=6))
HISTORY = st.lists(st.one_of(DATA_BLOCK, DATA_BLOCK, DELETE_BLOCK), min_size=1, max_size=6)


def write(folder: SliceFolder, kind: Kind, groups: list[Any], history: list[Any], files: int, positions: bool) -> None:
    """The slice on disk. With positions each block holds only keys of the base, once for each copy, as Hudi does."""
    values = (*kind.values, None)
    serial = iter(range(10_000))

    def row(key: str, place: int | None, **more: Any) -> dict[str, Any]:
        return {"_hoodie_record_key": key, "ts": values[-1 if place is None else place], "v": next(serial), **more}

    if groups:
        folder.write_base([[row(*key_and_place) for key_and_place in group] for group in groups])
    base_keys = [key for group in groups for key, _ in group]
    blocks = []
    for number, (what, entries) in enumerate(history):
        located = None
        if positions:
            latest = {entry[0]: entry for entry in entries}
            places = [place for place, key in enumerate(base_keys) if key in latest]
            entries = [latest[base_keys[place]] for place in places]
            located = (BASE_INSTANT, places)
        instant = f"2026010200000000{number}"
        if what == "data":
            rows = [row(key, place, _hoodie_is_deleted=mark) for key, place, mark in entries]
            blocks.append(slice_writer.data_block(folder.avro, rows, instant, positions=located))
        else:
            deletes = [delete_entry(kind, key, place, default) for key, place, default in entries]
            blocks.append(slice_writer.delete_block(deletes, instant, positions=located))
    for first in range(0, len(blocks), max(1, len(blocks) // files)):
        folder.write_log(*blocks[first : first + max(1, len(blocks) // files)])


def delete_entry(kind: Kind, key: str, place: int | None, default: bool) -> tuple[str, str, Any]:
    if default:
        return key, "IntWrapper", 0
    return (key, "", None) if place is None else (key, kind.wrapper, kind.wrapped(kind.values[place]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=40, deadline=None)
@given(
    event_time=st.sampled_from([True, True, False]),
    groups=st.lists(st.lists(ROWS, max_size=8), max_size=3),
    history=HISTORY,
    files=st.integers(1, 3),
    positions=st.booleans(),
    batch_rows=st.sampled_from([1, 3, 1000]),
    start=st.integers(0, 12),
)
def test_reader_is_the_oracle(
    name: str,
    event_time: bool,
    groups: list[Any],
    history: list[Any],
    files: int,
    positions: bool,
    batch_rows: int,
    start: int,
) -> None:
    kind = KINDS[name]
    merge = EventTimeOrdering(("ts",)) if event_time else CommitTimeOrdering()
    fields = {"ts": kind.avro, "v": "long", "_hoodie_is_deleted": "boolean"}
    groups = [group for group in groups if group]
    with tempfile.TemporaryDirectory() as name_of_folder:
        folder = SliceFolder(pathlib.Path(name_of_folder), fields, merge)
        write(folder, kind, groups, history, files, positions and bool(groups))
        expected = comparable(folder.oracle(name, kind.sortable))
        for options in (ReadOptions(batch_rows), ReadOptions(batch_rows, compiled=False)):
            result = folder.read(options=options)
            assert comparable([row for batch in result for row in batch.batch.to_pylist()]) == expected
            assert ordinals_of(result) == list(range(len(expected)))
            assert all(0 < batch.batch.num_rows <= batch_rows for batch in result)
            tail = folder.read(start=start, options=options)
            assert comparable([row for batch in tail for row in batch.batch.to_pylist()]) == expected[start:]
            assert ordinals_of(tail) == list(range(start, len(expected)))
