"""The flows from tables into tables of docs/guides/tables-from-changes.md, with writers that go on meanwhile: a bulk
load that a stream continues, and two changelogs that become a table, whose changes become a copy and windows. Real Hudi
reads all of them."""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import penstock
import penstock.spark
from penstock.engine.cli.main import run as command_line

pytestmark = [pytest.mark.interop, pytest.mark.spark]

AT: Final = pa.timestamp("us", "UTC")
FIRST: Final = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
ORDERS: Final = pa.schema([("order_id", pa.int64()), ("at", AT)])
LINES: Final = pa.schema([("line_id", pa.int64()), ("order_id", pa.int64()), ("amount", pa.int64())])
TOTALS: Final = pa.schema([("order_id", pa.int64()), ("at", AT), ("lines", pa.int64()), ("amount", pa.int64())])
HOURS: Final = pa.schema([("hour", pa.string()), ("orders", pa.int64()), ("amount", pa.int64())])

Rows = dict[Any, tuple[Any, ...]]
"""The values of a table by key."""


class Shop:
    """Tables of orders and of their lines, and their rows."""

    def __init__(self, folder: pathlib.Path, rng: random.Random) -> None:
        self.orders, self.lines, self._rng = str(folder / "orders"), str(folder / "lines"), rng
        self.order_rows: Rows = {}
        self.line_rows: Rows = {}
        penstock.create_table(self.orders, ORDERS, record_key="order_id", buckets=2)
        penstock.create_table(self.lines, LINES, record_key="line_id", table_type="copy_on_write", buckets=2)

    def change(self, writes: int) -> None:
        """Writes upserts and deletes of few keys. Lines move between orders, and orders between hours."""
        rng = self._rng
        for _ in range(writes):
            if rng.random() < 0.4:
                orders = {rng.randrange(8): (FIRST + dt.timedelta(minutes=rng.randrange(240)),) for _ in range(3)}
                self._write(self.orders, ORDERS, self.order_rows, orders)
            else:
                lines = {rng.randrange(16): (rng.randrange(8), rng.randrange(100)) for _ in range(4)}
                self._write(self.lines, LINES, self.line_rows, lines)

    def _write(self, path: str, schema: pa.Schema, rows: Rows, changed: Rows) -> None:
        gone = [key for key in changed if self._rng.random() < 0.3]
        kept = {key: row for key, row in changed.items() if key not in gone}
        for keys, operation in ((list(kept), "upsert"), (gone, "delete")):
            data = [dict(zip(schema.names, (key, *changed[key]), strict=True)) for key in keys]
            if data:
                penstock.write(path, pa.Table.from_pylist(data, schema), operation)
        rows.update(kept)
        for key in gone:
            rows.pop(key, None)

    def totals(self) -> Rows:
        """The table of totals, from the rows."""
        lines, amounts = Counter[int](), Counter[int]()
        for order, amount in self.line_rows.values():
            lines[order] += 1
            amounts[order] += amount
        return {key: (at, lines[key], amounts[key]) for key, (at,) in self.order_rows.items() if lines[key]}

    def hours(self) -> Rows:
        """The table of windows, from the rows."""
        orders, amounts = Counter[str](), Counter[str]()
        for at, _, amount in self.totals().values():
            orders[f"{at:%Y-%m-%d %H}"] += 1
            amounts[f"{at:%Y-%m-%d %H}"] += amount
        return {hour: (orders[hour], amounts[hour]) for hour in orders}


def rows_of(table: pa.Table, schema: pa.Schema) -> Rows:
    """The rows by key; AssertionError if a key is repeated."""
    rows = {row[0]: row[1:] for row in zip(*(table[name].to_pylist() for name in schema.names), strict=True)}
    assert len(rows) == table.num_rows
    return rows


def run(df: Any, write: Callable[[Any, int], None], state: str, mode: str = "append") -> None:
    """Runs a query until it has read what is there."""
    query = df.writeStream.foreachBatch(write).outputMode(mode).option("checkpointLocation", state)
    query.trigger(availableNow=True).start().awaitTermination()


def changes_of(spark: Any, path: str, **options: str) -> Any:
    """The stream of the changes of a table."""
    return spark.readStream.format("penstock").options(query="cdc", **options).load(path)


def copy_changes(spark: Any, source: str, target: pathlib.Path, **options: str) -> None:
    """The changes of a table become rows of another one."""
    write = penstock.spark.sink(str(target), checkpoint=f"{target}-state")
    run(changes_of(spark, source, **options), write, f"{target}-state")


