"""A consumer of confluent-kafka without brokers: logs of partitions, and errors at offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Failure:
    """An error of the client."""

    code: str

    def name(self) -> str:
        return self.code

    def str(self) -> str:
        return f"text of {self.code}"


@dataclass(frozen=True)
class Record:
    """A record, or an event of a partition."""

    log_topic: str
    number: int
    at: int
    log_key: bytes | None = None
    log_value: bytes | None = None
    failure: Failure | None = None

    def topic(self) -> str:
        return self.log_topic

    def partition(self) -> int:
        return self.number

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.log_key

    def value(self) -> bytes | None:
        return self.log_value

    def timestamp(self) -> tuple[int, int]:
        return (1, 0)

    def error(self) -> Failure | None:
        return self.failure


@dataclass
class ScriptedConsumer:
    """Returns the records of assigned partitions in order, partition after partition, then their end."""

    logs: dict[tuple[str, int], list[Record]] = field(default_factory=dict)
    failures: dict[tuple[str, int], str] = field(default_factory=dict)
    """The error of a partition."""
    assigned: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next offset of each assigned partition."""
    ended: set[tuple[str, int]] = field(default_factory=set)
    returned: list[tuple[str, int, int]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    most_assigned: int = 0
    is_silent: bool = False

    def write(self, topic: str, number: int, count: int, size: int = 1) -> None:
        """Appends records."""
        log = self.logs.setdefault((topic, number), [])
        log += [Record(topic, number, len(log) + one, b"k", b"v" * size) for one in range(count)]
        self.ended.discard((topic, number))

    def incremental_assign(self, places: Iterable[Any]) -> None:
        for one in places:
            assert (one.topic, one.partition) not in self.assigned
            self.assigned[one.topic, one.partition] = one.offset
            self.ended.discard((one.topic, one.partition))
        self.most_assigned = max(self.most_assigned, len(self.assigned))

    def incremental_unassign(self, places: Iterable[Any]) -> None:
        for one in places:
            del self.assigned[one.topic, one.partition]

    def consume(self, count: int, wait_s: float) -> list[Record]:
        messages: list[Record] = []
        for place, offset in self.assigned.items() if not self.is_silent else ():
            if place in self.failures:
                messages.append(Record(*place, offset, failure=Failure(self.failures[place])))
                continue
            records = [one for one in self.logs.get(place, []) if one.at >= offset][: count - len(messages)]
            messages += records
            self.returned += [(*place, one.at) for one in records]
            end = offset if not records else records[-1].at + 1
            self.assigned[place] = end
            if end == len(self.logs.get(place, [])) and place not in self.ended and len(messages) < count:
                self.ended.add(place)
                messages.append(Record(*place, end, failure=Failure("_PARTITION_EOF")))
        if not messages:
            self.waits.append(wait_s)
        return messages[:count]

    def close(self) -> None:
        """Nothing to release."""
