"""DuckDB as a target: types, changes of layouts, transactions, and files that cannot be used."""

from __future__ import annotations

import datetime
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.engine.sync.layout import LayoutChange, TargetLayout
from penstock.engine.sync.targets.duckdb import DuckDBTarget
from penstock.engine.sync.targets.duckdb_types import duckdb_type
from penstock.engine.sync.targets.target import Write
from penstock.proto.errors import ConfigurationError, TargetConflict, TargetUnavailable

UTC = datetime.UTC
MOMENT = datetime.datetime(1, 1, 1, 1, 2, 3, 123456, tzinfo=UTC)
LATE = datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.bool_(), [True, False]),
    (pa.int32(), [-(2**31), 2**31 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.float32(), [1.5, float("inf"), -0.0]),
    (pa.float64(), [1.1, float("-inf"), 5e-324]),
    (pa.string(), ["", "é\x00\U0001f600", "'\""]),
    (pa.binary(), [b"", b"\x00\xff"]),
    (pa.date32(), [MOMENT.date(), LATE.date()]),
    (pa.time64("us"), [datetime.time(0), LATE.time()]),
    (pa.timestamp("us"), [MOMENT.replace(tzinfo=None), LATE.replace(tzinfo=None)]),
    (pa.timestamp("us", "UTC"), [MOMENT, LATE]),
    (pa.decimal128(5, 2), [Decimal("-999.99"), Decimal("0.00")]),
    (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(-(10**38) + 1)]),
    (pa.decimal128(38, 38), [Decimal("0." + "9" * 38)]),
    (pa.list_(pa.field("element", pa.int8())), [[], [1, None, -128]]),
    (pa.map_(pa.string(), pa.int64()), [[], [("a", 1), ("b", None)]]),
    (pa.struct([("a", pa.int32()), ("B c", pa.string())]), [{"a": None, "B c": None}, {"a": 1, "B c": "x"}]),
    (
        pa.list_(pa.field("element", pa.struct([("m", pa.map_(pa.string(), pa.list_(pa.date32())))]))),
        [[{"m": [("x", [MOMENT.date(), None])]}, None]],
    ),
]
COLUMNS = pa.schema([("id", pa.int64()), ("v", pa.string())])
LAYOUT = TargetLayout(COLUMNS, ("id",))


@pytest.fixture
def target(tmp_path: pathlib.Path) -> Iterator[DuckDBTarget]:
    opened = DuckDBTarget(str(tmp_path / "copy.db"))
    yield opened
    opened.close()


def write_of(
    expected: str | None,
    position: str,
    rows: list[dict[str, Any]] | None = None,
    removed: list[dict[str, Any]] | None = None,
    change: LayoutChange | None = None,
    rows_from: Iterator[pa.RecordBatch] | None = None,
    **more: Any,
) -> Write:
    change = change or LayoutChange(LAYOUT)
    columns = change.layout.columns
    key = pa.schema([columns.field(name) for name in change.layout.key])
    return Write(
        **{
            "table": "t",
            "source": "/lake/t",
            "source_name": "t",
            "expected": expected,
            "position": position,
            "change": change,
            "rows": rows_from or iter(pa.Table.from_pylist(rows or [], columns).to_batches()),
            "removed": None if removed is None else pa.Table.from_pylist(removed, key),
            **more,
        }
    )


def rows_of(target: DuckDBTarget, table: str = "t") -> list[tuple[Any, ...]]:
    with target._cursor() as cursor:
        return cursor.execute(f'SELECT * FROM "{table}" ORDER BY ALL').fetchall()


