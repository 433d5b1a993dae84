"""`TopicPosition`: how far a target has a topic, as the target stores it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.engine.sync.topics.event_schema import EventKey
from penstock.proto.errors import ConfigurationError

MAX_CHARS: Final = 16 << 20
MAX_OFFSET: Final = (1 << 63) - 1
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPosition:
    """The position in a topic, and what is known of its events."""

    topic: str
    """The topic's name."""
    topic_id: str
    """The broker's id of the topic; '' if it has none."""
    offsets: Mapping[int, int]
    """The next offset of each partition."""
    key: EventKey | None = None
    """The events' key; None: there was no event yet."""
    schema_json: str = ""
    """All columns that the events had, as an Avro schema; '': there was no event yet."""

    def text(self) -> str:
        """The position as JSON."""
        offsets = {str(number): offset for number, offset in sorted(self.offsets.items())}
        values = {
            "version": _VERSION,
            "topic": self.topic,
            "topicId": self.topic_id,
            "offsets": offsets,
            "key": [] if self.key is None else list(self.key.names),
            "keyHead": "" if self.key is None else self.key.head,
            "schema": self.schema_json,
        }
        return json.dumps(values, separators=(",", ":"))

    @property
    def order_key(self) -> str:
        """The offsets, for people: `0:12,1:7`; of many partitions the first ones."""
        return ",".join(f"{number}:{offset}" for number, offset in sorted(self.offsets.items())[:20])


def parse_position(text: str, topic: str) -> TopicPosition:
    """The position of `topic`. ConfigurationError if the text is not one."""
    try:
        if len(text) > MAX_CHARS:
            raise ValueError(f"{len(text)} characters")
        values = json.loads(text)
        offsets = {int(number): offset for number, offset in values["offsets"].items()}
        is_valid = all(type(one) is int and 0 <= one <= MAX_OFFSET for one in offsets.values())
        if values["version"] != _VERSION or values["topic"] != topic or not is_valid:
            raise ValueError("another version or topic, or no offsets")
        return TopicPosition(
            topic=topic,
            topic_id=str(values["topicId"]),
            offsets=offsets,
            key=EventKey(tuple(map(str, values["key"])), str(values["keyHead"])) if values["key"] else None,
            schema_json=str(values["schema"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"topic {topic}: the target's position is not one of this topic ({str(error)[:100]}): correct the job, or "
            f"load the table again (--restart): got {text[:100]!r}"
        ) from error
