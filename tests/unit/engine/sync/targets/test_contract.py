"""The contract of `Target`, for every kind of target."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from penstock.engine.sync.layout import TargetLayout, followed
from penstock.proto.errors import ConfigurationError, SchemaMismatch, TargetConflict, TargetUnavailable
from tests.unit.engine.sync.targets.backends import Backend, canonical, opened
from tests.unit.engine.sync.targets.writes import COLUMNS, LAYOUT, Row, batch, write


def assert_rows(backend: Backend, expected: list[Row], columns: pa.Schema = COLUMNS, table: str = "orders") -> None:
    held = [tuple(backend.held(value, one.type) for value, one in zip(row, columns, strict=True)) for row in expected]
    actual = backend.rows(table, columns)
    assert Counter(repr(canonical(row)) for row in actual) == Counter(repr(canonical(row)) for row in held)


def test_first_write_creates_the_table(backend: Backend) -> None:
    target = opened(backend)
    assert target.stored("orders") is None
    target.write(write("p1"))
    stored = target.stored("orders")
    assert stored is not None
    assert (stored.layout, stored.positions) == (LAYOUT, {"/lake/orders": "p1"})
    target.close()
    assert_rows(backend, [])


def test_rows_are_appended_and_removed_in_one_write(backend: Backend) -> None:
    target = opened(backend)
    target.write(write("p1", [("a", 1, "x"), ("b", 2, "y"), ("c", 3, "z")]))
    target.write(write("p2", [("b", 2, "new"), ("d", 4, "w")], [("b", 2), ("c", 3), ("none", 9)], expected="p1"))
    target.close()
    assert_rows(backend, [("a", 1, "x"), ("b", 2, "new"), ("d", 4, "w")])
    again = opened(backend)
    assert again.stored("orders").positions == {"/lake/orders": "p2"}  # type: ignore[union-attr]
    again.close()


def test_null_keys_are_equal_to_each_other(general_backend: Backend) -> None:
    target = opened(general_backend)
    target.write(write("p1", [(None, 1, "x"), ("a", None, "y"), (None, None, "z"), ("a", 1, "w"), ("", 0, "empty")]))
    target.write(write("p2", [(None, None, "new")], [(None, None), (None, 1)], expected="p1"))
    target.write(write("p3", [], [("a", None)], expected="p2"))
    target.close()
    assert_rows(general_backend, [(None, None, "new"), ("a", 1, "w"), ("", 0, "empty")])


def test_keys_with_nan_are_equal_to_each_other(backend: Backend) -> None:
    """No range of a file's values has them."""
    columns = pa.schema([("k", pa.float64()), ("v", pa.string())])
    layout, nan = TargetLayout(columns, ("k",)), float("nan")
    target = opened(backend)
    target.write(write("p1", [(1.0, "x"), (nan, "old"), (2.0, "y")], layout=layout))
    target.write(write("p2", [(nan, "new")], [(nan,)], layout=layout, expected="p1"))
    target.write(write("p3", [(1.0, "z")], [(1.0,)], layout=layout, expected="p2"))
    target.close()
    assert_rows(backend, [(1.0, "z"), (nan, "new"), (2.0, "y")], columns)


def test_removals_only_affect_exact_keys(general_backend: Backend) -> None:
    rows: list[Row] = [("a", 1, "x"), ("A", 1, "x"), ("a ", 1, "x"), ("á", 1, "x"), ("á", 1, "x"), ("%", 1, "x")]
    target = opened(general_backend)
    target.write(write("p1", rows))
    target.write(write("p2", [], [("a", 1), ("%", 1), ("", 1)], expected="p1"))
    target.close()
    assert_rows(general_backend, [row for row in rows if row[0] not in ("a", "%")])


def test_columns_are_added_and_widened(general_backend: Backend) -> None:
    old = TargetLayout(
        pa.schema([("k", pa.int32()), ("f", pa.int64()), ("d", pa.decimal128(5, 2)), ("i", pa.int32())]), ("k",)
    )
    more = pa.field("more", pa.list_(pa.field("element", pa.string())))
    fields = [("k", pa.int64()), ("f", pa.float32()), ("d", pa.decimal128(12, 4)), ("i", pa.float64()), more]
    new = TargetLayout(pa.schema(fields), ("k",))
    target = opened(general_backend)
    target.write(write("p1", [(1, 2**60 + 1, Decimal("1.25"), 7), (2, None, None, None)], layout=old))
    change = followed("orders", old, new)
    rows: list[Row] = [(2**40, 1.5, Decimal("12345678.1234"), 0.5, ["x"]), (2, 2.5, None, 9.0, None)]
    target.write(write("p2", rows, [(2,)], expected="p1", layout=new, change=change, base=old))
    assert target.stored("orders").layout == new  # type: ignore[union-attr]
    target.close()
    assert_rows(general_backend, [(1, float(2**60), Decimal("1.2500"), 7.0, None), *rows], new.columns)


