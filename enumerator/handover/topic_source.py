"""What reads behind the lake are handed; apart from `following`, which a stream without a topic never loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.enumerator.planning.annotate import EventTimeScan
    from penstock.kafka.protocols import OpenTopic


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSide:
    """What planning behind the lake needs: a way to the topic, and to the event times of its records."""

    open_topic: OpenTopic
    scan_event_time: EventTimeScan | None = None
