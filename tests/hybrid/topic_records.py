"""A topic for a run: its creation, a seeded producer that runs until stopped, and its records read back.

`lake_rounds` writes the topic into a table, `topic_fold` compares. This module never imports `penstock`.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.progress import PROGRESS_S

PARTITIONS: Final = 3
KEYS: Final = 45
REGIONS: Final = ("eu", "us", "ap")
FIRST_MS: Final = int(time.time() - 600) * 1000
"""Close to now: a killed broker forgets a producer whose records are older than a day, and then accepts records twice
that it stored but did not acknowledge."""
QUIET: Final[Mapping[str, Any]] = {"log_level": 0}
"""Suppresses librdkafka's errors about brokers that were killed on purpose."""
KEEPS_ALL: Final = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}

COLUMNS: Final = ("id", "region", "ts", "n", "at", "amount", "note")
Row = tuple[Any, ...]
"""Values of COLUMNS. `n` is unique per record; `ts` in milliseconds orders the records of a key; `at` is the same time
as a timestamp."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the topic."""

    partition: int
    offset: int
    key: str
    value: bytes | None

    def row(self) -> Row | None:
        """The row of its key; None if the record deletes the key."""
        fields = json.loads(self.value) if self.value is not None else {"_hoodie_is_deleted": True}
        if fields.get("_hoodie_is_deleted"):
            return None
        return tuple(dt.datetime.fromisoformat(fields[n]) if n == "at" else fields.get(n) for n in COLUMNS)