def test_numbers_become_text(general_backend: Backend) -> None:
    old = TargetLayout(pa.schema([("k", pa.int32()), ("n", pa.int64()), ("d", pa.date32())]), ("k",))
    new = TargetLayout(pa.schema([("k", pa.string()), ("n", pa.string()), ("d", pa.string())]), ("k",))
    target = opened(general_backend)
    target.write(write("p1", [(1, -5, dt.date(2020, 1, 2)), (2, None, None)], layout=old))
    target.write(
        write("p2", [("1", "z", "w")], [("1",)], expected="p1", layout=new, change=followed("t", old, new), base=old)
    )
    target.write(write("p3", [], [("2",)], expected="p2", layout=new))
    target.write(write("p4", [("3", "-5", "2020-01-02")], [], expected="p3", layout=new))
    target.close()
    assert_rows(general_backend, [("1", "z", "w"), ("3", "-5", "2020-01-02")], new.columns)


def test_rows_may_have_fewer_and_narrower_columns(backend: Backend) -> None:
    """As those of a shard that has not changed its schema yet."""
    layout = TargetLayout(pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.string())]), ("k",))
    target = opened(backend)
    target.write(write("p1", [(5, "a")], layout=layout, columns=pa.schema([("n", pa.int32()), ("k", pa.string())])))
    target.close()
    assert_rows(backend, [("a", 5, None)], layout.columns)


def test_restart_replaces_all_rows_and_the_layout(backend: Backend) -> None:
    new = TargetLayout(pa.schema([("id", pa.int64())]), ("id",))
    target = opened(backend)
    target.write(write("p1", [("a", 1, "x")]))
    again = write("q1", [(7,)], layout=new, source="/lake/orders_again")
    target.write(replace(again, replaces=True))
    stored = target.stored("orders")
    assert stored is not None
    assert (stored.layout, stored.positions) == (new, {"/lake/orders_again": "q1"})
    target.close()
    assert_rows(backend, [(7,)], new.columns)


def test_restart_of_one_source_keeps_the_rows_of_others(backend: Backend) -> None:
    columns = pa.schema([("_source", pa.string()), ("k", pa.string())])
    layout = TargetLayout(columns, ("_source", "k"), "_source")
    target = opened(backend)
    for name in ("a'b", "b"):
        target.write(write("p1", [(name, "1"), (name, "2")], layout=layout, source=f"/{name}", source_name=name))
    again = write("p2", [("a'b", "3")], layout=layout, expected="p1", source="/a'b", source_name="a'b")
    target.write(replace(again, replaces=True))
    stored = target.stored("orders")
    assert stored is not None
    assert stored.positions == {"/a'b": "p2", "/b": "p1"}
    target.write(write("p2", [], [("b", "1")], layout=layout, expected="p1", source="/b", source_name="b"))
    target.close()
    assert_rows(backend, [("a'b", "3"), ("b", "2")], columns)


def test_columns_that_another_process_added_are_not_lost(backend: Backend) -> None:
    """Two processes copy a source each into one table, and both add a column."""
    columns = pa.schema([("_source", pa.string()), ("k", pa.string())])
    old = TargetLayout(columns, ("_source", "k"), "_source")
    x, y = (replace(old, columns=columns.append(pa.field(name, pa.int32()))) for name in "xy")
    target = opened(backend)
    target.write(write("p1", layout=old, source="/a", source_name="a"))
    target.write(write("p1", layout=old, source="/b", source_name="b", base=old))
    change = followed("t", old, x)
    target.write(write("p2", [("a", "1", 5)], layout=x, source="/a", expected="p1", change=change, base=old))
    other = write("p2", [("b", "1", 6)], layout=y, source="/b", expected="p1", change=followed("t", old, y), base=old)
    with pytest.raises(TargetUnavailable, match="another process has changed its columns"):
        target.write(other)
    with pytest.raises(TargetUnavailable, match="another process has changed its columns"):
        target.write(write("p1", layout=old, source="/c", source_name="c"))
    stored = target.stored("orders")
    assert stored is not None
    assert (stored.layout, stored.positions) == (x, {"/a": "p2", "/b": "p1"})
    target.close()
    assert_rows(backend, [("a", "1", 5)], x.columns)