def write_totals(spark: Any, shop: Shop, totals: pathlib.Path, fails: Iterable[int] = ()) -> None:
    """The join of both tables, by the orders that a batch changes. In the batches `fails` the driver ends after the
    commit."""
    from pyspark.sql import functions as F

    state = f"{totals}-state"
    sink, left = penstock.spark.sink(str(totals), checkpoint=state), set(fails)

    def write(changes: Any, batch_id: int) -> None:
        orders, lines = (spark.read.format("penstock").load(path) for path in (shop.orders, shop.lines))
        joined = orders.join(lines, "order_id").groupBy("order_id", "at")
        sums = joined.agg(F.count("*").alias("lines"), F.sum("amount").alias("amount"))
        rows = changes.distinct().join(sums, "order_id", "left")
        sink(rows.withColumn("_hoodie_is_deleted", F.col("lines").isNull()), batch_id)
        if batch_id in left:
            raise RuntimeError("the driver was killed")

    orders, lines = (changes_of(spark, path).select("order_id") for path in (shop.orders, shop.lines))
    run(orders.union(lines), write, state)


def write_hours(changes: Any, hours: pathlib.Path) -> None:
    """Windows over the changes of a table."""
    from pyspark.sql import functions as F

    sign = F.when(F.col("_change_type").isin("+I", "+U"), 1).otherwise(-1)
    windows = changes.groupBy(F.window("at", "1 hour").alias("window"))
    sums = windows.agg(F.sum(sign).alias("orders"), F.sum(sign * F.col("amount")).alias("amount"))
    hour = F.date_format("window.start", "yyyy-MM-dd HH").alias("hour")
    rows = sums.select(hour, "orders", "amount", (F.col("orders") == 0).alias("_hoodie_is_deleted"))
    run(rows, penstock.spark.sink(str(hours), checkpoint=f"{hours}-state"), f"{hours}-state", "update")


def folded_by_hudi(hudi: Any, path: pathlib.Path) -> Rows:
    """The rows after all changes that real Hudi reads of a table with change logging."""
    newest = hudi.instants(path)[-1][0]
    rows: Rows = {}
    for change in sorted(hudi.changes(path, "000", newest).to_pylist(), key=lambda change: change["ts_ms"]):
        before, after = (json.loads(change[name]) if change[name] else None for name in ("before", "after"))
        rows.pop((before or after)["order_id"], None)
        if after is not None:
            rows[after["order_id"]] = (after["lines"], after["amount"])
    return rows


def check_ranges(hudi: Any, path: pathlib.Path, schema: pa.Schema) -> None:
    """Real Hudi and Penstock read equal rows of the second half of the commits."""
    instants = [one for one in penstock.open_table(str(path)).timeline() if one.completion_time]
    keys = sorted(str(one.order_key) for one in instants)
    middle, newest = keys[len(keys) // 2 - 1], keys[-1]
    ours = penstock.read(str(path), query="incremental", after=middle, upto=newest).read_all()
    assert ours.num_rows > 0 and rows_of(hudi.incremental(path, middle, newest), schema) == rows_of(ours, schema)


def test_stream_continues_a_bulk_load(
    spark: Any, hudi: Any, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop, target = Shop(tmp_path, random.Random(1)), tmp_path / "copy"
    penstock.create_table(str(target), LINES, record_key="line_id", buckets=2)
    shop.change(8)
    capsys.readouterr()
    assert command_line(["splits", "plan", shop.lines, "--format", "json"]) == 0
    position = json.loads(capsys.readouterr().out)["upto"]
    shop.change(4)
    loaded = penstock.spark.write(spark.read.format("penstock").load(shop.lines), str(target), "bulk_insert")
    assert loaded.inserted == len(shop.line_rows) > 0
    for _ in range(2):
        shop.change(4)
        copy_changes(spark, shop.lines, target, after=position)
        assert rows_of(penstock.read(str(target)).read_all(), LINES) == shop.line_rows
    assert rows_of(hudi.read(target), LINES) == shop.line_rows
    check_ranges(hudi, target, LINES)


@pytest.mark.long
def test_two_changelogs_become_a_table_with_windows(spark: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    shop = Shop(tmp_path, random.Random(2))
    totals, copy, hours = (tmp_path / name for name in ("totals", "copy", "hours"))
    logged = {"table_type": "copy_on_write", "change_logging": "data_before_after"}
    penstock.create_table(str(totals), TOTALS, record_key="order_id", buckets=2, **logged)
    penstock.create_table(str(copy), TOTALS, record_key="order_id", buckets=2)
    penstock.create_table(str(hours), HOURS, record_key="hour", buckets=1)
    for number in range(2):
        shop.change(6)
        if number:
            with pytest.raises(StreamingQueryException, match="the driver was killed"):
                write_totals(spark, shop, totals, fails=range(9))
            shop.change(4)
        write_totals(spark, shop, totals)
        assert rows_of(penstock.read(str(totals)).read_all(), TOTALS) == shop.totals(), number
        copy_changes(spark, str(totals), copy)
        write_hours(changes_of(spark, str(totals)), hours)
    for path, schema, rows in (
        (totals, TOTALS, shop.totals()),
        (copy, TOTALS, shop.totals()),
        (hours, HOURS, shop.hours()),
    ):
        assert rows_of(hudi.read(path), schema) == rows, path.name
    assert folded_by_hudi(hudi, totals) == {key: row[1:] for key, row in shop.totals().items()}
    check_ranges(hudi, copy, TOTALS)
