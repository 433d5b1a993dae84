"""`KafkaTopics`: partitions and offsets of topics, read with confluent-kafka's admin client.

A request is repeated after transient errors and missing answers until its timeout, which is KafkaUnavailable. Nothing
here reads records, or creates or changes anything on the brokers.
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

TIMEOUT_S: Final = 15.0
FIRST_ATTEMPT_S: Final = 1.0
ATTEMPT_S: Final = 5.0
RETRY_DELAY_S: Final = 0.2
CONFIRMATIONS: Final = 3
"""The number of consecutive answers that must report a topic missing, because a broker that has just started may not
have its metadata yet."""

CACHED_CLIENTS: Final = 16

_NO_ID: Final = "AAAAAAAAAAAAAAAAAAAAAA"
"""The topic id zero, from brokers before 2.8, which have no topic ids."""

_MOCK: Final = "mockCluster"
"""The prefix of cluster ids of librdkafka's mock brokers, which do not describe topics and have no topic ids."""

_NO_OFFSET: Final = -1
"""There is no record at or after a time. A lower value (-1001) means that no broker answered: the client returns it
without an error for a partition whose leader has just failed."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOffsets:
    """The offsets of a partition's log."""

    log_start: int
    """The first offset."""
    end: int
    """The end of the records that may be read."""
    written: int
    """The end of the log."""


@dataclass(frozen=True, slots=True)
class TopicPartitions:
    """The partitions of a topic."""

    topic_id: str
    """The topic's id; '' if the brokers have no topic ids."""
    partitions: tuple[int, ...]
    """The numbers of the partitions, ascending."""


