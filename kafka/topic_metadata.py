"""What a topic is now, asked of its brokers: `TopicMetadata` with confluent-kafka's admin client.

Every question has a patience: it is asked again while the brokers say nothing, or something that passes, and ends in
KafkaUnavailable. Nothing here reads records, and nothing is created or changed on the brokers.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import TimeoutError as NoAnswer
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeVar

from penstock.kafka.client import ErrorLog, NewClient, library, new_admin_client
from penstock.kafka.config import READ_COMMITTED, admin_config, checked_settings, isolation_level
from penstock.kafka.errors import GONE, STALE, ReportedError, permanent_error, unavailable_error
from penstock.kafka.protocols import PartitionOffsets, TopicDescription, TopicMetadata
from penstock.proto.errors import TopicGone
from penstock.proto.model.hybrid import ClientConfig, KafkaAccess

PATIENCE_S: Final = 15.0
FIRST_ATTEMPT_S: Final = 1.0
ATTEMPT_S: Final = 5.0
PAUSE_S: Final = 0.2
SURE_AFTER: Final = 3
"""A topic is gone when it is said so often in a row: a broker that has just started may not know it yet."""

CACHED_DOORS: Final = 16

_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""Topic id zero: brokers before 2.8 have none."""

_MOCK: Final = "mockCluster"
"""Cluster ids of librdkafka's mock brokers, which do not describe topics: no topic ids there."""

_NO_OFFSET: Final = -1
"""No record at or behind a time. Below it (-1001) nobody answered: so the client puts it, without an error, for a
partition whose leader has just gone."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """Of a partition: where its log starts, the end of what may be read, and the end of what is written."""

    log_start: int
    end: int
    written: int


@dataclass(frozen=True, slots=True)
class Look:
    """A topic's id ('' where the brokers have none) and the numbers of its partitions, ascending."""

    topic_id: str
    partitions: tuple[int, ...]


