"""The doors to Kafka as processes open them by default: clients are made when they are first needed.

Shell. Not here: what the doors do (`topics`, `records`).
"""

from __future__ import annotations

from penstock.kafka.doors import RecordsDoor, TopicDoor
from penstock.proto.hybrid import KafkaAccess


def open_topic(access: KafkaAccess) -> TopicDoor:
    """See `doors.TopicDoor`. ConfigurationError without the extra `kafka`, or for settings that cannot be."""
    from penstock.kafka.topics import topic_door

    return topic_door(access)


def open_records(access: KafkaAccess) -> RecordsDoor:
    """See `doors.RecordsDoor`. Errors as for `open_topic`."""
    from penstock.kafka.records import records_door

    return records_door(access)