def test_values_of_each_type(target: DuckDBTarget) -> None:
    """Written, and read back as Arrow: the same values, nulls among them. Each type is a column."""
    columns = pa.schema([("id", pa.int64()), *((f"v v{place}", type_) for place, (type_, _) in enumerate(VALUES))])
    most = max(len(values) for _, values in VALUES) + 1
    arrays = [pa.array([*values, *[None] * (most - len(values))], type_) for type_, values in VALUES]
    table = pa.Table.from_arrays([pa.array(range(most)), *arrays], schema=columns)
    target.check_columns("t", columns)
    change = LayoutChange(TargetLayout(columns, ("id",)))
    target.write(write_of(None, "1", change=change, rows=table.to_pylist()))
    with target._cursor() as cursor:
        cursor.execute("SET TimeZone = 'UTC'")
        back = cursor.sql("SELECT * FROM t ORDER BY id").to_arrow_table()
    for place, (type_, _) in enumerate(VALUES, 1):
        assert back.column(place).cast(type_).to_pylist() == table.column(place).to_pylist()
    assert target.types_of(columns)[1:] == [duckdb_type(type_) for type_, _ in VALUES]
    stored = target.stored("t")
    assert stored is not None and stored.layout == TargetLayout(columns, ("id",))


@pytest.mark.parametrize(
    "arrow_type",
    [
        pa.decimal256(40, 2),
        pa.struct([("a", pa.int32()), ("A", pa.int32())]),
        pa.list_(pa.decimal256(40, 2)),
        pa.null(),
    ],
    ids=str,
)
def test_types_that_do_not_exist_are_refused_before_anything_is_written(
    target: DuckDBTarget, arrow_type: pa.DataType, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(ConfigurationError, match=r"table t: column v: DuckDB has no type for"):
        target.check_columns("t", pa.schema([("v", arrow_type)]))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["_penstock_tables", "_PENSTOCK_positions", ""])
def test_names_of_own_tables_are_refused(target: DuckDBTarget, name: str) -> None:
    with pytest.raises(ConfigurationError, match="the name is one of Penstock's own"):
        target.check_columns(name, pa.schema([("id", pa.int64())]))


def test_columns_that_are_one_name(target: DuckDBTarget) -> None:
    with pytest.raises(ConfigurationError, match="columns a and A are one name"):
        target.check_columns("t", pa.schema([("a", pa.int32()), ("A", pa.int32())]))


def test_transactions(target: DuckDBTarget) -> None:
    assert target.stored("t") is None
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}, {"id": None, "v": "b"}, {"id": 2, "v": "c"}]))
    target.write(write_of("1", "2", [{"id": None, "v": "d"}], [{"id": 1}, {"id": None}, {"id": 7}]))
    assert rows_of(target) == [(2, "c"), (None, "d")]
    stored = target.stored("t")
    assert stored is not None and stored.positions == {"/lake/t": "2"}


def test_failed_transaction_leaves_nothing(target: DuckDBTarget) -> None:
    """The rows fail after the table was changed, rows were removed, and some were appended."""
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))

    def failing() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pylist([{"id": 5, "v": "x"}], COLUMNS)
        raise OSError("the source is gone")

    wider = TargetLayout(COLUMNS.append(pa.field("w", pa.int32())), ("id",))
    change = LayoutChange(wider, added=("w",))
    with pytest.raises(OSError, match="gone"):
        target.write(write_of("1", "2", removed=[{"id": 1}], change=change, base=LAYOUT, rows_from=failing()))
    assert rows_of(target) == [(1, "a")]
    stored = target.stored("t")
    assert stored is not None and stored.layout == LAYOUT and stored.positions == {"/lake/t": "1"}


def test_columns_are_added_and_widened_with_rows_in_one_transaction(target: DuckDBTarget) -> None:
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    columns = pa.schema([("id", pa.string()), ("v", pa.string()), ("w", pa.list_(pa.int32()))])
    change = LayoutChange(TargetLayout(columns, ("id",)), added=("w",), widened=("id",))
    target.write(write_of("1", "2", [{"id": "x", "v": "b", "w": [1]}], [{"id": "1"}], change, base=LAYOUT))
    assert rows_of(target) == [("x", "b", [1])]
    target.write(write_of("2", "3", [{"id": "1", "v": "c", "w": None}], change=LayoutChange(change.layout)))
    assert rows_of(target) == [("1", "c", None), ("x", "b", [1])]


