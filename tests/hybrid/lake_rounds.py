"""Real Hudi, or `penstock.spark.sink`, writes a topic into a table in rounds while the topic receives more records.

A filler chooses the writer and the records of each round, and reports the offsets of each commit. `topic_records`
writes the topic, `hybrid_harness` reads the table meanwhile.
"""

from __future__ import annotations

import json
import pathlib
import random
import threading
import time
from collections import Counter
from enum import StrEnum
from typing import Any, Final

from confluent_kafka import KafkaException

from tests.hybrid import penstock_sink
from tests.hybrid.hoodie_streamer import HoodieStreamer, StreamerJob
from tests.hybrid.penstock_sink import PenstockSink
from tests.hybrid.topic_records import PARTITIONS, ends

FIELDS: Final = (
    "id string, region string, ts bigint, n bigint, at timestamp, amount double, note string, "
    "_hoodie_is_deleted boolean"
)
OPTIONS: Final = {
    "hoodie.write.table.version": "9",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.index.type": "SIMPLE",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.write.markers.type": "DIRECT",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.datasource.write.streaming.retry.count": "1",
    **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
}
UPSERTS: Final = {
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
}
UPSERT_COLUMNS: Final = (
    "k AS id",
    "coalesce(v.region, split(k, '-')[0]) AS region",
    "CASE WHEN has_value THEN v.ts ELSE at_ms END AS ts",
    *(f"v.{name} AS {name}" for name in ("n", "at", "amount", "note")),
    "NOT has_value OR coalesce(v._hoodie_is_deleted, false) AS _hoodie_is_deleted",
)
"""A tombstone has neither region nor time: they come from the key and the timestamp of the record."""
APPEND_COLUMNS: Final = tuple(f"v.{name} AS {name}" for name in ("id", "region", "ts", "n", "at", "amount", "note"))
NOT_OF_STREAMER: Final = ("hoodie.write.table.version", "hoodie.compact.inline")
"""The Streamer has its own table version, and an argument for compaction."""
COMPACTS: Final = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
WAITS_S: Final = 120.0


class Kind(StrEnum):
    """The content of the table: the latest row of each key, or a row for each record."""

    UPSERT = "upsert"
    APPEND = "append"


class WritePath(StrEnum):
    """STREAMER: a Spark batch for each round, with the Streamer's key in its commit. SINK: Spark's streaming sink.
    HOODIE_STREAMER: the Streamer itself (0.14.0), into version 6. It supports neither tombstones, which it skips, nor
    transactions, for whose end it waits forever. PENSTOCK: `penstock.spark.sink`, with the offsets in its commits."""

    STREAMER = "streamer"
    SINK = "sink"
    HOODIE_STREAMER = "hoodie-streamer"
    PENSTOCK = "penstock"


