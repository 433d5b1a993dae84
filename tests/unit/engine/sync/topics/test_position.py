"""The position of a topic as the target stores it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.engine.sync.topics.event_schema import EventKey
from penstock.engine.sync.topics.position import TopicPosition, parse_position
from penstock.proto.errors import ConfigurationError

POSITION = TopicPosition(
    topic="shop.t", topic_id="abc", offsets={10: 5, 2: 7}, key=EventKey(("id",), "f00"), schema_json='{"fields":[]}'
)


def test_position_survives_its_text() -> None:
    assert parse_position(POSITION.text(), "shop.t") == POSITION
    assert POSITION.order_key == "2:7,10:5"
    empty = TopicPosition(topic="shop.t", topic_id="", offsets={0: 0})
    assert parse_position(empty.text(), "shop.t") == empty


CHANGES: dict[str, dict[str, Any]] = {
    "version": {"version": 2},
    "topic": {"topic": "other"},
    "negative": {"offsets": {"0": -1}},
    "beyond": {"offsets": {"0": 1 << 63}},
    "text": {"offsets": {"0": "1"}},
    "true": {"offsets": {"0": True}},
    "list": {"offsets": [1]},
    "partition": {"offsets": {"a": 1}},
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_text_is_refused(name: str) -> None:
    text = json.dumps({**json.loads(POSITION.text()), **CHANGES[name]})
    with pytest.raises(ConfigurationError, match=r"topic shop\.t: the target's position"):
        parse_position(text, "shop.t")


@pytest.mark.parametrize("text", ["", "[]", "1", "{", '{"version":1}', "[" * 100_000])
def test_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"topic shop\.t: the target's position"):
        parse_position(text, "shop.t")