WIDENINGS = [
    (pa.int32(), pa.int64(), [-1]),
    (pa.int32(), pa.float32(), [16_777_217]),
    (pa.int64(), pa.float64(), [2**53 + 1]),
    (pa.int64(), pa.string(), [-(2**63)]),
    (pa.date32(), pa.string(), [datetime.date(1, 1, 1), datetime.date(2026, 11, 23)]),
    (pa.decimal128(5, 2), pa.decimal128(7, 3), [Decimal("999.99")]),
]


@pytest.mark.parametrize(("old", "new", "values"), WIDENINGS, ids=[f"{old} to {new}" for old, new, _ in WIDENINGS])
def test_widened_values_are_those_of_the_reader(
    target: DuckDBTarget, old: pa.DataType, new: pa.DataType, values: list[Any]
) -> None:
    """Stored values become those that a read of the table with the new type gives."""
    columns = pa.schema([("id", pa.int64()), ("v", old)])
    layout = TargetLayout(columns, ("id",))
    target.write(
        write_of(None, "1", [{"id": n, "v": value} for n, value in enumerate(values)], change=LayoutChange(layout))
    )
    later = TargetLayout(pa.schema([("id", pa.int64()), ("v", new)]), ("id",))
    target.write(write_of("1", "2", change=LayoutChange(later, widened=("v",)), base=layout))
    expected = pa.array(values, old).cast(new, safe=False).to_pylist()
    assert [value for _, value in rows_of(target)] == expected


def test_position_of_another_process_is_a_conflict(target: DuckDBTarget) -> None:
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    for expected in (None, "0"):
        with pytest.raises(TargetConflict, match="table t: the position of source /lake/t is not the one"):
            target.write(write_of(expected, "2", [{"id": 2, "v": "b"}], replaces=True))
    assert rows_of(target) == [(1, "a")]


def test_replace(target: DuckDBTarget) -> None:
    """All rows, the columns and the positions of other sources."""
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    columns = pa.schema([("id", pa.int64())])
    change = LayoutChange(TargetLayout(columns, ("id",)))
    target.write(write_of(None, "5", change=change, replaces=True, source="/other"))
    stored = target.stored("t")
    assert rows_of(target) == [] and stored is not None
    assert stored.layout.columns == columns and stored.positions == {"/other": "5"}


def test_replace_of_one_source(target: DuckDBTarget) -> None:
    columns = pa.schema([("s", pa.string()), ("id", pa.int64())])
    change = LayoutChange(TargetLayout(columns, ("s", "id"), "s"))
    for name in ("a", "b"):
        rows = [{"s": name, "id": 1}]
        target.write(write_of(None, "1", rows, change=change, source=f"/{name}", source_name=name))
    target.write(write_of("1", "2", change=change, source="/a", source_name="a", replaces=True))
    assert rows_of(target) == [("b", 1)]
    stored = target.stored("t")
    assert stored is not None and stored.positions == {"/a": "2", "/b": "1"}


def test_table_of_someone_else(target: DuckDBTarget, tmp_path: pathlib.Path) -> None:
    with duckdb.connect(str(tmp_path / "copy.db")) as connection:
        connection.execute("CREATE TABLE T (a INTEGER)")
    with pytest.raises(ConfigurationError, match="table t exists, and no sync created it"):
        target.stored("t")
    with pytest.raises(ConfigurationError, match=r"table t: .*already exists"):
        target.write(write_of(None, "1"))
    target.write(write_of(None, "1", table="u"))
    with pytest.raises(ConfigurationError, match="table t exists"):
        target.stored("t")


def test_table_that_someone_changed(target: DuckDBTarget, tmp_path: pathlib.Path) -> None:
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    with target._cursor() as cursor:
        cursor.execute("ALTER TABLE t DROP COLUMN v")
    with pytest.raises(ConfigurationError, match="table t: "):
        target.write(write_of("1", "2", [{"id": 2, "v": "b"}]))
    assert rows_of(target) == [(1,)]


