"""The feeds of a job: those of tables, and of topics, all topics of an entry with one consumer."""

from __future__ import annotations

import threading

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import Feed
from penstock.engine.sync.topics.place import given_columns, is_topics, topics_place
from penstock.kafka.client import NewClient, new_consumer
from penstock.kafka.secrets import with_secrets
from penstock.kafka.shared_consumer import SharedConsumer


class Feeds:
    """Opens the feed of a source. Any thread."""

    def __init__(self, connect: NewClient = new_consumer) -> None:
        self._connect = connect
        self._consumers: dict[int, SharedConsumer] = {}
        self._lock = threading.Lock()

    def of(self, source: SourceTable) -> Feed:
        """The feed of a source. ConfigurationError for options that do not fit it."""
        if not is_topics(source.table):
            return TableFeed(source.table, source.entry.options)
        return self._of_topic(source)

    def close(self) -> None:
        """Closes the consumers. No other call may run or follow."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _of_topic(self, source: SourceTable) -> Feed:
        from penstock.engine.sync.topics.decoding import EventDecoder  # lazy: most jobs have no topics
        from penstock.engine.sync.topics.feed import TopicFeed

        place = topics_place(source.entry.source, source.entry.options)
        access = with_secrets(place.access)
        columns = given_columns(source.entry, place)
        with self._lock:
            consumer = self._consumers.get(id(source.entry))
            if consumer is None:
                consumer = self._consumers[id(source.entry)] = SharedConsumer(access.client, connect=self._connect)
        decoder = EventDecoder(
            place.value_format,
            access,
            checks_partitions=place.checks_partitions,
            columns=columns,
            given_key=source.entry.key,
        )
        return TopicFeed(source.name, consumer, decoder)
