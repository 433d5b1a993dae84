"""Tumbling windows in Spark across the hand-over: each micro-batch carries the watermark of the reference model of
tests/streaming, windows are emitted at the model's times with its contents, and no row of the topic is late."""

from __future__ import annotations

import json
import pathlib
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.spark import with_source_watermark
from tests.hybrid.lake_rounds import Kind, LakeFiller, WritePath
from tests.hybrid.topic_records import COLUMNS, TopicProducer, ends, make_topic, read_topic
from tests.streaming import reference_model as model
from tests.streaming.driven import Driven, Live
from tests.streaming.operators import as_rows

pytestmark = [pytest.mark.timeout(900), pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

SECOND_US = 1_000_000
ALLOWED_MS = 400
AT, N, REGION = (COLUMNS.index(name) for name in ("at", "n", "region"))


@dataclass(frozen=True, slots=True)
class Leg:
    """A micro-batch: its rows by partition of the topic, partitions with unread records, and its watermark."""

    rows: dict[int, list[model.Row]]
    unfinished: tuple[int, ...]
    at_us: int | None

    def slices(self) -> list[model.Slice]:
        """The lowest and highest event time of each partition."""
        return [model.Slice(min(map(_at, rows)), max(map(_at, rows))) for rows in self.rows.values() if rows]


class Across(Driven):
    """A stream that continues in the topic."""

    def reach(self, offsets: dict[int, int]) -> None:
        """Waits until the topic was read up to these offsets and no work is left."""
        self._wait(lambda: self.last() >= 0 and self.offsets(self.last())[1] == offsets)
        assert self._query is not None
        self._query.processAllAvailable()

    def offsets(self, batch: int) -> tuple[dict[int, int], dict[int, int]]:
        """After a micro-batch: per partition the hand-over offset and the next offset; {} before the hand-over."""
        place = self._log_entry(batch)["kafka"]
        if place is None:
            return {}, {}
        return dict(place["starts"]), {partition: unfinished for partition, unfinished, *_ in place["places"]}

    def legs(self, rows: dict[int, dict[int, model.Row]]) -> Iterator[Leg]:  # type: ignore[override]
        """Every micro-batch; `rows` are the rows of the topic by partition and offset."""
        starts = self.offsets(self.last())[0]
        before = dict.fromkeys(starts, 0)
        for batch in range(self.last() + 1):
            log = self._log_entry(batch)
            after = self.offsets(batch)[1] or (before if log["content"]["kind"] == "none" else starts)
            rows_by_partition = {
                partition: [row for offset, row in of.items() if before[partition] <= offset < after[partition]]
                for partition, of in rows.items()
            }
            unfinished = [partition for partition, *_, more in (log["kafka"] or {"places": []})["places"] if more]
            yield Leg(rows_by_partition, tuple(unfinished), log["watermark_us"])
            before = after

    def _log_entry(self, batch: int) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self._log(batch)[2])
        return content


def windows(spark: SparkSession, rows: DataFrame) -> DataFrame:
    """The query of a user."""
    window = F.window("at", "1 second").alias("w")
    grouped = with_source_watermark(rows, "at").groupBy(window, "region")
    return grouped.agg(F.sort_array(F.collect_list("n")).alias("n")).select(F.unix_micros("w.start"), "region", "n")


def planned(legs: Sequence[Leg]) -> Iterator[model.Planned]:
    """The micro-batches with rows: a partition with more records may return rows as late as allowed."""
    delivered: list[model.Slice] = []
    highs: dict[int, int] = defaultdict(int)
    for leg in legs:
        delivered += leg.slices()
        for partition, rows in leg.rows.items():
            highs[partition] = max([highs[partition], *map(_at, rows)])
        coming = [model.Slice(highs[partition] - ALLOWED_MS * 1000 + 1, None) for partition in leg.unfinished]
        yield model.Planned(list(delivered), coming)


@pytest.mark.long
def test_windows_across_the_hand_over(spark: Any, hudi: Any, kafka: Any, tmp_path: pathlib.Path) -> None:
    topic, rng = "windows.across", random.Random(11)
    make_topic(kafka.bootstrap, topic)
    producer = TopicProducer(kafka.bootstrap, topic, rng, deletes=False)
    filler = LakeFiller(hudi, tmp_path, kafka.bootstrap, topic, rng, kind=Kind.APPEND, write_path=WritePath.SINK)
    producer.begin(350)
    filler.begin(1)
    producer.begin(170)
    options = {
        "hybrid": "append",
        "kafka.topic": topic,
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafkaCheckpoint": str(filler.checkpoint),
        "eventTime": "at",
        "maxOutOfOrderness": f"{ALLOWED_MS} ms",
        "metadata": "off",
    }
    across = Across(spark, [Live(filler.table)], windows, tmp_path, [options])
    across.start()
    try:
        across.reach(ends(kafka.bootstrap, topic))
        producer.begin(230)
        across.reach(ends(kafka.bootstrap, topic))
        across.restart()
        for count in (90, 310):
            producer.begin(count)
            across.reach(ends(kafka.bootstrap, topic))
    finally:
        across.stop()
    rows: dict[int, dict[int, model.Row]] = defaultdict(dict)
    for record in read_topic(kafka.bootstrap, topic):
        if (row := record.row()) is not None:
            at_us = round(row[AT].timestamp() * 1000) * 1000
            rows[record.partition][record.offset] = model.Row(record.key, at_us, row[REGION], row[N])
    legs = list(across.legs(rows))
    _check(across, legs)
    assert across.offsets(across.last())[0] == filler.hand_overs[-1]
    emitted = [n for table in across.sink.tables.values() for *_, of in as_rows(table) for n in of]
    of_topic = [row.n for of in rows.values() for row in of.values()]
    assert len(emitted) == len(set(emitted)) and set(emitted) <= set(of_topic)
    assert len(emitted) > 0.9 * len(of_topic) - 100


def _check(across: Across, legs: Sequence[Leg]) -> None:
    with_rows = [leg for leg in legs if any(leg.rows.values())]
    assert [leg.at_us for leg in with_rows] == model.watermarks(planned(with_rows), ALLOWED_MS * 1000)
    micros = [
        model.Micro(
            rows=([row for of in leg.rows.values() for row in of],),
            brought=(leg.at_us if any(leg.rows.values()) else None,),
            restarted=batch in across.restarts,
        )
        for batch, leg in enumerate(legs)
    ]
    steps = model.engine([*micros, model.Micro(([],), (None,))])
    assert [across.evicted_at_ms(batch) for batch in range(len(legs))] == [step.evict // 1000 for step in steps[:-1]]
    for batch, (emitted, dropped) in enumerate(model.windows(steps[:-1], SECOND_US, SECOND_US)):
        assert as_rows(across.sink.tables[batch]) == emitted, batch
        assert dropped == across.dropped.get(batch, 0) == 0, batch


def _at(row: model.Row) -> int:
    assert row.ts is not None
    return row.ts