@pytest.mark.parametrize("day", [-719_163, 2_932_897], ids=["year 0", "year 10000"])
def test_dates_with_a_sign_do_not_become_text(backend: Backend, day: int) -> None:
    """Hudi writes them as `+10000-01-01`."""
    old = TargetLayout(pa.schema([("k", pa.int32()), ("d", pa.date32())]), ("k",))
    new = TargetLayout(pa.schema([("k", pa.int32()), ("d", pa.string())]), ("k",))
    target = opened(backend)
    rows = pa.record_batch([pa.array([1], pa.int32()), pa.array([day], pa.int32()).cast(pa.date32())], old.columns)
    target.write(replace(write("p1", layout=old), rows=iter([rows])))
    with pytest.raises(SchemaMismatch, match="a date outside of the years 1 to 9999"):
        target.write(write("p2", layout=new, expected="p1", change=followed("t", old, new), base=old))
    stored = target.stored("orders")
    assert stored is not None
    assert (stored.layout, stored.positions) == (old, {"/lake/orders": "p1"})
    target.close()


@pytest.mark.parametrize("name", ["../orders", "/etc", "a/b", "..", "", "a\0b"])
def test_names_that_lead_elsewhere_are_refused_before_anything_is_read(backend: Backend, name: str) -> None:
    """A server names its tables."""
    if not backend.url.startswith(("delta", "parquet", "hudi")):
        return
    target = opened(backend)
    with pytest.raises(ConfigurationError, match="the name is not one of a folder"):
        target.stored(name)
    target.close()


def test_repeated_key_is_found_until_it_is_removed(general_backend: Backend) -> None:
    """Also one with a null. Rows that were removed, and those with one part of a key, do not count."""
    target = opened(general_backend)
    assert target.repeated_key("orders", "orders") == ""
    target.write(write("p1", [("a", 1, "x"), ("a", 2, "y"), ("b", 1, "z"), (None, 1, "n")]))
    assert target.repeated_key("orders", "orders") == ""
    target.write(write("p2", [("a", 2, "again"), ("c", 3, "w")], [("c", 3)], expected="p1"))
    assert target.repeated_key("orders", "orders") == "k=a, n=2"
    target.write(write("p3", [("a", 2, "one"), (None, 1, "n")], [("a", 2)], expected="p2"))
    assert target.repeated_key("orders", "orders") == "k=None, n=1"
    target.write(write("p4", [("b", 1, "new")], [(None, 1), ("b", 1)], expected="p3"))
    assert target.repeated_key("orders", "orders") == ""
    target.close()


def test_repeated_key_of_another_source_does_not_count(general_backend: Backend) -> None:
    columns = pa.schema([('a "source"', pa.string()), ('a "key"', pa.string())])
    layout = TargetLayout(columns, ('a "source"', 'a "key"'), 'a "source"')
    target = opened(general_backend)
    twice = 'it\'s "u"'
    target.write(write("p1", [("t", "a"), ("t", "b")], layout=layout, source="/lake/t", source_name="t"))
    rows: list[Row] = [(twice, "a"), (twice, "c"), (twice, "c")]
    target.write(write("p1", rows, layout=layout, source="/lake/u", source_name=twice))
    assert target.repeated_key("orders", "t") == ""
    assert target.repeated_key("orders", twice) == f'a "source"={twice}, a "key"=c'
    target.close()


@pytest.mark.parametrize("expected", [None, "p0"])
def test_unexpected_position_is_a_conflict(backend: Backend, expected: str | None) -> None:
    target = opened(backend)
    target.write(write("p1", [("a", 1, "x")]))
    with pytest.raises(TargetConflict):
        target.write(write("p2", [("b", 1, "x")], [("a", 1)], expected=expected))
    assert target.stored("orders").positions == {"/lake/orders": "p1"}  # type: ignore[union-attr]
    target.close()
    assert_rows(backend, [("a", 1, "x")])