class KafkaTopics(TopicMetadata):
    """A `TopicMetadata` (there is what its methods promise). One admin client, made at the first question. Any
    thread."""

    def __init__(
        self,
        client: ClientConfig,
        *,
        patience_s: float = PATIENCE_S,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
        connect: NewClient = new_admin_client,
    ) -> None:
        settings = checked_settings(client)
        self._committed = isolation_level(settings) == READ_COMMITTED
        self._config = admin_config(client)
        self._patience_s, self._clock, self._pause, self._connect = patience_s, clock, pause, connect
        self._lock = threading.Lock()
        self._heard = ErrorLog(settings)
        self._admin: Any = None
        self._is_mock: bool | None = None

    def facts(self, topic: str) -> TopicDescription:
        """See `TopicMetadata.facts`."""
        look = self.look(topic)
        # The starts come first: retention in between would put them above the ends.
        starts = self._offsets(topic, look.partitions, "earliest", committed=False)
        ends = self._offsets(topic, look.partitions, "latest", committed=self._committed)
        written = self._offsets(topic, look.partitions, "latest", committed=False) if self._committed else ends
        partitions = {
            number: PartitionOffsets(
                log_start=starts[number][0], end=end, high_watermark=written[number][0], leader_epoch=epoch
            )
            for number, (end, epoch) in ends.items()
        }
        return TopicDescription(topic=topic, topic_id=look.topic_id, partitions=partitions)

    def offsets_at(self, topic: str, timestamp_ms: int) -> Mapping[int, int]:
        """See `TopicMetadata.offsets_at`."""
        # The ends come first: a record that arrives in between is behind them, or has its own answer.
        partitions = self.look(topic).partitions
        ends = self._offsets(topic, partitions, "latest", committed=self._committed)
        found = self._offsets(topic, partitions, timestamp_ms, committed=self._committed)
        return {number: at if at >= 0 else ends[number][0] for number, (at, _) in found.items()}

    def group_offsets(self, topic: str, group: str) -> Mapping[int, int]:
        """See `TopicMetadata.group_offsets`."""
        kafka = library()
        partitions = self.look(topic).partitions

        def question(admin: Any, seconds: float) -> dict[int, int]:
            wanted = [kafka.TopicPartition(topic, number) for number in partitions]
            request = [kafka.ConsumerGroupTopicPartitions(group, wanted)]
            (future,) = admin.list_consumer_group_offsets(request, request_timeout=seconds).values()
            found = self._answer(admin, future, seconds).topic_partitions
            for one in found:
                if one.error is not None:
                    raise kafka.KafkaException(one.error)
            return {one.partition: one.offset for one in found if one.offset >= 0}

        offsets = self._ask(f"asking for the offsets of consumer group {group!r}", question)
        return dict(sorted(offsets.items()))

    def look(self, topic: str, patience_s: float | None = None) -> Look:
        """What of the topic is there. TopicGone where it is not."""

        def question(admin: Any, seconds: float) -> Look:
            if self._mock(admin, seconds):
                return self._listed(admin, topic, seconds)
            (future,) = admin.describe_topics(library().TopicCollection([topic]), request_timeout=seconds).values()
            described = self._answer(admin, future, seconds)
            return Look(_topic_id(described.topic_id), tuple(sorted(one.id for one in described.partitions)))

        return self._ask(f"looking up topic {topic}", question, patience_s)

    def marks(self, topic: str, partition: int, patience_s: float | None = None) -> Marks:
        """Where a partition starts and ends now."""
        of = (partition,)
        start = self._offsets(topic, of, "earliest", committed=False, patience_s=patience_s)
        end = self._offsets(topic, of, "latest", committed=self._committed, patience_s=patience_s)
        written = self._offsets(topic, of, "latest", committed=False, patience_s=patience_s)
        return Marks(log_start=start[partition][0], end=end[partition][0], written=written[partition][0])

    def _offsets(
        self,
        topic: str,
        partitions: Sequence[int],
        at: str | int,
        *,
        committed: bool,
        patience_s: float | None = None,
    ) -> dict[int, tuple[int, int]]:
        """By partition (offset, leader epoch) at 'latest', 'earliest' or a time; -1: none, not told."""
        kafka = library()
        spec = kafka.admin.OffsetSpec
        place, lowest = (spec.for_timestamp(at), _NO_OFFSET) if isinstance(at, int) else (getattr(spec, at)(), 0)
        level = kafka.IsolationLevel.READ_COMMITTED if committed else kafka.IsolationLevel.READ_UNCOMMITTED

        def question(admin: Any, seconds: float) -> dict[int, tuple[int, int]]:
            wanted = {kafka.TopicPartition(topic, number): place for number in partitions}
            futures = admin.list_offsets(wanted, isolation_level=level, request_timeout=seconds)
            found = {one.partition: self._answer(admin, future, seconds) for one, future in futures.items()}
            if any(one.offset < lowest for one in found.values()):
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE))
            return {number: (found[number].offset, _epoch(found[number].leader_epoch)) for number in partitions}

        return self._ask(f"asking for the offsets of topic {topic}", question, patience_s) if partitions else {}

    def _mock(self, admin: Any, seconds: float) -> bool:
        is_mock = self._is_mock
        if is_mock is None:
            cluster = admin.cluster_id(timeout=seconds)
            if cluster is None:
                raise NoAnswer
            is_mock = self._is_mock = bool(cluster.startswith(_MOCK))
        return is_mock

    def _listed(self, admin: Any, topic: str, seconds: float) -> Look:
        found = admin.list_topics(timeout=seconds).topics.get(topic)
        if found is None or found.error is not None:
            kafka = library()
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART))
        return Look("", tuple(sorted(found.partitions)))

    def _ask(self, what: str, question: Callable[[Any, float], T], patience_s: float | None = None) -> T:
        kafka = library()
        patience = self._patience_s if patience_s is None else patience_s
        began, gone, attempt_s = self._clock(), 0, FIRST_ATTEMPT_S
        while True:
            left = patience - (self._clock() - began)
            admin = self._connected()
            admin.poll(0)
            try:
                answer = question(admin, max(min(left, attempt_s), 0.1))
            except kafka.KafkaException as error:
                said = self._heard.said(error.args[0])
            except NoAnswer:
                said = ReportedError("_TIMED_OUT", "no answer")
            else:
                self._heard.answered()
                return answer
            admin.poll(0)
            said = self._heard.denial or said
            end = permanent_error(said, what)
            gone = gone + 1 if said.name in GONE else 0
            if end is not None and (gone >= SURE_AFTER or not isinstance(end, TopicGone)):
                raise end
            if self._clock() - began >= patience:
                raise end or unavailable_error(self._heard.last or said, what, patience)
            if said.name in STALE:
                self._refresh(admin)
            self._pause(PAUSE_S)
            attempt_s = min(attempt_s * 2, ATTEMPT_S)

    def _answer(self, admin: Any, future: Any, seconds: float) -> Any:
        """The future's result; ends early when the brokers refuse who asks, which the future would not tell."""
        for _ in range(round((seconds + 1) / PAUSE_S)):
            try:
                return future.result(PAUSE_S)
            except NoAnswer:
                admin.poll(0)
                if self._heard.denial:
                    raise
        raise NoAnswer

    def _refresh(self, admin: Any) -> None:
        kafka = library()
        try:
            admin.list_topics(timeout=ATTEMPT_S)
        except kafka.KafkaException as error:
            self._heard(error.args[0])

    def _connected(self) -> Any:
        with self._lock:
            if self._admin is None:
                self._admin = self._connect(self._config, self._heard)
            return self._admin


def open_topic(access: KafkaAccess) -> TopicMetadata:
    """The door to the brokers that the access names: one, and one client, in this process for equal settings."""
    return topics_of(access.client)


def topics_of(client: ClientConfig) -> KafkaTopics:
    """`open_topic`, for whoever reads."""
    return _cached(client, os.getpid())


@lru_cache(maxsize=CACHED_DOORS)
def _cached(client: ClientConfig, process: int) -> KafkaTopics:
    """By process: a client's threads do not follow a fork."""
    return KafkaTopics(client)


def _topic_id(told: object) -> str:
    """As Kafka's own tools print it; the client writes `+/` for `-_`."""
    text = str(told).replace("+", "-").replace("/", "_")
    return "" if text in (_NO_ID, "None") else text


def _epoch(told: int | None) -> int:
    return -1 if told is None else told
