"""Each function with which a suite compares rows detects a lost, doubled or changed row, also an event time that is
1 µs higher, and accepts another order. A comparison that is not registered here fails."""

from __future__ import annotations

import ast
import datetime as dt
import importlib
import json
import pathlib
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pytest

from tests.test_operations_doc import known_tests

HERE = pathlib.Path(__file__).parent
SUITES: Final = ("engines", "faults", "golden", "hybrid", "interop", "kafka", "spark", "streaming")
NAMES: Final = re.compile(r"\w*(difference|differing)|_?same|counted_rows")

MICROSECOND: Final = dt.timedelta(microseconds=1)
START: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ROWS: Final = pa.table(
    {
        "_hoodie_partition_path": pa.array(["p", "p", "q", "q"]),
        "_hoodie_record_key": pa.array(["1", "2", "3", "4"]),
        "id": pa.array(["1", "2", "3", None]),
        "at": pa.array([START, START + MICROSECOND, START, None], pa.timestamp("us", "UTC")),
        "n": pa.array([1, -(2**63), 2**63 - 1, None], pa.int64()),
        "v": pa.array([0.5, float("nan"), -0.25, None], pa.float64()),
        "d": pa.array([Decimal("1.50"), Decimal("0.01"), Decimal("-7.00"), None], pa.decimal128(12, 2)),
        "l": pa.array([[1, 2], [], [2, 1], None], pa.list_(pa.int32())),
        "s": pa.array([{"a": 1}, {"a": None}, {"a": 2}, None], pa.struct([("a", pa.int32())])),
    }
)
FLAT: Final = ROWS.select(["id", "at", "n", "d", "l"])
"""The types that a model of streams has."""
HUDI_CHANGES: Final = pa.table(
    {
        "op": ["i", "u", "d"],
        "ts_ms": ["20260101000000000", "20260101000000001", "20260101000000002"],
        "before": [None, json.dumps({"id": "1", "at": 1}), json.dumps({"id": "1", "at": 2})],
        "after": [json.dumps({"id": "1", "at": 1}), json.dumps({"id": "1", "at": 2}), None],
    }
)
CHANGES: Final = ROWS.append_column("_change_type", pa.array(["+I"] * 4)).append_column(
    "_change_seq", pa.array([f"{number:04}" for number in range(4)])
)

Same = Callable[[pa.Table, pa.Table], bool]
"""Whether the first table has the rows of the second, which are right."""


def by_form(form: Callable[..., object], *more: object) -> Same:
    """Two tables are the same if their forms are equal."""
    return lambda actual, expected: bool(form(actual, *more) == form(expected, *more))


def by_text(difference: Callable[..., str]) -> Same:
    """Two tables are the same if their difference is empty."""
    return lambda actual, expected: not difference(actual, expected)


def by_assertion(check: Callable[..., None]) -> Same:
    """Changes are right if they lead from no rows to the expected ones, and the check passes."""

    def same(actual: pa.Table, expected: pa.Table) -> bool:
        try:
            check(actual, expected.slice(0, 0), expected, (), "")
        except AssertionError:
            return False
        return True

    return same


def by_decoded(difference: Callable[..., str]) -> Same:
    """Changes in Hudi's format are the same if the difference of their decoded forms is empty."""
    decoded = importlib.import_module("tests.interop.history_changes").decoded
    return lambda actual, expected: (
        not difference(decoded(actual, set()), decoded(expected, set()), set(), (set(), set()))
    )


COMPARISONS: Final[dict[str, tuple[pa.Table, Callable[[Callable[..., Any]], Same]]]] = {
    "golden.rows.difference": (ROWS, by_text),
    "golden.changes.hudi_changes": (HUDI_CHANGES, lambda form: by_form(form, ())),
    "golden.changes.state_of": (ROWS, by_form),
    "golden.changes.canonical_changes": (CHANGES, by_form),
    "golden.test_sync.same": (ROWS, by_text),
    "interop.history_checker.difference": (ROWS, by_text),
    "interop.mixed.histories.row_difference": (ROWS, by_text),
    "golden.test_changes_fold._same": (CHANGES, by_assertion),
    "interop.history_changes._difference": (HUDI_CHANGES, by_decoded),
    "interop.history_changes._fold_difference": (CHANGES, by_text),
    "interop.history_changes.decoded": (HUDI_CHANGES, lambda form: by_form(form, set())),
    "interop.soak_driver._counted": (FLAT, by_form),
    "hybrid.spark_reader.counted": (FLAT, by_form),
    "streaming.test_reads._texts": (FLAT, by_form),
    "streaming.operators.as_rows": (FLAT, by_form),
    "engines.frames.rows_of": (ROWS.drop_columns(["v"]), by_form),
    "spark.conftest.counted_rows": (FLAT, by_form),
}
"""The table on which each comparison is tried, and how it is used."""
ELSEWHERE: Final = {
    "golden.rows._rows": "a part of difference",
    "engines.test_queries._same": "rows_of; test_pushed_condition_with_too_few_rows_is_seen",
    "hybrid.topic_fold._differing": "test_lost_doubled_unknown_or_changed_rows_are_problems",
    "faults.served.differing": "hudi_changes",
    "spark.test_where_functions.same": "answers of a condition, not rows",
}


