"""What a scan's merge rules do to a slice: several ordering columns, marks of deletes, orders of payload classes."""

from __future__ import annotations

import datetime
import pathlib
import tempfile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import SchemaMismatch
from penstock.proto.model.splits import CommitTimeOrdering, DeleteMarker, EventTimeOrdering
from penstock.reader.read_split import ReadOptions
from tests.oracle import slice_writer
from tests.oracle.merge import DATA, DELETE, Record
from tests.oracle.partial import Rules, merged_rows
from tests.unit.reader.slices import SliceFolder, comparable

KEYS = st.sampled_from(["k1", "k2", "k3"])
DAY = datetime.date(2026, 1, 1)
PAIR = st.tuples(
    st.none() | st.integers(-1, 1),
    st.none() | st.sampled_from(["", "a", "é"]),
    st.none() | st.integers(0, 1).map(lambda days: DAY + datetime.timedelta(days)),
)
TWO = ("ts", "s", "day")
FIELDS = {"ts": "long", "s": "string", "day": {"type": "int", "logicalType": "date"}, "v": "long"}
WHOLE = Rules(True, False, False, lambda row, column: False)


def sortable(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(
        (0,) if value is None else (1, value.encode() if isinstance(value, str) else value) for value in values
    )


@settings(max_examples=150, deadline=None)
@given(
    base=st.lists(st.tuples(KEYS, PAIR), max_size=3, unique_by=lambda row: row[0]),
    history=st.lists(st.tuples(st.booleans(), st.lists(st.tuples(KEYS, PAIR, st.booleans()), max_size=4)), max_size=5),
    local=st.booleans(),
)
def test_several_ordering_columns(base: list[Any], history: list[Any], local: bool) -> None:
    serial = iter(range(1000))

    def row(key: str, order: tuple[Any, ...], instant: str) -> dict[str, Any]:
        return {
            "_hoodie_commit_time": instant, "_hoodie_record_key": key,
            **dict(zip(TWO, order, strict=True)), "v": next(serial),
        }  # fmt: skip

    with tempfile.TemporaryDirectory() as place:
        folder = SliceFolder(pathlib.Path(place), FIELDS, EventTimeOrdering(TWO))
        rows = [row(*entry, "20260101000000000") for entry in base]
        if rows:
            folder.write_base([rows])
        records = []
        for number, (is_data, entries) in enumerate(history):
            instant = f"2026010200000000{number}"
            if is_data:
                written = [row(key, order, instant) for key, order, _ in entries]
                folder.write_log(slice_writer.data_block(folder.avro, written, instant))
                records += [
                    Record(line["_hoodie_record_key"], DATA, sortable(order), row=line)
                    for line, (_, order, _) in zip(written, entries, strict=True)
                ]
                continue
            deletes = []
            for key, (ts, text, day), default in entries:
                values = [
                    ("LongWrapper", ts) if ts is not None else ("", None),
                    ("StringWrapper", text) if text is not None else ("", None),
                    ("", None)
                    if day is None
                    else ("LocalDateWrapper" if local else "DateWrapper", (day - datetime.date(1970, 1, 1)).days),
                ]
                deletes.append((key, "IntWrapper", 0) if default else (key, "ArrayWrapper", values))
                records.append(Record(key, DELETE, sortable((ts, text, day)), default))
            folder.write_log(slice_writer.delete_block(deletes, instant))
        names = [field["name"] for field in folder.avro["fields"]]
        expected = merged_rows(
            [rows],
            records,
            WHOLE,
            names,
            lambda line: line["_hoodie_record_key"],
            lambda line: sortable(tuple(line[name] for name in TWO)),
        )
        for compiled in (True, False) if folder.logs else ():
            result = folder.read(options=ReadOptions(compiled=compiled))
            assert comparable([line for batch in result for line in batch.batch.to_pylist()]) == comparable(expected)


def values(folder: SliceFolder, **changed: Any) -> dict[str, int]:
    rows = folder.rows(**changed)
    by_key = {row["_hoodie_record_key"]: row["v"] for row in rows}
    assert len(by_key) == len(rows), "a key twice"
    return by_key


def line(key: str, ts: int | None, v: int, **more: Any) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": ts, "v": v, **more}


@pytest.mark.parametrize("kind", ["string", "int", "boolean", {"type": "enum", "name": "e", "symbols": ["D", "I"]}])
def test_column_marks_deletes_by_its_text(tmp_path: pathlib.Path, kind: Any) -> None:
    marks: dict[Any, tuple[Any, Any, str]] = {"int": (7, 8, "7"), "boolean": (True, False, "true")}
    removed, stays, text = marks.get(kind if isinstance(kind, str) else "", ("D", "I", "D"))
    folder = SliceFolder(tmp_path, {"ts": "long", "v": "long", "op": kind}, EventTimeOrdering(("ts",)))
    if kind == "string":
        folder.write_base([[line("a", 1, 1), line("b", 5, 2), line("c", 1, 3, op="D")]])
    block = [line("a", 2, 11, op=removed), line("b", 4, 12, op=removed), line("d", 1, 14, op=stays), line("e", 1, 15)]
    folder.write_log(slice_writer.data_block(folder.avro, block, "1"))
    result = values(folder, delete_marker=DeleteMarker("op", text))
    base = {"b": 2, "c": 3} if kind == "string" else {}
    assert result == {**base, "d": 14, "e": 15}
    assert set(values(folder)) == {"a", "b", "c", "d", "e"} - (set() if kind == "string" else {"c"})


def test_operations_of_a_change_log_are_deletes_in_a_snapshot(tmp_path: pathlib.Path) -> None:
    fields = {"_hoodie_operation": "string", "ts": "long", "v": "long"}
    folder = SliceFolder(tmp_path, fields, CommitTimeOrdering())
    kinds = ["I", "-U", "U", "D", None]
    rows = [line(f"k{number}", 1, number, _hoodie_operation=kind) for number, kind in enumerate(kinds)]
    folder.write_log(slice_writer.data_block(folder.avro, rows, "1"))
    assert values(folder) == {"k0": 0, "k2": 2, "k4": 4}


def test_binlog_positions_compare_as_numbers(tmp_path: pathlib.Path) -> None:
    fields = {"_event_seq": "string", "v": "long"}
    mode = EventTimeOrdering(("_event_seq",), dotted_numbers=True, deletes_win=True)
    folder = SliceFolder(tmp_path, fields, mode)
    key = "_hoodie_record_key"
    folder.write_base([[{key: name, "_event_seq": "000002.50", "v": 0} for name in "abcdf"]])
    first = [
        ("a", "000002.9", 1),
        ("b", "000002.100", 2),
        ("c", "000010.1", 3),
        ("d", None, 4),
        ("e", None, 5),
        ("f", "-1.5", 6),
    ]
    later = [("b", "000002.99", 12), ("c", "9.999", 13), ("e", "1.1", 15)]
    for number, rows in enumerate((first, later)):
        block = [{key: name, "_event_seq": seq, "v": v} for name, seq, v in rows]
        folder.write_log(slice_writer.data_block(folder.avro, block, str(number)))
    assert values(folder) == {"a": 0, "b": 2, "c": 3, "d": 0, "e": 15, "f": 0}
    folder.write_log(slice_writer.delete_block([("b", "StringWrapper", "000001.1"), ("a", "", None)], "3"))
    folder.write_log(slice_writer.data_block(folder.avro, [{key: "b", "_event_seq": "000001.1", "v": 22}], "4"))
    assert values(folder) == {"b": 0, "c": 3, "d": 0, "e": 15, "f": 0}
    folder.write_log(slice_writer.data_block(folder.avro, [{key: "z", "_event_seq": "mysql-bin", "v": 1}], "5"))
    with pytest.raises(SchemaMismatch, match="'_event_seq' holds 'mysql-bin'"):
        folder.rows()


def test_binlog_position_that_is_no_text(tmp_path: pathlib.Path) -> None:
    mode = EventTimeOrdering(("ts",), dotted_numbers=True)
    with pytest.raises(SchemaMismatch, match="'ts' of type int64, not text"):
        SliceFolder(tmp_path, {"ts": "long"}, mode).read()
    with pytest.raises(SchemaMismatch, match="ordering column 'gone'"):
        SliceFolder(tmp_path, {"ts": "long"}, EventTimeOrdering(("ts", "gone"))).read()
