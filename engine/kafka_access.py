"""How this process reads ranges of a topic: what the options say, opened.

Shell: nothing is connected before a range is read. Belongs here: the one way from options into `reader.topics`. Not
here: which options go together (`requests.hybrid`), clients (`penstock.kafka`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.proto.model.hybrid import KafkaAccess
    from penstock.proto.model.splits import Scan
    from penstock.reader.topics.reading import TopicReading


def topic_reading(scan: Scan, access: KafkaAccess | None) -> TopicReading | None:
    """What `read_split` needs for splits of the scan; None for splits of files, or (which that refuses) without access.

    ConfigurationError without the extra `kafka`, for settings that a client refuses, and for references to secrets that
    are not here.
    """
    if scan.topic is None or access is None:
        return None
    from penstock.kafka.factory import open_records  # late: few reads have a topic
    from penstock.kafka.secrets import with_secrets
    from penstock.reader.topics.reading import TopicReading

    records = open_records(access, fail_on_data_loss=scan.topic.fail_on_data_loss)
    return TopicReading(records=records, access=with_secrets(access))
