"""The default implementations of `penstock.kafka.protocols`. Libraries are imported, and references to secrets are
resolved, only when a client is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.kafka.protocols import RangeReader, SchemaRegistry, TopicMetadata
    from penstock.proto.model.hybrid import KafkaAccess


def open_topic(access: KafkaAccess) -> TopicMetadata:
    """A `TopicMetadata`. ConfigurationError without the extra `kafka`, and for invalid settings."""
    from penstock.kafka import topic_metadata
    from penstock.kafka.secrets import with_secrets

    return topic_metadata.open_topic(with_secrets(access))


def open_records(access: KafkaAccess, *, fail_on_data_loss: bool = True) -> RangeReader:
    """A `RangeReader`. Errors as for `open_topic`."""
    from penstock.kafka import record_reader
    from penstock.kafka.secrets import with_secrets

    return record_reader.open_records(with_secrets(access), fail_on_data_loss=fail_on_data_loss)


def open_registry(url: str) -> SchemaRegistry:
    """See `penstock.kafka.schema_registry.open_registry`."""
    from penstock.kafka import schema_registry

    return schema_registry.open_registry(url)
