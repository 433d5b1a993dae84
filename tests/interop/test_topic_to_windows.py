"""A topic becomes a table by `penstock sync`, whose stream becomes a table of windows by `penstock.spark.sink`: the two
steps of docs/guides/topic-to-table.md. Real Hudi reads both tables."""

from __future__ import annotations

import datetime as dt
import pathlib
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pytest

import penstock
import penstock.spark
from tests.interop.test_sync_to_hudi import sync
from tests.unit.engine.sync.topics.debezium_events import Events, simulated_events, value_schema

pytestmark = [pytest.mark.interop, pytest.mark.spark]

TOPIC: Final = "shop.public.orders"
HOUR_US: Final = 3600 * 1_000_000
SCHEMA: Final = pa.schema([("hour", pa.string()), ("orders", pa.int64()), ("amount", pa.int64())])


@pytest.fixture
def events() -> Iterator[Events]:
    """A topic of orders with an event time, on simulated brokers."""
    with simulated_events() as simulated:
        simulated.schema = value_schema(at="int64", amount="int64")
        yield simulated


def add_orders(events: Events, rng: random.Random, numbers: range) -> None:
    """Orders of later and later hours."""
    for number in numbers:
        at = number // 4 * HOUR_US + rng.randrange(HOUR_US)
        events.upsert(TOPIC, {"id": number, "at": at, "amount": rng.randrange(100)})
    assert events.producer.flush(60) == 0


def start_windows(spark: Any, lake: pathlib.Path, folder: pathlib.Path) -> None:
    """Runs the query of the guide until it has read the table."""
    from pyspark.sql import functions as F

    orders = spark.readStream.format("penstock").load(str(lake / "orders"))
    orders = orders.select(F.timestamp_micros("at").alias("at"), "amount")
    windows = (
        orders.withWatermark("at", "10 minutes")
        .groupBy(F.window("at", "1 hour").alias("window"))
        .agg(F.count("*").alias("orders"), F.sum("amount").alias("amount"))
        .select(F.date_format("window.start", "yyyy-MM-dd HH").alias("hour"), "orders", "amount")
    )
    state = str(folder / "state")
    write = penstock.spark.sink(str(folder / "windows"), "upsert", checkpoint=state)
    query = windows.writeStream.foreachBatch(write).outputMode("update").option("checkpointLocation", state)
    query.trigger(availableNow=True).start().awaitTermination()


def expected(events: Events) -> dict[str, tuple[int, int]]:
    """Orders and amount of each hour, from the rows of the topic."""
    orders: Counter[int] = Counter()
    amounts: Counter[int] = Counter()
    for row in events.rows[TOPIC].values():
        orders[row["at"] // HOUR_US] += 1
        amounts[row["at"] // HOUR_US] += row["amount"]
    first = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return {f"{first + dt.timedelta(hours=hour):%Y-%m-%d %H}": (orders[hour], amounts[hour]) for hour in orders}


def windows_of(table: pa.Table) -> dict[str, tuple[int, int]]:
    rows = {row["hour"]: (row["orders"], row["amount"]) for row in table.to_pylist()}
    assert len(rows) == table.num_rows
    return rows


def test_topic_becomes_windows(spark: Any, hudi: Any, events: Events, tmp_path: pathlib.Path) -> None:
    rng, lake = random.Random(3), tmp_path / "lake"
    penstock.create_table(str(tmp_path / "windows"), SCHEMA, record_key="hour", buckets=1)
    for number in range(3):
        add_orders(events, rng, range(20 * number, 20 * (number + 1)))
        sync(events, lake)
        start_windows(spark, lake, tmp_path)
        assert windows_of(penstock.read(str(tmp_path / "windows")).read_all()) == expected(events)
    assert hudi.read(lake / "orders").num_rows == 60
    assert windows_of(hudi.read(tmp_path / "windows")) == expected(events)
