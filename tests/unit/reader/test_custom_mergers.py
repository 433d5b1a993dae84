"""File slices whose records a function of the user's merges, and functions that return nonsense."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from penstock.proto.errors import ConfigurationError, UnsupportedFeature
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CustomMerge, FileRef, RowsOf
from penstock.reader.read_split import ReadOptions, SplitTally, read_split
from tests.oracle import slice_writer
from tests.unit.reader.slices import SliceFolder, table_of

HERE = "tests.unit.reader.merge.merge_functions"
PAYLOAD = CustomMerge("com.example.Sum", True, ("ts",))
STRATEGY = CustomMerge("11111111-2222-3333-4444-555555555555", False, ("ts",))
FIELDS = {"ts": "long", "n": "long", "note": "string"}
T1, T2, T3 = "20260102000000000", "20260103000000000", "20260104000000000"


def using(function: str, custom: CustomMerge = PAYLOAD, **options: Any) -> ReadOptions:
    return ReadOptions(mergers=((custom.name, f"{HERE}:{function}"),), **options)


def row(key: str, ts: int, n: int, note: str | None = None) -> dict[str, Any]:
    return {"_hoodie_record_key": key, "ts": ts, "n": n, "note": note}


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    """k1: 1 + (2 + 4); k2: 10 + -20 is deleted; k3 is deleted, then comes back; k4 stays; k5 is inserted."""
    folder = SliceFolder(tmp_path, FIELDS, PAYLOAD)
    folder.write_base([[row("k1", 1, 1), row("k2", 1, 10)], [row("k3", 1, 5), row("k4", 1, 7, "base")]])
    folder.write_log(slice_writer.data_block(folder.avro, [row("k1", 2, 2), row("k2", 2, -20)], T1))
    folder.write_log(
        slice_writer.data_block(folder.avro, [row("k1", 3, 4, "last"), row("k5", 3, 9)], T2),
        slice_writer.delete_block([("k3", "LongWrapper", 4)], T2),
    )
    folder.write_log(slice_writer.data_block(folder.avro, [row("k3", 5, 1)], T3))
    return folder


def sums(folder: SliceFolder, **changed: Any) -> dict[str, int]:
    return {row["_hoodie_record_key"]: row["n"] for row in folder.rows(**changed)}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("batch_rows", [1, 32768])
def test_rows_are_merged_by_the_function(folder: SliceFolder, batch_rows: int, compiled: bool) -> None:
    options = using("summed", batch_rows=batch_rows, compiled=compiled)
    assert sums(folder, options=options) == {"k1": 7, "k3": 6, "k4": 7, "k5": 9}
    assert sums(folder, options=using("newest")) == {"k1": 4, "k2": -20, "k3": 1, "k4": 7, "k5": 9}


def test_large_logs_are_decoded_in_two_passes(folder: SliceFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = folder.rows(options=using("summed"))
    monkeypatch.setattr("penstock.reader.log.scanner.ONE_PASS_BYTES", 0)
    assert folder.rows(options=using("summed")) == whole


def test_columns_filters_and_ordinals(folder: SliceFolder) -> None:
    options = using("summed")
    assert sums(folder, options=options, columns=("n", "_hoodie_record_key"), where="n > 6") == {
        "k1": 7, "k4": 7, "k5": 9
    }  # fmt: skip
    whole = folder.read(options=options)
    expected = table_of(whole, folder.scan())
    for start in range(expected.num_rows + 1):
        assert table_of(folder.read(options=options, start=start), folder.scan()).equals(expected.slice(start))


def test_a_row_belongs_to_the_instant_of_the_result(folder: SliceFolder) -> None:
    of_t2 = RowsOf(frozenset([InstantTime(T2)]))
    assert sums(folder, options=using("summed"), rows=of_t2) == {"k1": 7, "k5": 9}


def test_a_merger_gets_deletes_with_their_ordering_values(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, FIELDS, STRATEGY)
    folder.write_base([[row("k1", 1, 1), row("k2", 9, 2), row("k3", 1, 3)]])
    deletes = [("k1", "LongWrapper", 5), ("k2", "LongWrapper", 5), ("k3", "IntWrapper", 0)]
    folder.write_log(slice_writer.delete_block(deletes, T1))
    folder.write_log(slice_writer.data_block(folder.avro, [row("k1", 3, 10)], T2))
    reverse = ReadOptions(mergers=((STRATEGY.name, "penstock.reader.merge.payload_orders:reverse_order"),))
    assert sums(folder, options=reverse) == {
        "k1": 1,
    }, "of k2 the delete is lower, of k3 it has no value"
    assert sums(folder, options=using("newest", STRATEGY)) == {"k1": 10}


@pytest.mark.parametrize("one_pass_bytes", [1 << 30, 0])
@pytest.mark.parametrize("ordering", ["ts", "s.in.ts"])
def test_payload_orders_by_a_column_or_a_field_of_a_struct(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, ordering: str, one_pass_bytes: int
) -> None:
    """k1 and k2: the lowest value wins. k3: the delete is lower; k4: it is higher. k5 has no value, k6 none later."""
    monkeypatch.setattr("penstock.reader.log.scanner.ONE_PASS_BYTES", one_pass_bytes)
    inner = {"type": "record", "name": "inner", "fields": [{"name": "ts", "type": ["null", "long"], "default": None}]}
    struct = {"type": "record", "name": "s", "fields": [{"name": "in", "type": ["null", inner], "default": None}]}
    custom = CustomMerge("org.apache.hudi.common.model.ReverseOrderHoodieRecordPayload", True, (ordering,))
    folder = SliceFolder(tmp_path, {"ts": "long", "s": struct, "n": "long"}, custom)

    def written(key: str, ts: int | None, n: int) -> dict[str, Any]:
        other = None if ts is None else -ts  # the opposite order
        values = (ts, other) if ordering == "ts" else (other, ts)
        return {"_hoodie_record_key": key, "ts": values[0], "s": values[1] and {"in": {"ts": values[1]}}, "n": n}

    folder.write_base([[written(f"k{number}", 5, number) for number in (1, 2, 3, 4)], [written("k5", None, 5)]])
    updates = [written("k1", 3, 10), written("k2", 7, 20), written("k5", 9, 50), written("k6", 1, 6)]
    folder.write_log(slice_writer.data_block(folder.avro, updates, T1))
    deletes = [("k3", "LongWrapper", 4), ("k4", "LongWrapper", 6)]
    folder.write_log(slice_writer.delete_block(deletes, T2))
    folder.write_log(slice_writer.data_block(folder.avro, [written("k6", None, 60)], T3))
    expected = {"k1": 10, "k2": 2, "k4": 4, "k5": 50, "k6": 60}
    assert sums(folder) == expected
    assert sums(folder, columns=("n", "_hoodie_record_key")) == expected


def test_a_table_without_keys_in_its_rows(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, {"id": "string", **FIELDS}, PAYLOAD, key_fields=("id",))
    rows = [{"id": "a", "ts": 1, "n": 1}, {"id": "b", "ts": 1, "n": 2}]
    slice_writer.write_base(tmp_path / "b.parquet", folder.arrow, [rows])
    folder.base = FileRef("b.parquet", (tmp_path / "b.parquet").stat().st_size)
    block = slice_writer.data_block(folder.avro, [{"id": "a", "ts": 2, "n": 5, "note": None}], T1)
    folder.write_log(block)
    assert {row["id"]: row["n"] for row in folder.rows(options=using("summed"))} == {"a": 6, "b": 2}


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("raises", "the function failed: ZeroDivisionError: of the user's"),
        ("no_batch", "returned a list, expected a pyarrow.RecordBatch"),
        ("fewer_rows", r"returned \d rows for \d pairs"),
        ("other_type", "n double"),
        ("missing_column", "expected .*_penstock_deleted bool"),
        ("null_mark", r"nulls in _penstock_deleted"),
        ("other_key", "changed values of _hoodie_record_key"),
        ("other_instant", "_hoodie_commit_time that is neither"),
        ("absent", "cannot be imported: AttributeError"),
        ("not_a_function", "is a int, expected a function"),
    ],
)
def test_bad_functions_are_named(folder: SliceFolder, function: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as caught:
        folder.read(options=using(function))
    assert "com.example.Sum" in str(caught.value)
    if "import" not in problem and "is a int" not in problem:
        assert "table orders: group_0-1-1" in str(caught.value), "table and file"


def test_rows_in_another_order_are_an_error(folder: SliceFolder) -> None:
    folder.write_log(slice_writer.data_block(folder.avro, [row("k1", 9, 2), row("k5", 9, 2)], T3))
    with pytest.raises(ConfigurationError, match="changed values of _hoodie_record_key"):
        folder.read(options=using("shifted_rows"))


def test_without_a_function_the_split_is_refused_at_once(folder: SliceFolder) -> None:
    other = ReadOptions(mergers=(("com.example.Other", f"{HERE}:newest"),))
    for options in (ReadOptions(), other):
        with pytest.raises(UnsupportedFeature, match=r"payload class com.example.Sum .*option mergers"):
            read_split(folder.scan(), folder.split(), options=options)
    with pytest.raises(UnsupportedFeature, match=r"record merge strategy 1111"):
        read_split(folder.scan(merge=STRATEGY), folder.split(), options=other)


def test_the_name_in_the_table_is_never_imported(folder: SliceFolder) -> None:
    hostile = CustomMerge(f"{HERE}:newest", True, ("ts",))
    with pytest.raises(UnsupportedFeature, match="no function is registered"):
        read_split(folder.scan(merge=hostile), folder.split())


def test_a_block_of_partial_updates_is_refused(folder: SliceFolder) -> None:
    folder.write_log(slice_writer.data_block(folder.avro, [row("k1", 9, 2)], T3, partial=True))
    with pytest.raises(UnsupportedFeature, match=r"partial updates .*com.example.Sum: .*block"):
        folder.read(options=using("summed"))


def test_outcomes_count_every_record(folder: SliceFolder) -> None:
    tally = SplitTally()
    list(read_split(folder.scan(), folder.split(), options=using("summed"), tally=tally))
    outcomes = tally.report().outcomes
    assert outcomes.won + outcomes.deleted + outcomes.duplicate + outcomes.lost_event_time == 6
