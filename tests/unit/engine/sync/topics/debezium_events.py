"""Tables whose changes are Debezium's events in topics."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

KEY = {"type": "struct", "fields": [{"type": "int64", "optional": False, "field": "id"}]}


def value_schema(**columns: str) -> dict[str, Any]:
    """The schema of an event of a table with the key `id` and these columns."""
    fields = [{"type": kind, "optional": True, "field": name} for name, kind in {"id": "int64", **columns}.items()]
    image = {"type": "struct", "optional": True, "fields": fields}
    return {
        "type": "struct",
        "fields": [{**image, "field": "before"}, {**image, "field": "after"}, {"type": "string", "field": "op"}],
    }


@contextlib.contextmanager
def simulated_events() -> Iterator[Events]:
    """Topics on brokers that librdkafka simulates in the process while the block runs."""
    from confluent_kafka import Producer

    settings = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "partitioner": "murmur2", "log_level": 2}
    producer: Any = Producer(settings)
    brokers = producer.list_topics(timeout=60).brokers.values()
    yield Events(producer, ",".join(f"{one.host}:{one.port}" for one in brokers))
    producer.flush(10)


@dataclass
class Events:
    """Writes events, and knows the rows of each table after them."""

    producer: Any
    """A producer."""
    brokers: str
    """The brokers' addresses."""
    rows: dict[str, dict[int, dict[str, Any]]] = field(default_factory=dict)
    """The rows of each topic by key."""
    schema: dict[str, Any] = field(default_factory=lambda: value_schema(name="string", amount="int32"))
    """The schema of the next events."""

    def upsert(self, topic: str, row: Mapping[str, Any]) -> None:
        """Inserts or updates a row."""
        own = self.rows.setdefault(topic, {})
        before = own.get(row["id"])
        own[row["id"]] = dict(row)
        self._send(topic, row["id"], {"op": "u" if before else "c", "before": before, "after": dict(row)})

    def delete(self, topic: str, key: int) -> None:
        """Deletes a row: an event and a tombstone."""
        before = self.rows[topic].pop(key)
        self._send(topic, key, {"op": "d", "before": before, "after": None})
        self._send(topic, key, None)

    def random_changes(self, topic: str, rng: random.Random, count: int) -> None:
        """Changes of few keys, so that most keys change several times; some updates change the key."""
        for _ in range(count):
            key = rng.randrange(12)
            if key in self.rows.get(topic, {}) and rng.random() < 0.4:
                self.delete(topic, key)
                key += 100 * rng.randrange(2)
            self.upsert(topic, {"id": key, "name": f"n{rng.randrange(99)}", "amount": rng.randrange(1000)})
        assert self.producer.flush(60) == 0

    def _send(self, topic: str, key: int, payload: dict[str, Any] | None) -> None:
        value = (
            None if payload is None else json.dumps({"schema": self.schema, "payload": payload}, separators=(",", ":"))
        )
        text = json.dumps({"schema": KEY, "payload": {"id": key}})
        self.producer.produce(topic, key=text, value=value)
        self.producer.poll(0)
