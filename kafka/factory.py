"""The doors to Kafka as processes open them by default: clients are made when they are first needed, and only there
references to secrets are put in their place.

Shell. Not here: what the doors do (`topics`, `records`).
"""

from __future__ import annotations

from penstock.kafka.protocols import RangeReader, SchemaRegistry, TopicMetadata
from penstock.kafka.secrets import with_secrets
from penstock.proto.model.hybrid import KafkaAccess


def open_topic(access: KafkaAccess) -> TopicMetadata:
    """See `doors.TopicMetadata`. ConfigurationError without the extra `kafka`, or for settings that cannot be."""
    from penstock.kafka import topic_metadata

    return topic_metadata.open_topic(with_secrets(access))


def open_records(access: KafkaAccess, *, fail_on_data_loss: bool = True) -> RangeReader:
    """See `doors.RangeReader`. Errors as for `open_topic`."""
    from penstock.kafka import record_reader

    return record_reader.open_records(with_secrets(access), fail_on_data_loss=fail_on_data_loss)


def open_registry(url: str) -> SchemaRegistry:
    """See `penstock.kafka.schema_registry.open_registry`."""
    from penstock.kafka import schema_registry

    return schema_registry.open_registry(url)