def test_expected_position_of_a_table_that_does_not_exist_is_a_conflict(backend: Backend) -> None:
    target = opened(backend)
    with pytest.raises(TargetConflict):
        target.write(write("p2", expected="p1"))
    assert target.stored("orders") is None
    target.close()


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "opened again"])
def test_table_that_someone_dropped_is_loaded_again(backend: Backend, is_open: bool) -> None:
    target = opened(backend)
    target.write(write("p1", [("a", 1, "x")]))
    target.write(write("p1", [("a", 1, "x")], table="other"))
    target.write(write("p2", [("b", 1, "x")], [("a", 1)], expected="p1"))
    if not is_open:
        target.close()
        target = opened(backend)
    backend.drop("orders")
    assert target.stored("orders") is None
    with pytest.raises(TargetConflict):
        target.write(write("p3", [("c", 1, "x")], expected="p2"))
    target.write(write("p1", [("d", 1, "x")]))
    target.write(write("p2", [("e", 1, "x")], [("d", 1)], expected="p1"))
    assert target.stored("orders").positions == {"/lake/orders": "p2"}  # type: ignore[union-attr]
    assert target.stored("other").positions == {"/lake/orders": "p1"}  # type: ignore[union-attr]
    target.close()
    assert_rows(backend, [("e", 1, "x")])


def _failing(error: Exception) -> Iterator[pa.RecordBatch]:
    yield batch([("b", 1, "x")] * 5_000, COLUMNS)
    raise error


def test_error_of_the_rows_rolls_everything_back(backend: Backend) -> None:
    target = opened(backend)
    target.write(write("p1", [("a", 1, "x")]))
    wider = TargetLayout(pa.schema([*COLUMNS, pa.field("more", pa.int64())]), LAYOUT.key)
    change = followed("orders", LAYOUT, wider)
    failing = write("p2", [], [("a", 1)], expected="p1", layout=wider, change=change, base=LAYOUT)
    with pytest.raises(RuntimeError, match="the source failed"):
        target.write(replace(failing, rows=_failing(RuntimeError("the source failed"))))
    stored = target.stored("orders")
    assert stored is not None
    assert (stored.layout, stored.positions) == (LAYOUT, {"/lake/orders": "p1"})
    with pytest.raises(RuntimeError):
        target.write(replace(write("p1", table="other"), rows=_failing(RuntimeError())))
    assert target.stored("other") is None
    target.write(write("p2", [("c", 1, "x")], expected="p1"))
    target.close()
    assert_rows(backend, [("a", 1, "x"), ("c", 1, "x")])


def test_long_position_is_stored(backend: Backend) -> None:
    target, position = opened(backend), '{"\\u0000é\'"' + "x" * 100_000
    target.write(write(position))
    target.write(write("p2", expected=position))
    target.write(write(position, expected="p2"))
    target.close()
    again = opened(backend)
    assert again.stored("orders").positions == {"/lake/orders": position}  # type: ignore[union-attr]
    again.close()


NAMES = ["o\"r'd;--", "ünï 表", "Order", "select", "a.b", "x" * 60, " space ", "%s{0}$1"]


def test_names_are_kept(general_backend: Backend) -> None:
    target, layouts = opened(general_backend), dict[str, TargetLayout]()
    for name in NAMES:
        columns = pa.schema([(name, pa.string()), (f"{name[:50]}_n", pa.int64())])
        if set(name) & set(general_backend.refused):
            with pytest.raises(ConfigurationError, match="name"):
                target.check_columns(name, columns)
            columns = pa.schema([("k", pa.string()), ("n", pa.int64())])
        layout = layouts[name] = TargetLayout(columns, (columns.names[0],))
        target.check_columns(name, columns)
        target.write(write("p1", [("a", 1), ("b", 2)], layout=layout, table=name, source=f"/{name}"))
        target.write(write("p2", [("b", 3)], [("b",)], layout=layout, table=name, source=f"/{name}", expected="p1"))
    for name, layout in layouts.items():
        stored = target.stored(name)
        assert stored is not None
        assert (stored.layout, stored.positions) == (layout, {f"/{name}": "p2"})
    target.close()
    for name, layout in layouts.items():
        assert_rows(general_backend, [("a", 1), ("b", 3)], layout.columns, name)