def make_topic(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    """Creates a topic that retains all of its records, for all timestamps."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    new = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=KEEPS_ALL)
    admin.create_topics([new])[topic].result(PROGRESS_S)


def ends(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> dict[int, int]:
    """The offset after the last committed record of each partition; KafkaException while the broker is unreachable."""
    consumer = _reader(bootstrap)
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=5)[1]
            for number in range(partitions)
        }
    finally:
        consumer.close()


def read_topic(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> list[Record]:
    """Every committed record, by partition and offset."""
    consumer, left, records = _reader(bootstrap), set(range(partitions)), list[Record]()
    give_up = time.monotonic() + PROGRESS_S
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        while left:
            assert time.monotonic() < give_up, f"{topic}: partitions {sorted(left)} were not read to their end"
            for message in consumer.consume(1000, timeout=0.2):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition())
                elif error is not None:
                    raise KafkaException(error)
                else:
                    key = (message.key() or b"").decode()
                    records.append(Record(message.partition(), message.offset(), key, message.value()))
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))


class TopicProducer(threading.Thread):
    """Sends records until stopped; `failure` is its error.

    `deletes`: records of a key replace one another, some are late, some delete their key by a tombstone or by a delete
    marker; neither a delete nor the record after it is late. Otherwise each record has its own row, with an occasional
    tombstone without effect. `tombstones`: with tombstones; otherwise a delete marker deletes. `transactions`: in
    transactions, some of them aborted; `idle`: a partition without records at first.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        rng: random.Random,
        *,
        deletes: bool,
        tombstones: bool = True,
        transactions: bool = False,
        idle: int | None = None,
    ) -> None:
        super().__init__(name=f"producer-{topic}", daemon=True)
        self._topic, self._rng, self._deletes, self._idle = topic, rng, deletes, idle
        self._tombstones, self._is_transactional = tombstones, transactions
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, **QUIET}
        if transactions:
            settings["transactional.id"] = topic
        self._producer = Producer({**settings, "message.timeout.ms": 100_000, "transaction.timeout.ms": 120_000})
        self._stop_requested = threading.Event()
        self._sent = 0
        self._floor: dict[str, int] = {}
        self._used: dict[str, set[int]] = defaultdict(set)
        self.failure: BaseException | None = None
        self.closing: set[int] = set()
        """`n` of the last record of each partition, after the end."""

    def begin(self, records: int) -> None:
        """Sends records in the caller's thread, before `run`."""
        if self._is_transactional and not self._sent:
            self._producer.init_transactions(PROGRESS_S)
        self._burst(records)

    def run(self) -> None:
        """Sends bursts with a pause after each, and finally a record for each partition."""
        try:
            while not self._stop_requested.wait(self._rng.uniform(0.05, 0.3)):
                self._burst(self._rng.randrange(1, 30))
            self._idle = None
            self._in_transaction(self._close)
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self.failure = error

    def wake_idle(self) -> None:
        """From now on the idle partition gets records too."""
        self._idle = None

    def request_stop(self) -> None:
        """Stops after the current burst."""
        self._stop_requested.set()

    def _burst(self, count: int) -> None:
        aborts = self._is_transactional and self._sent > 0 and self._rng.random() < 0.2  # but not the first one
        self._in_transaction(lambda: [self._one(is_real=not aborts) for _ in range(count)], aborts)

    def _in_transaction(self, send: Callable[[], object], aborts: bool = False) -> None:
        """Runs `send` and waits for the acknowledgements; in one transaction if the producer is transactional."""
        if not self._is_transactional:
            send()
            assert self._producer.flush(PROGRESS_S) == 0, "records were not acknowledged in time"
            return
        self._producer.begin_transaction()
        send()
        if aborts:
            self._producer.flush(PROGRESS_S)
            self._again(self._producer.abort_transaction)
            return
        try:
            self._again(self._producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._again(self._producer.abort_transaction)  # the records are not in the topic, and were not counted
            if self._stop_requested.is_set():
                self.closing.clear()
                self._in_transaction(send)

    def _again(self, step: Callable[[float], object]) -> None:
        for attempt in range(5):
            try:
                step(PROGRESS_S)
                return
            except KafkaException as error:
                if attempt == 4 or not error.args[0].retriable():
                    raise

    def _one(self, *, is_real: bool) -> None:
        """Sends a record; if not `is_real`, it is aborted, and its `n` would reveal it."""
        number = self._rng.randrange(KEYS)
        while number % PARTITIONS == self._idle:
            number = self._rng.randrange(KEYS)
        key = key_of(number)
        draw = self._rng.random()
        if not is_real:
            self._put(number, FIRST_MS + 10**9, -self._next())
        elif draw < 0.1 and (not self._deletes or self._used[key]):
            self._remove(number, has_value=self._deletes and (draw < 0.05 or not self._tombstones))
        elif draw < 0.25 and self._deletes:
            self._put(number, self._late(key), self._next())
        else:
            self._put(number, self._now(), self._next())

    def _now(self) -> int:
        """A time after every delete so far."""
        return FIRST_MS + 10 * self._sent + 5

    def _late(self, key: str) -> int:
        """An unused time after the last delete of the key; the current time if no draw is one."""
        for _ in range(20):
            at = self._now() - self._rng.randrange(1, 900)
            if at > self._floor.get(key, 0) and at not in self._used[key]:
                return at
        return self._now()

    def _put(self, number: int, ts: int, n: int) -> None:
        key = key_of(number)
        fields: dict[str, Any] = {"id": key, "region": region_of(number), "ts": ts, "n": n}
        fields["at"] = dt.datetime.fromtimestamp(ts / 1000, dt.UTC).isoformat(timespec="milliseconds")
        fields["amount"] = round(self._rng.uniform(-1e6, 1e6), 2)
        if self._rng.random() < 0.7:
            fields["note"] = self._rng.choice((None, "", "plain", 'Zoë said "no" \\ 東京', "line\nbreak"))
        if self._rng.random() < 0.2:
            fields["unknown_field"] = {"deep": [1, 2, {"er": None}]}
        self._used[key].add(ts)
        self._send(number, ts, json.dumps(fields, ensure_ascii=self._rng.random() < 0.5).encode())

    def _remove(self, number: int, *, has_value: bool) -> None:
        """Deletes a key. The timestamp of the record orders a tombstone."""
        key, ts = key_of(number), FIRST_MS + 10 * self._next()
        self._floor[key], self._used[key] = ts, set()
        fields = {"id": key, "region": region_of(number), "ts": ts, "_hoodie_is_deleted": True}
        self._send(number, ts, json.dumps(fields).encode() if has_value else None)

    def _close(self) -> None:
        for partition in range(PARTITIONS):
            self.closing.add(n := self._next())
            self._put(partition, self._now(), n)

    def _next(self) -> int:
        self._sent += 1
        return self._sent

    def _send(self, number: int, ts: int, value: bytes | None) -> None:
        key = key_of(number).encode()
        while True:
            try:
                self._producer.produce(self._topic, value, key, partition=number % PARTITIONS, timestamp=ts)
                return
            except BufferError:
                self._producer.poll(0.1)


def key_of(number: int) -> str:
    """A record key, which determines its region and partition."""
    return f"{region_of(number)}-{number:03d}"


def region_of(number: int) -> str:
    """The region of a key; each region has keys of all partitions."""
    return REGIONS[number // PARTITIONS % len(REGIONS)]


def _reader(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "truth",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            **QUIET,
        }
    )
