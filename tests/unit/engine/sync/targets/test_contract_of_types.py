"""Each target of a copy keeps values and keys of each type, and the rows of a model under random changes and kills."""

from __future__ import annotations

import datetime as dt
import itertools
import signal
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets.target import Target
from penstock.proto.errors import ConfigurationError, TargetConflict
from tests.unit.engine.sync.targets.backends import KINDS, Backend, opened
from tests.unit.engine.sync.targets.test_contract import assert_rows
from tests.unit.engine.sync.targets.writes import SEED, WRITES, History, Row, kills, write

LOCAL = dt.datetime(2020, 12, 31, 23, 59, 59, tzinfo=dt.UTC).replace(tzinfo=None)
SINGLE: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int32(): [-(2**31), 2**31 - 1],
    pa.int64(): [-(2**63), 2**63 - 1],
    pa.float32(): [1.100000023841858, float("inf"), float("-inf"), float("nan"), 3.4028234663852886e38],
    pa.float64(): [0.1, 5e-324, 1.7976931348623157e308, float("nan"), float("-inf")],
    pa.string(): ["", 'é"\\\n\t\x01', "\\N", "NULL", "𝄞", "x" * 70_000],
    pa.binary(): [b"", bytes(range(256))],
    pa.date32(): [dt.date(1, 1, 1), dt.date(1582, 10, 10), dt.date(9999, 12, 31)],
    pa.time64("us"): [dt.time(0, 0), dt.time(23, 59, 59, 999_999)],
    pa.timestamp("us"): [LOCAL.replace(year=1, microsecond=1), LOCAL.replace(year=9999, microsecond=999_999)],
    pa.timestamp("us", "UTC"): [
        dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 3, 29, 1, 30, 0, 120_000, tzinfo=dt.UTC)
    ],
    pa.decimal128(38, 10): [Decimal("1234567890123456789012345678.0000000001"), Decimal("-0.0000000001")],
    pa.decimal128(38, 38): [Decimal("0." + "9" * 38)],
    pa.decimal128(3, 0): [Decimal("-999")],
}  # fmt: skip
_POINT = pa.struct([("x", pa.int32()), ("Yy", pa.list_(pa.field("element", pa.float64())))])
NESTED: dict[pa.DataType, list[Any]] = {
    pa.list_(pa.field("element", pa.int8())): [[-128, 127, None], []],
    pa.list_(pa.field("element", pa.float32())): [[1.5, float("-inf")], []],
    pa.map_(pa.string(), pa.decimal128(20, 5)): [[('k"', Decimal("1.10000")), ("z", None)], []],
    _POINT: [{"x": 1, "Yy": [0.1, None, 1e300]}, {"x": None, "Yy": None}],
    pa.struct([("n", pa.int64()), ("p", _POINT)]): [{"n": 1, "p": {"x": 3, "Yy": [2.5]}}, {"n": None, "p": None}],
    pa.map_(pa.string(), _POINT): [[("k", {"x": 2, "Yy": []}), ("n", None)]],
    pa.list_(pa.field("element", pa.struct([("b", pa.binary()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC")),
                                            ("s", pa.string()), ("o", pa.bool_())]))): [
        [{"b": b"\0\xff", "d": dt.date(2020, 2, 29), "t": dt.datetime(2020, 1, 1, tzinfo=dt.UTC), "s": '"\\\n',
          "o": True}, None]
    ],
}  # fmt: skip


@pytest.mark.parametrize("values", [SINGLE, NESTED], ids=["single", "nested"])
def test_values_of_each_type_are_kept(general_backend: Backend, values: dict[pa.DataType, list[Any]]) -> None:
    """Each type is a column. Columns with fewer values have nulls."""
    columns = pa.schema([("k", pa.int32()), *((f"v{place}", type_) for place, type_ in enumerate(values))])
    layout = TargetLayout(columns, ("k",))
    rows: list[Row] = list(enumerate_rows(values.values()))
    target = opened(general_backend)
    target.check_columns("orders", columns)
    assert all(target.types_of(columns))
    target.write(write("p1", rows, layout=layout))
    changed: list[Row] = [(0, *(one[-1] for one in values.values())), (99, *(one[0] for one in values.values()))]
    target.write(write("p2", changed, [(0,), (99,)], layout=layout, expected="p1"))
    target.close()
    assert_rows(general_backend, [*rows[1:], *changed], columns)


def enumerate_rows(columns: Iterable[list[Any]]) -> Iterator[Row]:
    """The values of columns as rows with a number; the last row has only nulls."""
    for number, row in enumerate(itertools.zip_longest(*([*one, None] for one in columns))):
        yield (number, *row)


KEYS = {type_: [one for one in values if one != "x" * 70_000] for type_, values in SINGLE.items()}


def test_keys_of_all_types_are_compared_by_each_column(general_backend: Backend) -> None:
    """One key has the first value of each type. Each other one has another value, or null, in one column."""
    columns = pa.schema([*((f"k{place}", type_) for place, type_ in enumerate(KEYS)), ("v", pa.int32())])
    layout = TargetLayout(columns, tuple(columns.names[:-1]))
    first = tuple(values[0] for values in KEYS.values())
    keys: list[Row] = [first]
    for place, values in enumerate(KEYS.values()):
        keys += [(*first[:place], value, *first[place + 1 :]) for value in (*values[1:], None)]
    rows: list[Row] = [(*key, number) for number, key in enumerate(keys)]
    target = opened(general_backend)
    target.write(write("p1", rows, layout=layout))
    target.write(write("p2", [(*first, 99)], [first], layout=layout, expected="p1"))
    removed = keys[2::2]
    target.write(write("p3", None, removed, layout=layout, expected="p2"))
    target.close()
    assert_rows(general_backend, [*rows[1::2], (*first, 99)], columns)


@pytest.mark.parametrize(
    ("backend", "type_"),
    [pytest.param(KINDS[place % 4], type_, id=f"{KINDS[place % 4]}-{type_}") for place, type_ in enumerate(SINGLE)],
    indirect=["backend"],
)
def test_values_of_each_single_type_are_keys(backend: Backend, type_: pa.DataType) -> None:
    values = KEYS[type_]
    columns = pa.schema([("k", type_), ("v", pa.int32())])
    layout = TargetLayout(columns, ("k",))
    rows: list[Row] = [(value, index) for index, value in enumerate([*values, None])]
    target = opened(backend)
    target.write(write("p1", rows, layout=layout))
    target.write(write("p2", [(values[0], 99)], [(values[0],), (None,)], layout=layout, expected="p1"))
    target.close()
    assert_rows(backend, [*rows[1:-1], (values[0], 99)], columns)


@pytest.mark.parametrize("type_", [pa.duration("us"), pa.list_(pa.duration("us"))], ids=str)
def test_unknown_types_are_refused(backend: Backend, type_: pa.DataType) -> None:
    target = opened(backend)
    with pytest.raises(ConfigurationError, match=r"orders.*odd.*duration"):
        target.check_columns("orders", pa.schema([("k", pa.int32()), ("odd", type_)]))
    target.close()


def test_two_objects_do_not_lose_writes(backend: Backend) -> None:
    """Not for DuckDB, which lets one process open a file."""
    if backend.url.startswith("duckdb"):
        return
    first, second = opened(backend), opened(backend)
    first.write(write("p1", [("a", 1, "x")]))
    assert second.stored("orders").positions == {"/lake/orders": "p1"}  # type: ignore[union-attr]
    second.write(write("p2", [("b", 1, "x")], expected="p1"))
    with pytest.raises(TargetConflict):
        first.write(write("p2", [("c", 1, "x")], expected="p1"))
    for target in (first, second):
        target.close()
    assert_rows(backend, [("a", 1, "x"), ("b", 1, "x")])


@pytest.mark.parametrize("seed", [1, 2])
def test_random_changes_give_the_rows_of_a_model(general_backend: Backend, seed: int) -> None:
    history = History(seed)
    target: Target = opened(general_backend)
    for number in range(12):
        if number % 5 == 4:
            target.close()
            target = opened(general_backend)
        target.write(history.write(number))
    target.close()
    assert_rows(general_backend, history.rows_after(11))


PARTS = {"duckdb": (0.1, 0.7), "postgresql": (0.4, 0.95), "delta": (0.4, 0.7), "parquet": (0.1, 0.95)}
"""At which parts of their steps processes are killed."""


@pytest.mark.thorough
@pytest.mark.parametrize(("backend", "parts"), PARTS.items(), indirect=["backend"], ids=PARTS)
def test_kill_between_any_two_steps_loses_nothing(backend: Backend, parts: tuple[float, ...]) -> None:
    """A process counts its steps, and others end with `kill -9` at parts of them."""
    assert kills(backend.url, parts) == [0, *(-signal.SIGKILL for _ in parts)]
    for number in range(1, len(parts) + 1):
        table, target, history = f"t{number}", opened(backend), History(SEED)
        stored = target.stored(table)
        done = -1 if stored is None else int(stored.positions["/lake/orders"].removeprefix("p"))
        assert done < WRITES - 1 or parts[number - 1] > 0.9
        if stored is not None:
            target.close()
            assert_rows(backend, history.rows_after(done), table=table)
            target = opened(backend)
        for later in range(done + 1, WRITES):
            target.write(history.write(later, table=table))
        target.close()
        assert_rows(backend, history.rows_after(WRITES - 1), table=table)
