"""Rounds over the versions of keys give what a loop over the records gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.model.splits import CustomMerge
from penstock.reader.merge.fold import RecordKind
from penstock.reader.merge.keys import number_keys
from penstock.reader.merge.log_rows import LogRows
from penstock.reader.merge.mergers import DELETED, MergeFunctions, Merger
from penstock.reader.merge.stream import LogWinners
from penstock.reader.merge.versions import Versions, merged_versions

KEY = "_hoodie_record_key"
SCHEMA = pa.schema([(KEY, pa.string()), ("ts", pa.int64()), ("trace", pa.string()), (DELETED, pa.bool_())])


def traced(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
    """Depends on every version and their order: traces are joined, every third length deletes."""
    rows = [merged_row(old, new) for old, new in zip(older.to_pylist(), newer.to_pylist(), strict=True)]
    return pa.RecordBatch.from_pylist(rows, schema=newer.schema)


def merged_row(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    if newer[DELETED] and (newer["ts"] or 0) < (older["ts"] or 0):
        return older
    trace = f"({older['trace']}+{newer['trace']})"
    return {**newer, "trace": trace, DELETED: newer[DELETED] or len(trace) % 3 == 0}


@dataclass
class Loop:
    """The rule of the module's docstring, one record at a time."""

    of_payload: bool
    rows: dict[str, tuple[RecordKind, dict[str, Any]]] = field(default_factory=dict)

    def add(self, kind: RecordKind, row: dict[str, Any]) -> None:
        row = bared(row) if kind != RecordKind.DATA else row
        held = self.rows.get(row[KEY])
        alone = held is None or RecordKind.DEFAULT_DELETE in (kind, held[0])
        if held is not None and self.of_payload and held[0] != RecordKind.DATA:
            alone = True
        if held is None or alone:
            result = kind, row
        elif (merged := merged_row(held[1], row))[DELETED]:
            result = RecordKind.DELETE, bared(merged)
        else:
            result = RecordKind.DATA, merged
        if held is None or RecordKind.DATA in (held[0], result[0]):
            self.rows[row[KEY]] = result


def bared(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "trace": None, DELETED: True}


def merged(records: list[tuple[RecordKind, bool, str, int]], *, of_payload: bool) -> tuple[LogWinners, list[str]]:
    """The winners of (kind, whether a delete has a row, key, ordering value) records."""
    kinds = np.array([kind for kind, *_ in records], np.uint8)
    keys = pa.array([key for *_, key, _ in records], pa.string())
    times = pa.array([time for *_, time in records], pa.int64())
    traces = pa.array([str(number) for number in range(len(records))], pa.string())
    decoded = np.array([n for n, (kind, has_row, *_) in enumerate(records) if kind == 0 or has_row], np.int64)
    table, numbers = number_keys([keys], compiled=False)
    whole = pa.RecordBatch.from_arrays([keys, times, traces], names=SCHEMA.names[:-1])
    rows = LogRows([whole.take(pa.array(decoded))])
    custom = CustomMerge("m", of_payload, ("ts",))
    versions = Versions(numbers, kinds, decoded, rows, [keys], {"ts": pa.chunked_array([times])})
    return merged_versions(
        versions, table, Merger(custom, MergeFunctions(traced, traced), SCHEMA, "table t")
    ), table.keys.to_pylist()


RECORDS = st.lists(
    st.tuples(st.sampled_from(list(RecordKind)), st.booleans(), st.sampled_from("abcde"), st.integers(0, 3)),
    min_size=1,
    max_size=40,
)