class LakeFiller(threading.Thread):
    """Writes rounds until stopped. Only its thread calls Hudi meanwhile; `failure` is its error.

    `hand_overs`: for each committed round the next offset to read by partition; for a sink one per micro-batch.
    `streamer`: HOODIE_STREAMER uses it instead of `hudi`; `sink`: PENSTOCK does.
    """

    def __init__(
        self,
        hudi: Any,
        folder: pathlib.Path,
        bootstrap: str,
        topic: str,
        rng: random.Random,
        *,
        kind: Kind,
        write_path: WritePath,
        streamer: HoodieStreamer | None = None,
        sink: PenstockSink | None = None,
    ) -> None:
        super().__init__(name=f"filler-{topic}", daemon=True)
        self._hudi, self._brokers, self._topic, self._rng = hudi, bootstrap, topic, rng
        self.kind, self.write_path = kind, write_path
        self.table, self.checkpoint = folder / "table", folder / "sink"
        self._upto = dict.fromkeys(range(PARTITIONS), 0)
        self._type = "MERGE_ON_READ" if kind is Kind.UPSERT or rng.random() < 0.5 else "COPY_ON_WRITE"
        self._compacts = kind is Kind.UPSERT and rng.random() < 0.5
        operations = ("insert",) if write_path is WritePath.SINK else ("bulk_insert", "insert")
        """The sink of 1.2.0 fails in a query's second micro-batch of bulk inserts."""
        operation = rng.choice(operations)
        self._operation = "upsert" if kind is Kind.UPSERT else operation
        self._job = self._job_of(streamer, folder) if streamer is not None else None
        self._sink = sink
        self._sink_arguments: dict[str, Any] = {}
        if sink is not None:
            self._sink_arguments = penstock_sink.create_table(self.table, rng, upserts=kind is Kind.UPSERT)
        self._stop_requested = threading.Event()
        self.hand_overs: list[dict[int, int]] = []
        self.happened: Counter[str] = Counter()
        self.failure: BaseException | None = None

    def begin(self, rounds: int) -> None:
        """Writes the first rounds in the caller's thread: then the table exists, with a hand-over point."""
        for _ in range(rounds):
            self._round(within_s=0)

    def run(self) -> None:
        """Writes a round from time to time."""
        try:
            while not self._stop_requested.wait(self._rng.uniform(0.5, 3)):
                self._round(WAITS_S)
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def request_stop(self) -> None:
        """Stops after the current round."""
        self._stop_requested.set()

    def _round(self, within_s: float) -> None:
        """Writes one round; repeats it while the broker is unreachable. A failed attempt leaves no commit or a complete
        one."""
        give_up = time.monotonic() + within_s
        while True:
            before = self._commits()
            try:
                self._write_round()
            except (RuntimeError, KafkaException):
                self.happened["round failed"] += 1
                if time.monotonic() > give_up:
                    raise
                if self.write_path is WritePath.STREAMER and self._commits() > before:
                    raise
                time.sleep(0.2)
            else:
                self.happened["round"] += 1
                return

    def _write_round(self) -> None:
        match self.write_path:
            case WritePath.STREAMER:
                self._ranged()
            case WritePath.SINK:
                self._streamed()
            case WritePath.HOODIE_STREAMER:
                self._synced()
            case WritePath.PENSTOCK:
                self._written_by_penstock()

    def _ranged(self) -> None:
        """Writes the range from the end of the last round to an offset before the end of the topic."""
        rng = self._rng
        end = ends(self._brokers, self._topic)
        upto = {p: end[p] if rng.random() < 0.5 else rng.randint(self._upto[p], end[p]) for p in end}
        if not self.hand_overs:
            upto = end  # the first round must create the table
        if upto == self._upto:
            return
        offsets = ",".join(f"{p}:{offset}" for p, offset in sorted(upto.items()))
        stored = {
            "hoodie.datasource.write.commitmeta.key.prefix": "streamer.checkpoint",
            "streamer.checkpoint.key.v2": f"{self._topic},{offsets}",
        }
        self._hudi.write_range(self.table, begin=self._upto, end=upto, **self._request(stored))
        self._upto = upto
        self.hand_overs.append(upto)

    def _streamed(self) -> None:
        at_most = str(self._rng.choice((1000, 100_000)))
        self._hudi.run_sink(self.table, checkpoint=str(self.checkpoint), at_most=at_most, **self._request({}))
        self._read_checkpoint()

    def _written_by_penstock(self) -> None:
        assert self._sink is not None, "this write path needs a PenstockSink"
        at_most = str(self._rng.choice((1000, 100_000)))
        request = self._request({}) | {"sink": self._sink_arguments}
        self._sink.run_sink(self.table, checkpoint=str(self.checkpoint), at_most=at_most, **request)
        self._read_checkpoint()

    def _read_checkpoint(self) -> None:
        self.hand_overs = [self._of_batch(path) for path in sorted((self.checkpoint / "commits").glob("[0-9]*"))]

    def _synced(self) -> None:
        assert self._job is not None, "this write path needs a HoodieStreamer"
        self._job.run(at_most=self._rng.choice((50, 100_000)), compacts=self._compacts)
        self.hand_overs = self._job.hand_overs()

    def _job_of(self, streamer: HoodieStreamer, folder: pathlib.Path) -> StreamerJob:
        options = {name: value for name, value in (OPTIONS | COMPACTS).items() if name not in NOT_OF_STREAMER}
        return StreamerJob(
            streamer,
            folder,
            self.table,
            bootstrap=self._brokers,
            topic=self._topic,
            operation=self._operation.upper(),
            table_type=self._type,
            options=options,
        )

    def _of_batch(self, committed: pathlib.Path) -> dict[int, int]:
        """Reads the offset log of the micro-batch: its last line has the end offsets of each source."""
        offsets = json.loads((self.checkpoint / "offsets" / committed.name).read_text().splitlines()[-1])
        return {int(partition): offset for partition, offset in offsets[self._topic].items()}

    def _request(self, more: dict[str, str]) -> dict[str, Any]:
        options = {**OPTIONS, "hoodie.table.name": self._topic, **more}
        if self.kind is Kind.UPSERT:
            options |= UPSERTS | (COMPACTS if self._compacts else {})
        else:
            options |= {
                "hoodie.datasource.write.operation": self._operation,
                "hoodie.datasource.write.table.type": self._type,
            }
        return {
            "bootstrap": self._brokers,
            "topic": self._topic,
            "fields": FIELDS,
            "columns": UPSERT_COLUMNS if self.kind is Kind.UPSERT else APPEND_COLUMNS,
            "where": "true" if self.kind is Kind.UPSERT else "has_value",
            "options": options,
        }

    def _commits(self) -> int:
        timeline = self.table / ".hoodie" / "timeline"
        return len(list(timeline.glob("*.deltacommit")) + list(timeline.glob("*.commit")))
