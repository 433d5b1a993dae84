"""Random histories of slices whose records fill each other's gaps, read by the reader and by the oracle."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    EventTimeOrdering,
    FillDefaults,
    FillMarked,
    FillMode,
    FillNulls,
    WholeRecords,
)
from penstock.reader.read_split import ReadOptions
from tests.oracle import slice_writer
from tests.oracle.merge import DATA, DELETE, Record
from tests.oracle.partial import Rules, merged_rows
from tests.unit.reader.slices import SliceFolder, comparable

FIELDS = {"ts": "long", "a": "long", "b": "string", "c": "boolean", "d": {"type": "array", "items": "int"}}
KEYS = st.sampled_from(["k1", "k2", "k3", "k4"])
ORDER = st.none() | st.integers(-2, 2)
VALUES = st.fixed_dictionaries(
    {
        "a": st.sampled_from([None, 0, 7, 300]),
        "b": st.sampled_from([None, "", "?", "x", "y"]),
        "c": st.sampled_from([None, False, True]),
        "d": st.sampled_from([None, [], [1], [2, 3]]),
    }
)
ROW = st.tuples(KEYS, ORDER, VALUES)
PARTS = st.sampled_from([None, ("a",), ("b", "d"), ()])
BLOCK = st.one_of(
    st.tuples(st.just("data"), PARTS, st.lists(ROW, max_size=5)),
    st.tuples(st.just("data"), PARTS, st.lists(ROW, max_size=5)),
    st.tuples(st.just("delete"), st.none(), st.lists(st.tuples(KEYS, ORDER, st.booleans()), max_size=3)),
)


@dataclass(frozen=True)
class Mode:
    """A fill mode as the scan says it, and the oracle's own test for a gap."""

    fill: FillMode
    is_gap: Callable[[Mapping[str, Any], str], bool]
    defaults: Mapping[str, Any]
    from_newer: bool = True
    last_writer: bool = False
    deletes_win: bool = False
    partial: bool = False
    early_gap: Callable[[Mapping[str, Any], str], bool] | None = None


def null(row: Mapping[str, Any], column: str) -> bool:
    return row.get(column) is None


def equals(defaults: Mapping[str, Any]) -> Callable[[Mapping[str, Any], str], bool]:
    def is_gap(row: Mapping[str, Any], column: str) -> bool:
        value = row.get(column)
        return value is None if column not in defaults else value is not None and value == defaults[column]

    return is_gap


DEFAULTS = {"a": 7, "b": "x", "c": False, "d": []}
MODES = {
    "nulls": Mode(FillNulls(), null, {}, last_writer=True, deletes_win=True),
    "defaults by identity": Mode(
        FillDefaults(True),
        lambda row, column: column not in ("b", "d") and equals(DEFAULTS)(row, column),
        DEFAULTS,
    ),
    "far defaults by identity": Mode(
        FillDefaults(True), lambda row, column: column != "a" and null(row, column), {"a": 300}
    ),
    "defaults by value": Mode(FillDefaults(False), equals({**DEFAULTS, "a": 300}), {**DEFAULTS, "a": 300}),
    "marked": Mode(FillMarked("?", True), lambda row, column: row.get(column) == "?", {}),
    "marked, older alone": Mode(
        FillMarked("?", False), lambda row, column: row.get(column) == "?", {}, from_newer=False, deletes_win=True
    ),
    "partial blocks": Mode(WholeRecords(), lambda row, column: column not in row, {}, partial=True),
    "partial blocks where defaults are filled": Mode(
        FillDefaults(True),
        lambda row, column: column not in row,
        DEFAULTS,
        partial=True,
        early_gap=lambda row, column: column not in ("b", "d") and equals(DEFAULTS)(row, column),
    ),
    "partial blocks where marked are filled": Mode(
        FillMarked("?", True),
        lambda row, column: column not in row,
        {},
        partial=True,
        early_gap=lambda row, column: row.get(column) == "?",
    ),
}