def compared_in(path: pathlib.Path) -> Iterator[str]:
    """The functions of a file that count the rows of a table, or have the name of a comparison."""
    module = path.relative_to(HERE).with_suffix("").as_posix().replace("/", ".")
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("test_"):
            continue
        takes_table = any("pa.Table" in ast.unparse(each.annotation or ast.Constant(0)) for each in node.args.args)
        counts = node.returns is not None and ast.unparse(node.returns).startswith("Counter[")
        if (takes_table and counts) or NAMES.fullmatch(node.name):
            yield f"{module}.{node.name}"


def changed(table: pa.Table, row: int, name: str) -> pa.Table:
    """The table with another value in one place; a time is 1 µs higher."""
    values = table[name].to_pylist()
    values[row] = _other(values[row], table.schema.field(name).type)
    return table.set_column(table.schema.get_field_index(name), name, pa.array(values, table.schema.field(name).type))


def _other(value: Any, kind: pa.DataType) -> Any:
    match value:
        case None:
            return _first(kind)
        case dt.datetime():
            return value + MICROSECOND
        case "+I":
            return "-D"
        case str():
            return f"{value[:-1]}9" if not value.startswith("{") else value.replace('"at": ', '"at": 1')
        case Decimal():
            return value + Decimal("0.01")
        case float():
            return 0.75
        case int():
            return value - 1 if value > 0 else value + 1
        case list():
            return [*value, 7]
    return {"a": 9}


def _first(kind: pa.DataType) -> Any:
    return '{"id": "9"}' if pa.types.is_string(kind) else next(c[0].as_py() for c in ROWS.columns if c.type == kind)


def wrong_tables(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """The table with one row lost, doubled or changed."""
    for row in range(table.num_rows):
        rest = pa.concat_tables([table.slice(0, row), table.slice(row + 1)])
        yield f"row {row} lost", rest
        yield f"row {row} doubled", pa.concat_tables([table, table.slice(row, 1)])
        for name in table.column_names:
            if not name.startswith(("_hoodie_", "_change_seq")):
                yield f"{name} of row {row} changed", changed(table, row, name)


@pytest.mark.parametrize("name", COMPARISONS)
@pytest.mark.sampled(len(COMPARISONS))
def test_comparison_detects_each_wrong_row(name: str) -> None:
    table, used = COMPARISONS[name]
    module, _, function = name.rpartition(".")
    same = used(getattr(importlib.import_module(f"tests.{module}"), function))
    reordered = table.take(list(range(table.num_rows))[::-1])
    assert same(table, table) and same(reordered, table)
    undetected = [what for what, wrong in wrong_tables(table) if same(wrong, table)]
    assert not undetected, undetected


def files_of_suites() -> Iterator[pathlib.Path]:
    """The files of the suites that compare."""
    for suite in SUITES:
        yield from (path for path in (HERE / suite).rglob("*.py") if "generators" not in path.parts)


def test_every_comparison_of_rows_is_registered() -> None:
    there = {name for path in files_of_suites() for name in compared_in(path)}
    assert there == {*COMPARISONS, *ELSEWHERE}


def test_comparisons_tested_elsewhere_name_existing_tests() -> None:
    named = {name for text in ELSEWHERE.values() for name in re.findall(r"test_\w+", text)}
    assert named and named <= known_tests().keys()


def test_unregistered_comparison_is_seen(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control of the test above."""
    monkeypatch.setattr("tests.test_comparisons.HERE", tmp_path)
    source = tmp_path / "suite.py"
    source.write_text("def counts(rows: pa.Table) -> Counter[str]: ...\ndef other(rows: pa.Table) -> str: ...\n")
    assert list(compared_in(source)) == ["suite.counts"]
