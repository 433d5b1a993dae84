"""A topic becomes a table by `penstock sync`, whose changes become a table of windows by `penstock.spark.sink`: the two
steps of docs/guides/topic-to-table.md. Real Hudi reads both tables."""

from __future__ import annotations

import datetime as dt
import pathlib
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import pytest

import penstock
from tests.interop.test_flows import HOURS, Rows, changes_of, rows_of, write_hours
from tests.interop.test_sync_to_hudi import sync
from tests.unit.engine.sync.topics.debezium_events import Events, simulated_events, value_schema

pytestmark = [pytest.mark.interop, pytest.mark.spark]

TOPIC: Final = "shop.public.orders"
HOUR_US: Final = 3600 * 1_000_000


@pytest.fixture
def events() -> Iterator[Events]:
    """A topic of orders with an event time, on simulated brokers."""
    with simulated_events() as simulated:
        simulated.schema = value_schema(at="int64", amount="int64")
        yield simulated


def change_orders(events: Events, rng: random.Random, number: int) -> None:
    """Orders of later and later hours; some of the earlier ones move to another hour, or are deleted."""
    for key in rng.sample(sorted(events.rows.get(TOPIC, {})), 6 if number else 0):
        if key % 2:
            events.delete(TOPIC, key)
        else:
            events.upsert(TOPIC, {"id": key, "at": rng.randrange(4 * HOUR_US), "amount": rng.randrange(100)})
    for key in range(20 * number, 20 * (number + 1)):
        at = key // 4 * HOUR_US + rng.randrange(HOUR_US)
        events.upsert(TOPIC, {"id": key, "at": at, "amount": rng.randrange(100)})
    assert events.producer.flush(60) == 0


def expected(events: Events) -> Rows:
    """Orders and amount of each hour, from the rows of the topic."""
    orders: Counter[int] = Counter()
    amounts: Counter[int] = Counter()
    for row in events.rows[TOPIC].values():
        orders[row["at"] // HOUR_US] += 1
        amounts[row["at"] // HOUR_US] += row["amount"]
    first = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    return {f"{first + dt.timedelta(hours=hour):%Y-%m-%d %H}": (orders[hour], amounts[hour]) for hour in orders}


def test_topic_becomes_windows(spark: Any, hudi: Any, events: Events, tmp_path: pathlib.Path) -> None:
    from pyspark.sql import functions as F

    rng, lake, hours = random.Random(3), tmp_path / "lake", tmp_path / "hours"
    penstock.create_table(str(hours), HOURS, record_key="hour", buckets=1)
    for number in range(3):
        change_orders(events, rng, number)
        sync(events, lake)
        changes = changes_of(spark, str(lake / "orders")).withColumn("at", F.timestamp_micros("at"))
        write_hours(changes, hours)
        assert rows_of(penstock.read(str(hours)).read_all(), HOURS) == expected(events)
    assert hudi.read(lake / "orders").num_rows == len(events.rows[TOPIC]) < 60
    assert rows_of(hudi.read(hours), HOURS) == expected(events)