class DefaultsFolder(SliceFolder):
    """A slice whose columns may have defaults other than null."""

    defaults: Mapping[str, Any] = {}

    @property
    def avro(self) -> dict[str, Any]:
        schema = slice_writer.table_schema(self.fields)
        for field in schema["fields"]:
            if field["name"] in self.defaults:
                field["type"], field["default"] = field["type"][::-1], self.defaults[field["name"]]
        return schema


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MODES)
@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["long", "int"]),
    event_time=st.booleans(),
    groups=st.lists(st.lists(ROW, min_size=1, max_size=5, unique_by=lambda row: row[0]), max_size=2),
    history=st.lists(BLOCK, min_size=1, max_size=6),
    batch_rows=st.sampled_from([1, 2, 1000]),
)
def test_reader_is_the_oracle(
    name: str, kind: str, event_time: bool, groups: list[Any], history: list[Any], batch_rows: int
) -> None:
    mode = MODES[name]
    merge = EventTimeOrdering(("ts",), deletes_win=mode.deletes_win) if event_time else CommitTimeOrdering()
    with tempfile.TemporaryDirectory() as place:
        folder = DefaultsFolder(pathlib.Path(place), {**FIELDS, "ts": kind}, merge)
        folder.defaults = mode.defaults
        observed: set[str] = set()
        base = [
            [row_of(*entry) for entry in group if not (entry[0] in observed or observed.add(entry[0]))]
            for group in groups
        ]  # type: ignore[func-returns-value]
        base = [group for group in base if group]
        if base:
            folder.write_base(base)
        records: list[Record] = []
        for number, (what, parts, entries) in enumerate(history):
            instant = f"2026010200000000{number}"
            if what == DELETE:
                folder.write_log(deletes(kind, entries, instant))
                no_order = {None, 0} if kind == "int" else {None}
                records += [
                    Record(key, DELETE, order, default or order in no_order or mode.deletes_win)
                    for key, order, default in entries
                ]
                continue
            rows = [{"_hoodie_commit_time": instant, **row_of(*entry)} for entry in entries]
            schema = folder.avro
            if mode.partial and parts is not None:
                remaining = {*slice_writer.META, "ts", *parts}
                rows = [{name: value for name, value in row.items() if name in remaining} for row in rows]
                schema["fields"] = [field for field in schema["fields"] if field["name"] in remaining]
            folder.write_log(slice_writer.data_block(schema, rows, instant, partial=mode.partial and parts is not None))
            columns = [field["name"] for field in schema["fields"]]
            records += [
                Record(
                    row["_hoodie_record_key"],
                    DATA,
                    compared(kind, row["ts"]),
                    row={column: row.get(column) for column in columns},
                )
                for row in rows
            ]
        early = None
        if mode.early_gap is not None:
            early = Rules(event_time, True, False, mode.early_gap), first_partial(history)
        # Without any partial block the slice is merged as whole records: a base row that wins stays where it is.
        filled = not mode.partial or any(what != DELETE and parts is not None for what, parts, _ in history)
        rules = Rules(event_time, mode.from_newer and filled, mode.last_writer, mode.is_gap)
        if early is not None and not filled:
            rules, early = early[0], None
        names = [field["name"] for field in folder.avro["fields"]]
        whole = [
            [dict.fromkeys(names) | {"_hoodie_commit_time": "20260101000000000"} | row for row in group]
            for group in base
        ]
        expected = merged_rows(
            whole,
            records,
            rules,
            names,
            lambda row: row["_hoodie_record_key"],
            lambda row: compared(kind, row["ts"]),
            early,
        )
        for options in (ReadOptions(batch_rows), ReadOptions(batch_rows, compiled=False)):
            result = folder.read(options=options, fill=mode.fill)
            assert comparable([row for batch in result for row in batch.batch.to_pylist()]) == comparable(expected)
        narrow = folder.read(columns=("b",), fill=mode.fill)
        assert [row["b"] for batch in narrow for row in batch.batch.to_pylist()] == [row["b"] for row in expected]


def first_partial(history: list[Any]) -> int:
    """How many records stand before the first partial block."""
    before = 0
    for what, parts, entries in history:
        if what != DELETE and parts is not None:
            break
        before += len(entries)
    return before


def row_of(key: str, order: int | None, values: Mapping[str, Any]) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": order, **values}


def compared(kind: str, order: int | None) -> int | None:
    """A null is the int 0 in a table ordered by an int."""
    return 0 if order is None and kind == "int" else order


def deletes(kind: str, entries: list[tuple[str, int | None, bool]], instant: str) -> bytes:
    wrapper = f"{kind.title()}Wrapper"
    return slice_writer.delete_block(
        [
            (key, "IntWrapper", 0) if default else (key, "", None) if order is None else (key, wrapper, order)
            for key, order, default in entries
        ],
        instant,
    )


def test_partial_blocks_in_a_table_whose_payload_class_fills_gaps_are_damage(tmp_path: pathlib.Path) -> None:
    """Hudi 1.2.0: UnsupportedOperationException, `HoodieAvroRecordMerger` merges no partial records."""
    folder = SliceFolder(tmp_path, FIELDS, EventTimeOrdering(("ts",)))
    folder.write_log(slice_writer.data_block(folder.avro, [row_of("k", 1, {})], "1", partial=True))
    with pytest.raises(CorruptBlock, match="IS_PARTIAL"):
        folder.read(fill=FillDefaults(False), table_version=8)
    assert len(folder.rows(fill=FillDefaults(True))) == len(folder.rows()) == 1


def test_nested_default_that_is_not_empty(tmp_path: pathlib.Path) -> None:
    folder = DefaultsFolder(tmp_path, FIELDS)
    folder.defaults = {"d": [1, 2]}
    folder.write_base([[row_of(key, 1, {"d": [9]}) for key in "abcd"]])
    lists = {"a": [1, 2], "b": [2, 1], "c": [1], "d": None}
    folder.write_log(slice_writer.data_block(folder.avro, [row_of(key, 1, {"d": d}) for key, d in lists.items()], "1"))
    result = folder.rows(fill=FillDefaults(False), table_version=8)
    assert {row["_hoodie_record_key"]: row["d"] for row in result} == {**lists, "a": [9]}
    by_identity = {row["_hoodie_record_key"]: row["d"] for row in folder.rows(fill=FillDefaults(True))}
    assert by_identity == lists
