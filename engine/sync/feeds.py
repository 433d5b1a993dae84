"""The feeds of a job: those of tables, of topics, and of tables with their topics; all topics of an entry with one
consumer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import Feed
from penstock.engine.sync.topics.place import TopicsPlace, given_columns, is_topics, topics_place
from penstock.kafka.client import NewClient, new_consumer
from penstock.kafka.secrets import with_secrets
from penstock.kafka.shared_consumer import SharedConsumer

if TYPE_CHECKING:
    from penstock.engine.sync.topics.feed import TopicFeed


class Feeds:
    """Opens the feed of a source. Any thread."""

    def __init__(self, connect: NewClient = new_consumer) -> None:
        self._connect = connect
        self._consumers: dict[int, SharedConsumer] = {}
        self._lock = threading.Lock()

    def of(self, source: SourceTable) -> Feed:
        """The feed of a source. ConfigurationError for options that do not fit it."""
        entry = source.entry
        if entry.then:
            return self._of_both(source)
        if not is_topics(source.table):
            return TableFeed(source.table, entry.options)
        return self._of_topic(source, source.name, topics_place(entry.source, entry.options))

    def close(self) -> None:
        """Closes the consumers. No other call may run or follow."""
        for consumer in self._consumers.values():
            consumer.close()
        self._consumers.clear()

    def _of_both(self, source: SourceTable) -> Feed:
        from penstock.engine.sync.topics.table_then_topic import TableThenTopicFeed
        from penstock.engine.sync.topics.then import table_options, then_topic

        entry = source.entry
        then = then_topic(entry, source.name)
        table, topic = TableFeed(source.table, table_options(entry)), self._of_topic(source, then.topic, then.place)
        return TableThenTopicFeed(table, topic, then.hybrid, entry.without)

    def _of_topic(self, source: SourceTable, topic: str, place: TopicsPlace) -> TopicFeed:
        from penstock.engine.sync.topics.decoding import EventDecoder  # lazy: most jobs have no topics
        from penstock.engine.sync.topics.feed import TopicFeed

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
        return TopicFeed(topic, consumer, decoder)