class KafkaTopics(TopicMetadata):
    """A `TopicMetadata` with one admin client, which is created by the first request. Any thread."""

    def __init__(
        self,
        client: ClientConfig,
        *,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        connect: NewClient = new_admin_client,
    ) -> None:
        settings = checked_settings(client)
        self._committed = isolation_level(settings) == READ_COMMITTED
        self._config = admin_config(client)
        self._timeout_s, self._clock, self._sleep, self._connect = timeout_s, clock, sleep, connect
        self._lock = threading.Lock()
        self._error_log = ErrorLog(settings)
        self._admin: Any = None
        self._is_mock: bool | None = None

    def describe(self, topic: str) -> TopicDescription:
        """See `TopicMetadata.describe`."""
        topic_partitions = self.partitions_of(topic)
        numbers = topic_partitions.partitions
        # The starts first: after retention in between they could be above the ends.
        starts = self._offsets(topic, numbers, "earliest", committed=False)
        ends = self._offsets(topic, numbers, "latest", committed=self._committed)
        written = self._offsets(topic, numbers, "latest", committed=False) if self._committed else ends
        partitions = {
            number: PartitionOffsets(
                log_start=starts[number][0], end=end, high_watermark=written[number][0], leader_epoch=epoch
            )
            for number, (end, epoch) in ends.items()
        }
        return TopicDescription(topic=topic, topic_id=topic_partitions.topic_id, partitions=partitions)

    def offsets_at(self, topic: str, timestamp_ms: int) -> Mapping[int, int]:
        """See `TopicMetadata.offsets_at`."""
        # The ends first: a record that arrives in between is after them, or its own offset is returned.
        partitions = self.partitions_of(topic).partitions
        ends = self._offsets(topic, partitions, "latest", committed=self._committed)
        offsets = self._offsets(topic, partitions, timestamp_ms, committed=self._committed)
        return {number: at if at >= 0 else ends[number][0] for number, (at, _) in offsets.items()}

    def group_offsets(self, topic: str, group: str) -> Mapping[int, int]:
        """See `TopicMetadata.group_offsets`."""
        kafka = library()
        partitions = self.partitions_of(topic).partitions

        def request(admin: Any, seconds: float) -> dict[int, int]:
            topic_partitions = [kafka.TopicPartition(topic, number) for number in partitions]
            groups = [kafka.ConsumerGroupTopicPartitions(group, topic_partitions)]
            (future,) = admin.list_consumer_group_offsets(groups, request_timeout=seconds).values()
            committed = self._result(admin, future, seconds).topic_partitions
            for partition in committed:
                if partition.error is not None:
                    raise kafka.KafkaException(partition.error)
            return {partition.partition: partition.offset for partition in committed if partition.offset >= 0}

        offsets = self._retried(f"reading the offsets of consumer group {group!r}", request)
        return dict(sorted(offsets.items()))

    def partitions_of(self, topic: str, timeout_s: float | None = None) -> TopicPartitions:
        """The topic's id and partitions. TopicGone if the topic does not exist."""

        def request(admin: Any, seconds: float) -> TopicPartitions:
            if self._is_mock_cluster(admin, seconds):
                return self._from_listing(admin, topic, seconds)
            (future,) = admin.describe_topics(library().TopicCollection([topic]), request_timeout=seconds).values()
            description = self._result(admin, future, seconds)
            numbers = sorted(partition.id for partition in description.partitions)
            return TopicPartitions(_topic_id(description.topic_id), tuple(numbers))

        return self._retried(f"looking up topic {topic}", request, timeout_s)

    def names(self) -> list[str]:
        """The names of all topics, sorted."""
        return self._retried("listing topics", lambda admin, seconds: sorted(admin.list_topics(timeout=seconds).topics))

    def log_offsets(self, topic: str, partition: int, timeout_s: float | None = None) -> LogOffsets:
        """The current offsets of a partition's log."""
        partitions = (partition,)
        start = self._offsets(topic, partitions, "earliest", committed=False, timeout_s=timeout_s)
        end = self._offsets(topic, partitions, "latest", committed=self._committed, timeout_s=timeout_s)
        written = self._offsets(topic, partitions, "latest", committed=False, timeout_s=timeout_s)
        return LogOffsets(log_start=start[partition][0], end=end[partition][0], written=written[partition][0])

    def _offsets(
        self,
        topic: str,
        partitions: Sequence[int],
        at: str | int,
        *,
        committed: bool,
        timeout_s: float | None = None,
    ) -> dict[int, tuple[int, int]]:
        """(offset, leader epoch) of each partition at 'latest', 'earliest' or a time; -1: none, or unknown."""
        kafka = library()
        spec = kafka.admin.OffsetSpec
        offset_spec, lowest = (spec.for_timestamp(at), _NO_OFFSET) if isinstance(at, int) else (getattr(spec, at)(), 0)
        level = kafka.IsolationLevel.READ_COMMITTED if committed else kafka.IsolationLevel.READ_UNCOMMITTED

        def request(admin: Any, seconds: float) -> dict[int, tuple[int, int]]:
            specs = {kafka.TopicPartition(topic, number): offset_spec for number in partitions}
            futures = admin.list_offsets(specs, isolation_level=level, request_timeout=seconds)
            results = {key.partition: self._result(admin, future, seconds) for key, future in futures.items()}
            if any(result.offset < lowest for result in results.values()):
                raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.LEADER_NOT_AVAILABLE))
            return {number: (results[number].offset, _epoch(results[number].leader_epoch)) for number in partitions}

        return self._retried(f"reading the offsets of topic {topic}", request, timeout_s) if partitions else {}

    def _is_mock_cluster(self, admin: Any, seconds: float) -> bool:
        is_mock = self._is_mock
        if is_mock is None:
            cluster = admin.cluster_id(timeout=seconds)
            if cluster is None:
                raise NoAnswer
            is_mock = self._is_mock = bool(cluster.startswith(_MOCK))
        return is_mock

    def _from_listing(self, admin: Any, topic: str, seconds: float) -> TopicPartitions:
        metadata = admin.list_topics(timeout=seconds).topics.get(topic)
        if metadata is None or metadata.error is not None:
            kafka = library()
            raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError.UNKNOWN_TOPIC_OR_PART))
        return TopicPartitions("", tuple(sorted(metadata.partitions)))

    def _retried(self, what: str, request: Callable[[Any, float], T], timeout_s: float | None = None) -> T:
        kafka = library()
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        began, gone, attempt_s = self._clock(), 0, FIRST_ATTEMPT_S
        while True:
            left = timeout_s - (self._clock() - began)
            admin = self._connected()
            admin.poll(0)
            try:
                result = request(admin, max(min(left, attempt_s), 0.1))
            except kafka.KafkaException as error:
                reported = self._error_log.reported(error.args[0])
            except NoAnswer:
                reported = ReportedError("_TIMED_OUT", "no answer")
            else:
                self._error_log.clear()
                return result
            admin.poll(0)
            reported = self._error_log.denial or reported
            end = permanent_error(reported, what)
            gone = gone + 1 if reported.name in GONE else 0
            if end is not None and (gone >= CONFIRMATIONS or not isinstance(end, TopicGone)):
                raise end
            if self._clock() - began >= timeout_s:
                raise end or unavailable_error(self._error_log.last or reported, what, timeout_s)
            if reported.name in STALE:
                self._refresh(admin)
            self._sleep(RETRY_DELAY_S)
            attempt_s = min(attempt_s * 2, ATTEMPT_S)

    def _result(self, admin: Any, future: Any, seconds: float) -> Any:
        """The future's result. Ends early if the brokers deny access, which the future does not report."""
        for _ in range(round((seconds + 1) / RETRY_DELAY_S)):
            try:
                return future.result(RETRY_DELAY_S)
            except NoAnswer:
                admin.poll(0)
                if self._error_log.denial:
                    raise
        raise NoAnswer

    def _refresh(self, admin: Any) -> None:
        kafka = library()
        try:
            admin.list_topics(timeout=ATTEMPT_S)
        except kafka.KafkaException as error:
            self._error_log(error.args[0])

    def _connected(self) -> Any:
        with self._lock:
            if self._admin is None:
                self._admin = self._connect(self._config, self._error_log)
            return self._admin


def open_topic(access: KafkaAccess) -> TopicMetadata:
    """The topics of the brokers of `access`. Equal settings share one client in this process."""
    return topics_of(access.client)


def topics_of(client: ClientConfig) -> KafkaTopics:
    """As `open_topic`, for readers."""
    return _cached(client, os.getpid())


@lru_cache(maxsize=CACHED_CLIENTS)
def _cached(client: ClientConfig, process: int) -> KafkaTopics:
    """One per process, because a forked child does not have the client's threads."""
    return KafkaTopics(client)


def _topic_id(reported: object) -> str:
    """The id as Kafka's own tools print it; the client writes `+/` for `-_`."""
    text = str(reported).replace("+", "-").replace("/", "_")
    return "" if text in (_NO_ID, "None") else text


def _epoch(reported: int | None) -> int:
    return -1 if reported is None else reported