@pytest.mark.parametrize("type_", ["SMALLINT", "DOUBLE", "VARCHAR"])
def test_column_whose_type_someone_changed(target: DuckDBTarget, type_: str) -> None:
    """Another type would round values, or change them."""
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    with target._cursor() as cursor:
        cursor.execute(f"ALTER TABLE t ALTER COLUMN id SET DATA TYPE {type_}")
    with pytest.raises(ConfigurationError, match=f"table t: column id is {type_}, the sync created it as BIGINT"):
        target.write(write_of("1", "2", [{"id": 2, "v": "b"}]))
    assert len(rows_of(target)) == 1


def test_plan_creates_no_file(target: DuckDBTarget, tmp_path: pathlib.Path) -> None:
    assert target.stored("t") is None
    assert not list(tmp_path.iterdir())


def test_folder_that_does_not_exist_yet(tmp_path: pathlib.Path) -> None:
    target = DuckDBTarget(str(tmp_path / "later/copy.db"))
    with pytest.raises(TargetUnavailable, match="its folder does not exist"):
        target.write(write_of(None, "1"))
    (tmp_path / "later").mkdir()
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    assert rows_of(target) == [(1, "a")]
    target.close()


def test_file_that_is_no_database(tmp_path: pathlib.Path) -> None:
    (tmp_path / "copy.db").write_text("no database" * 1000)
    with pytest.raises((ConfigurationError, TargetUnavailable), match=r"target duckdb:///.*copy.db"):
        DuckDBTarget(str(tmp_path / "copy.db")).stored("t")


def test_file_that_was_replaced_is_opened_again(target: DuckDBTarget, tmp_path: pathlib.Path) -> None:
    """Rows that would go into a removed file are not reported as copied."""
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    for file in tmp_path.iterdir():
        file.unlink()
    with pytest.raises(TargetUnavailable, match="removed or replaced"):
        target.write(write_of("1", "2"))
    assert target.stored("t") is None
    target.write(write_of(None, "1", [{"id": 3, "v": "c"}]))
    assert rows_of(target) == [(3, "c")]


HOLDS = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


def test_file_that_another_process_has_open(target: DuckDBTarget, tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "copy.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin is not None and other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        with pytest.raises(TargetUnavailable, match="lock"):
            target.write(write_of(None, "1"))
        other.stdin.close()
        other.wait()
    target.write(write_of(None, "1", [{"id": 1, "v": "a"}]))
    assert rows_of(target) == [(1, "a")]


FULL = """
import resource, signal, sys
import pyarrow as pa
from penstock.engine.sync.layout import LayoutChange, TargetLayout
from penstock.engine.sync.targets.duckdb import DuckDBTarget
from penstock.engine.sync.targets.target import Write
from penstock.proto.errors import TargetUnavailable

target = DuckDBTarget(sys.argv[1])
columns = pa.schema([("id", pa.int64()), ("v", pa.binary())])
change = LayoutChange(TargetLayout(columns, ("id",)))

def write(expected, position, rows):
    import os
    batch = pa.RecordBatch.from_pylist([{"id": n, "v": os.urandom(1000)} for n in range(rows)], columns)
    target.write(Write(table="t", source="s", source_name="t", expected=expected, position=position, change=change,
                       rows=iter([batch])))

write(None, "1", 10)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, hard))
try:
    write("1", "2", 20_000)
except TargetUnavailable as error:
    print("unavailable", error, file=sys.stderr)
else:
    sys.exit("the disk was not full")
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
position = target.stored("t").positions["s"]
assert position == "1", position
write("1", "2", 20_000)
with target._cursor() as cursor:
    assert cursor.execute("SELECT count(*) FROM t").fetchall() == [(20_010,)]
print("equal")
"""


def test_full_disk_loses_nothing(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-P", "-c", FULL, str(tmp_path / "copy.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "equal\n", done.stderr[-2_000:]