@given(RECORDS, st.booleans())
def test_rounds_equal_a_loop_over_the_records(
    records: list[tuple[RecordKind, bool, str, int]], of_payload: bool
) -> None:
    loop = Loop(of_payload)
    for number, (kind, _, key, time) in enumerate(records):
        row = {KEY: key, "ts": time, "trace": str(number), DELETED: kind != RecordKind.DATA}
        loop.add(kind, row)
    winners, keys = merged(records, of_payload=of_payload)
    for number, key in enumerate(keys):
        kind, row = loop.rows[key]
        assert RecordKind(winners.kinds[number]) == kind
        place = winners.row_of[number]
        assert (place < 0) == (kind == RecordKind.DEFAULT_DELETE)
        if place >= 0:
            (batch,) = winners.rows.take(np.array([place]), 1, 1 << 20)
            assert batch.to_pylist() == [row]
    arrivals = [max(n for n, record in enumerate(records) if record[2] == key) for key in keys]
    assert np.array_equal(
        np.argsort(winners.row_of[winners.row_of >= 0]), np.argsort(np.array(arrivals)[winners.row_of >= 0])
    )


def test_a_function_is_called_once_for_each_round() -> None:
    calls: list[int] = []

    def counted(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
        calls.append(older.num_rows)
        return newer

    keys = pa.array(["a", "b", "c"] * 3 + ["a"] * 2, pa.string())
    count = len(keys)
    times, traces = pa.array(range(count), pa.int64()), pa.array(map(str, range(count)), pa.string())
    table, numbers = number_keys([keys], compiled=False)
    rows = LogRows([pa.RecordBatch.from_arrays([keys, times, traces], names=SCHEMA.names[:-1])])
    kinds = np.zeros(count, np.uint8)
    versions = Versions(numbers, kinds, np.arange(count), rows, [keys], {"ts": pa.chunked_array([times])})
    merger = Merger(CustomMerge("m", True, ("ts",)), MergeFunctions(counted, counted), SCHEMA, "table t")
    winners = merged_versions(versions, table, merger)
    assert calls == [3, 3, 1, 1]
    assert sorted(winners.rows.batches()[0].column("trace").to_pylist()) == ["10", "7", "8"]


@pytest.mark.parametrize("of_payload", [False, True])
def test_a_record_after_a_delete_meets_it_in_a_merger_only(of_payload: bool) -> None:
    records = [(RecordKind.DELETE, False, "a", 1), (RecordKind.DATA, False, "a", 2)]
    winners, _ = merged(records, of_payload=of_payload)
    traces = winners.rows.batches()[0].column("trace").to_pylist()
    assert traces == (["1"] if of_payload else ["(None+1)"])


def test_deletes_have_the_ordering_value_in_its_struct_and_nothing_else() -> None:
    """Of a delete block (a), and of a row with a delete mark (b)."""
    inner = pa.struct([("ts", pa.int64()), ("note", pa.string())])
    schema = pa.schema([(KEY, pa.string()), ("s", inner), ("trace", pa.string()), (DELETED, pa.bool_())])
    calls: list[list[dict[str, Any]]] = []

    def kept(older: pa.RecordBatch, newer: pa.RecordBatch, ordering: tuple[str, ...]) -> pa.RecordBatch:
        assert ordering == ("s.ts",)
        calls.append(newer.to_pylist())
        return newer

    keys = pa.array(["a", "b", "a", "b"])
    structs = pa.array([{"ts": time, "note": "n"} for time in (1, 2, 3, 4)], inner)
    whole = pa.RecordBatch.from_arrays([keys, structs, pa.array(["t"] * 4)], names=schema.names[:-1])
    decoded, kinds = np.array([0, 1, 3]), np.array([RecordKind.DATA] * 2 + [RecordKind.DELETE] * 2, np.uint8)
    table, numbers = number_keys([keys], compiled=False)
    ordering = {"s.ts": pa.chunked_array([structs.field("ts")])}
    versions = Versions(numbers, kinds, decoded, LogRows([whole.take(pa.array(decoded))]), [keys], ordering)
    custom = CustomMerge("m", True, ("s.ts", "s.gone"))
    winners = merged_versions(versions, table, Merger(custom, MergeFunctions(kept, kept), schema, "table t"))
    deletes = [
        {KEY: key, "s": {"ts": time, "note": None}, "trace": None, DELETED: True} for key, time in (("a", 3), ("b", 4))
    ]
    assert sorted(calls[0], key=lambda row: str(row[KEY])) == deletes
    assert sorted(winners.rows.batches()[0].to_pylist(), key=lambda row: str(row[KEY])) == deletes
