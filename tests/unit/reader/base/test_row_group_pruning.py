"""Row groups that are not decoded: the rows, their ordinals and the rest of the read are those of a full read."""

from __future__ import annotations

import datetime
import itertools
import math
import pathlib
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, PositionExpired
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import FileRef, RowGroupRun, RowsOf
from penstock.reader.read_split import ReadOptions, SplitTally, read_split
from penstock.reader.split.filter import evaluate
from penstock.table.predicate.parse import parse_predicate
from tests.unit.reader.slices import BASE_INSTANT, SliceFolder, ordinals_of, rows_of, table_of

STRUCT = {
    "type": "record",
    "name": "p",
    "fields": [{"name": "q", "type": ["null", "long"], "default": None}],
}
FIELDS: dict[str, Any] = {
    "i": "int",
    "l": "long",
    "x": "double",
    "f": "float",
    "d": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
    "s": "string",
    "y": "bytes",
    "b": "boolean",
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "loc": {"type": "long", "logicalType": "local-timestamp-micros"},
    "tod": {"type": "long", "logicalType": "time-micros"},
    "p": STRUCT,
    "absent": "long",
}
OWN = {"ms": pa.timestamp("ms", "UTC")}
"""Columns that files hold in another type than the table has."""

DAY = datetime.date(2026, 1, 1)
MOMENT = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None)
UTC_MOMENTS = st.integers(0, 3).map(lambda hour: MOMENT.replace(hour=hour, tzinfo=datetime.UTC))
TEXTS = ["", "a", "ab", "abc", "a\x7f", "é", "\uffff", "\U00010000", "z" * 70, "z" * 69 + "\U0010ffff"]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-3, 3),
    "l": st.sampled_from([-(2**63), -1, 0, 5, 2**63 - 1]),
    "x": st.sampled_from([-math.inf, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan]),
    "f": st.sampled_from([-0.0, 0.1, 0.5, math.nan]),
    "d": st.sampled_from([Decimal("-100000.00"), Decimal("-1.00"), Decimal("0.01"), Decimal("2.50")]),
    "s": st.sampled_from(TEXTS),
    "y": st.sampled_from([b"", b"\xff", b"a"]),
    "b": st.booleans(),
    "day": st.integers(-2, 2).map(lambda days: DAY + datetime.timedelta(days)),
    "at": UTC_MOMENTS,
    "ms": UTC_MOMENTS,
    "loc": st.integers(0, 3).map(lambda hour: MOMENT.replace(hour=hour)),
    "tod": st.integers(0, 3).map(lambda hour: datetime.time(hour)),
    "p": st.fixed_dictionaries({"q": st.none() | st.integers(0, 2)}),
}
ROW = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})
GROUP = st.one_of(
    st.lists(ROW, min_size=1, max_size=3),
    ROW.map(lambda row: [row, row]),
    st.sampled_from(sorted(VALUES)).flatmap(lambda name: ROW.map(lambda row: [{**row, name: None}])),
)
LITERALS = {
    "i": ["0", "-2", "1.5", "99999999999"],
    "l": ["0", "-9223372036854775808", "9223372036854775807"],
    "x": ["0", "1", "2.5"],
    "f": ["0", "0.1", "0.5"],
    "d": ["0.01", "0.005", "-1", "1e6"],
    "s": [f"'{text}'" for text in ("", "a", "ab", "é", "\uffff", "z" * 70)],
    "day": ["DATE '2026-01-02'", "'2025-12-31'"],
    "at": ["TIMESTAMP '2026-01-01 02:00:00+01:00'"],
    "ms": ["TIMESTAMP '2026-01-01 02:00:00'", "TIMESTAMP '2026-01-01 00:00:00.000001'"],
    "loc": ["TIMESTAMP '2026-01-01 02:00:00'"],
    "tod": ["'02:00:00'"],
    "p.q": ["1", "0.5"],
    "absent": ["1"],
}


