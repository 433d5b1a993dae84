"""Opens a reader of Kafka topics from the caller's settings.

Connects when the first range is read, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.proto.model.hybrid import KafkaAccess
    from penstock.proto.model.splits import Scan
    from penstock.reader.topics.reading import TopicReading


def topic_reading(scan: Scan, access: KafkaAccess | None) -> TopicReading | None:
    """The topic reader that `read_split` needs for splits of the scan.

    None for splits of files, and without `access`: `read_split` then refuses splits of a topic. ConfigurationError: the
    extra `kafka` is not installed, the client refuses a setting, or a referenced secret is missing in this process.
    """
    if scan.topic is None or access is None:
        return None
    from penstock.kafka.factory import open_records  # lazy: few reads have a topic
    from penstock.kafka.secrets import with_secrets
    from penstock.reader.topics.reading import TopicReading

    records = open_records(access, fail_on_data_loss=scan.topic.fail_on_data_loss)
    return TopicReading(records=records, access=with_secrets(access))