@st.composite
def leaf(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(LITERALS)))
    literals = LITERALS[column]
    match draw(st.sampled_from(["compare", "compare", "in", "like", "truth", "null"])):
        case "like":
            return f"s LIKE '{draw(st.sampled_from(['', 'a', 'ab', 'é', 'z' * 65]))}%'"
        case "truth":
            return "b"
        case "null":
            return f"{draw(st.sampled_from([*sorted(VALUES), 'p.q', 'absent']))} IS NULL"
        case "in":
            return f"{column} IN ({', '.join(draw(st.lists(st.sampled_from(literals), min_size=1, max_size=3)))})"
    return f"{column} {draw(st.sampled_from(['=', '!=', '<', '<=', '>', '>=']))} {draw(st.sampled_from(literals))}"


FILTERS = st.recursive(
    leaf(),
    lambda inner: st.one_of(
        inner.map(lambda text: f"NOT ({text})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
    ),
    max_leaves=4,
)
WRITING = st.fixed_dictionaries(
    {
        "version": st.sampled_from(["1.0", "2.4", "2.6"]),
        "store_decimal_as_integer": st.booleans(),
        "write_statistics": st.sampled_from([True, True, True, False, ["i", "x", "s"]]),
        "compression": st.just("NONE"),
    }
)


def write(folder: SliceFolder, groups: list[list[dict[str, Any]]], *, drop: str = "absent", **writing: Any) -> None:
    """A base file with a row group each, without the column `drop`."""
    schema = pa.schema([pa.field(f.name, OWN.get(f.name, f.type)) for f in folder.arrow if f.name != drop])
    path = folder.folder / f"group_0-1-1_{BASE_INSTANT}.parquet"
    number = 0
    with pq.ParquetWriter(path, schema, **writing) as writer:
        for group in groups:
            rows = [
                {"_hoodie_commit_time": BASE_INSTANT, "_hoodie_record_key": f"k{number + at}", **row}
                for at, row in enumerate(group)
            ]
            number += len(group)
            writer.write_table(pa.Table.from_pylist(rows, schema), row_group_size=len(group))
    folder.base = FileRef(path.name, path.stat().st_size)


@pytest.mark.exhaustive
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILTERS, st.lists(GROUP, min_size=1, max_size=4), WRITING, st.integers(0, 8))
def test_pruned_reads_are_filtered_full_reads(
    tmp_path: pathlib.Path, where: str, groups: list[list[dict[str, Any]]], writing: dict[str, Any], start: int
) -> None:
    folder = SliceFolder(tmp_path, FIELDS)
    write(folder, groups, **writing)
    whole = table_of(folder.read(), folder.scan()).combine_chunks().to_batches()[0]
    answers = evaluate(parse_predicate(where, whole.schema), whole).to_pylist()
    expected = [number for number, answer in enumerate(answers) if answer]
    result = folder.read(where=where, options=ReadOptions(batch_rows=2))
    assert ordinals_of(result) == expected
    keys = [key for item in result for key in item.batch["_hoodie_record_key"].to_pylist()]
    assert keys == [f"k{number}" for number in expected]
    tail = folder.read(where=where, start=start, columns=("i",))
    assert ordinals_of(tail) == [number for number in expected if number >= start]


SAMPLES: dict[str, list[Any]] = {
    "i": [None, -2, 0, 1, 2],
    "l": [None, -(2**63), 0, 2**63 - 1],
    "x": [None, -0.0, 0.0, 1.0, 2.5, math.inf, math.nan],
    "f": [None, 0.1, 0.5, math.nan],
    "d": [None, Decimal("-1.00"), Decimal("0.01"), Decimal("2.50")],
    "s": [None, "", "a", "ab", "é", "\uffff", "z" * 70, "z" * 69 + "\U0010ffff"],
    "b": [None, False, True],
    "day": [None, DAY - datetime.timedelta(1), DAY, DAY + datetime.timedelta(1)],
    "at": [None, *(MOMENT.replace(hour=hour, tzinfo=datetime.UTC) for hour in range(3))],
    "ms": [None, *(MOMENT.replace(hour=hour, tzinfo=datetime.UTC) for hour in range(3))],
    "loc": [None, *(MOMENT.replace(hour=hour) for hour in range(1, 4))],
    "tod": [None, *(datetime.time(hour) for hour in range(1, 4))],
    "p": [None, {"q": None}, {"q": 0}, {"q": 1}, {"q": 2}],
    "absent": [None],
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("writing", [{"version": "2.6"}, {"version": "1.0", "store_decimal_as_integer": True}], ids=str)
def test_every_comparison_of_every_type_over_every_pair_of_values(
    tmp_path: pathlib.Path, name: str, writing: dict[str, Any]
) -> None:
    """A row group for each pair of values; filters on each literal with each operator, and their negations."""
    folder = SliceFolder(tmp_path, {key: FIELDS[key] for key in {name, "i"}})
    pairs = itertools.combinations_with_replacement(SAMPLES[name], 2)
    groups = [[{name: one}, {name: other}] for one, other in pairs]
    write(folder, groups, drop=name if name == "absent" else "", **writing)
    whole = table_of(folder.read(), folder.scan()).combine_chunks().to_batches()[0]
    column = "p.q" if name == "p" else name
    texts = [f"{column} IS NULL", *([f"{column}"] if name == "b" else []), *(["p IS NULL"] if name == "p" else [])]
    for literal in LITERALS.get(column, ["TRUE"]):
        ops = ("=", "!=") if name == "b" else ("=", "!=", "<", "<=", ">", ">=")
        texts += [f"{column} {op} {literal}" for op in ops]
    texts += [f"{column} IN ({', '.join(LITERALS[column])})"] if name != "b" else []
    texts += [f"s LIKE '{prefix}%'" for prefix in ("", "a", "é", "z" * 69, "z" * 80)] if name == "s" else []
    dropped = 0
    for where in [*texts, *(f"NOT ({text})" for text in texts)]:
        answers = evaluate(parse_predicate(where, whole.schema), whole).to_pylist()
        tally = SplitTally()
        result = list(read_split(folder.scan(columns=("i",), where=where), folder.split(), tally=tally))
        assert ordinals_of(result) == [number for number, answer in enumerate(answers) if answer], where
        dropped += tally.report().pruned_row_groups
    assert dropped > 0


def numbered(folder: SliceFolder) -> SliceFolder:
    """100 row groups of ten rows: i counts on, the commit time changes every 30 groups."""
    groups = [
        [
            {"i": 10 * at + n, "s": f"{10 * at + n:04}", "_hoodie_commit_time": f"2026010{1 + at // 30}000000000"}
            for n in range(10)
        ]
        for at in range(100)
    ]
    write(folder, groups)
    return folder


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> SliceFolder:
    return numbered(SliceFolder(tmp_path, FIELDS))


def counted(folder: SliceFolder, *, part: Any = None, start: int = 0, **changed: Any) -> tuple[list[int], int, int]:
    """(values of i, row groups pruned, rows in them)."""
    tally = SplitTally()
    split = folder.split(**({"part": part} if part else {}))
    result = list(read_split(folder.scan(columns=("i",), **changed), split, start=start, tally=tally))
    report = tally.report()
    values = [value for item in result for value in item.batch["i"].to_pylist()]
    assert report.rows == len(values)
    return values, report.pruned_row_groups, report.pruned_rows


@pytest.mark.parametrize(
    ("where", "values", "pruned"),
    [
        ("i = 123", [123], 99),
        ("s = '0123'", [123], 99),
        ("_hoodie_record_key = 'k7'", [7], 99),
        ("i IN (5, 995)", [5, 995], 98),
        ("s LIKE '012%'", list(range(120, 130)), 99),
        ("i >= 985 AND s < '0990'", list(range(985, 990)), 99),
        ("i < 2 OR i > 997", [0, 1, 998, 999], 98),
        ("NOT (i > 2)", [0, 1, 2], 99),
        ("i IS NULL", [], 100),
        ("absent IS NOT NULL", [], 100),
        ("absent IS NULL AND i = 4", [4], 99),
        ("i = 5000", [], 100),
        ("x > 0", [], 100),
        ("y IS NULL AND i = 4", [4], 99),
    ],
)
def test_row_groups_that_a_filter_excludes_are_not_decoded(
    folder: SliceFolder, where: str, values: list[int], pruned: int
) -> None:
    assert counted(folder, where=where) == (values, pruned, pruned * 10)


def test_nothing_is_pruned_without_a_filter_nor_before_the_start(folder: SliceFolder) -> None:
    assert counted(folder) == (list(range(1000)), 0, 0)
    assert counted(folder, where="i = 123", start=120)[1:] == (87, 870), "groups before the start do not count"


def test_run_of_row_groups_counts_from_its_own_start(folder: SliceFolder) -> None:
    split = folder.split(part=RowGroupRun(10, 20))
    assert counted(folder, part=RowGroupRun(10, 20), where="i = 123") == ([123], 9, 90)
    assert ordinals_of(folder.read(split=split, where="i = 123")) == [23]


def test_range_does_not_decode_row_groups_of_other_instants(folder: SliceFolder) -> None:
    second = rows_of("20260102000000000")
    assert counted(folder, rows=second) == (list(range(300, 600)), 70, 700)
    assert counted(folder, rows=second, where="i = 5 OR i = 305") == ([305], 99, 990)
    assert counted(folder, rows=rows_of()) == ([], 100, 1000)


def test_rows_that_make_a_range_fail_are_never_pruned(folder: SliceFolder) -> None:
    instants = frozenset({InstantTime("20260101000000000")})
    unclear = RowsOf(instants, frozenset({InstantTime("20260103000000000")}))
    with pytest.raises(PositionExpired, match="service 20260103000000000"):
        counted(folder, rows=unclear)


def test_widened_columns_are_not_judged_by_the_files_statistics(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, {"i": "long", "s": "string"})
    schema = pa.schema([pa.field(f.name, {"i": pa.int32(), "s": pa.int64()}.get(f.name, f.type)) for f in folder.arrow])
    folder.write_base(
        [[{"_hoodie_record_key": "a", "i": 9, "s": 9}], [{"_hoodie_record_key": "b", "i": 10, "s": 10}]], schema
    )
    assert [row["i"] for row in folder.rows(where="s < '2'")] == [10], "as texts '10' is less than '9'"
    assert counted(folder, where="i = 9") == ([9], 0, 0)


def test_columns_of_the_path_are_judged_by_the_path(tmp_path: pathlib.Path) -> None:
    """The file says another value than the path, and rows show the path's."""
    folder = SliceFolder(tmp_path, {"i": "long", "s": "string"})
    folder.write_base([[{"_hoodie_record_key": "a", "i": 1, "s": "file"}]])
    split = folder.split(partition="s=path", partition_values=("path",))
    changed = {"partition_fields": ("s",), "split": split}
    assert [row["s"] for row in folder.rows(where="s = 'path'", **changed)] == ["path"]
    assert folder.rows(where="s = 'file'", **changed) == []


def test_int96_has_no_statistics_that_count(tmp_path: pathlib.Path) -> None:
    folder = SliceFolder(tmp_path, {"at": {"type": "long", "logicalType": "timestamp-micros"}})
    path = folder.folder / f"group_0-1-1_{BASE_INSTANT}.parquet"
    rows = [
        {"_hoodie_record_key": f"k{hour}", "at": MOMENT.replace(hour=hour, tzinfo=datetime.UTC)} for hour in range(4)
    ]
    table = pa.Table.from_pylist(rows, folder.arrow)
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=1)
    folder.base = FileRef(path.name, path.stat().st_size)
    assert len(folder.rows(where="at = TIMESTAMP '2026-01-01 02:00:00'")) == 1


def test_slices_with_logs_are_merged_before_they_are_filtered(tmp_path: pathlib.Path) -> None:
    """The base says i = 1 for the row, the log says 900: rows of ruled-out row groups still meet the log."""
    from tests.oracle import slice_writer

    folder = numbered(SliceFolder(tmp_path, FIELDS))
    record = {"_hoodie_record_key": "k1", "i": 900, "s": "x"}
    folder.write_log(slice_writer.data_block(folder.avro, [record], "20260104000000000"))
    assert counted(folder, where="i = 900") == ([900, 900], 99, 990)


def test_damaged_row_group_that_is_pruned_is_not_met(folder: SliceFolder) -> None:
    path = folder.folder / folder.base.path if folder.base else folder.folder
    data = bytearray(path.read_bytes())
    meta = pq.ParquetFile(path).metadata
    chunk = meta.row_group(50).column(meta.schema.names.index("i"))
    begin = chunk.dictionary_page_offset or chunk.data_page_offset
    data[begin : begin + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(bytes(data))
    assert counted(folder, where="i = 123")[0] == [123]
    with pytest.raises(CorruptFile):
        counted(folder, where="i = 505")
