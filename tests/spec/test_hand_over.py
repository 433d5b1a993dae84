"""The specification of the hand-over from table to topic: every state keeps its invariants, each broken variant
violates one. Its traces agree with the real choice of offsets and ranges."""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pytest

from penstock.enumerator.handover.offsets import OffsetMap
from penstock.enumerator.handover.topic_position import advanced_place, initial_place, next_ranges, validated_place
from penstock.kafka.protocols import PartitionOffsets, TopicDescription
from penstock.proto.errors import PositionExpired
from penstock.proto.model.hybrid import KafkaPlace
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS
from tests.spec.spin import SPEC, random_run, search
from tests.spec.traces import BadTrace, Disagreement, agree, read_trace, value

pytestmark = pytest.mark.ops
FILE: Final = "hand_over.pml"
HEADER: Final = {"spec": "hand over", "version": 1, "partitions": 2, "commits": 2}
INSTANT: Final = InstantTime("20260101000000000")
SEEDS: Final = range(1, 41)
BROKEN: Final = {
    "HAND_OVER_BEFORE_THE_LAST_SPLIT": "exactly_once",
    "JUMPS_OVER_LOST_RECORDS": "exactly_once",
    "OFFSETS_OF_THE_NEWEST_COMMIT": "exactly_once",
    "ONE_RECORD_LATE": "exactly_once",
}
"""Each broken variant, and the invariant that it violates."""


def described(tops: Sequence[int], lows: Sequence[int]) -> TopicDescription:
    partitions = {
        number: PartitionOffsets(log_start=low, end=top, high_watermark=top)
        for number, (top, low) in enumerate(zip(tops, lows, strict=True))
    }
    return TopicDescription(topic="t", topic_id="1", partitions=partitions)


def replay(text: str) -> Counter[str]:
    """Replays a trace; how often each step occurred. BadTrace, Disagreement."""
    place: KafkaPlace | None = None
    counts: Counter[str] = Counter()
    for step in read_trace(text, HEADER).steps:
        kind = step["step"]
        if kind == "hand over":
            topic = described(value(step, "ends"), value(step, "lows"))
            offsets = OffsetMap("t", tuple(enumerate(value(step, "map"))))
            place = initial_place(offsets, topic, INSTANT, Position(INSTANT))
            agree(step, "first offsets", value(step, "starts"), [offset for _, offset in place.starts])
        elif kind == "topic" and place is not None:
            place = _ranges(step, place)
        elif kind not in ("lake", "finish", "restart"):
            raise BadTrace(f"no step {kind!r} here: {dict(step)}")
        counts[kind] += 1
    return counts


def _ranges(step: Any, place: KafkaPlace) -> KafkaPlace:
    topic = described(value(step, "ends"), value(step, "lows"))
    try:
        validated = validated_place(place, topic, fail_on_data_loss=True).place
    except PositionExpired:
        agree(step, "stopped", value(step, "stopped"), 1)
        return place
    agree(step, "stopped", value(step, "stopped"), 0)
    ranges = next_ranges(validated, topic, NO_LIMITS)
    pairs = list(zip(value(step, "from"), value(step, "upto"), strict=True))
    expected = [(number, first, end) for number, (first, end) in enumerate(pairs) if first < end]
    agree(step, "ranges", expected, [(each.partition, each.first, each.end) for each in ranges])
    reached = advanced_place(validated, ranges, topic)
    assert reached.position > place.position
    return reached


def test_every_state_keeps_the_invariants(tmp_path: pathlib.Path) -> None:
    result = search(FILE, tmp_path)
    assert (result.violated, result.states > 50_000) == ("", True), result.text


@pytest.mark.parametrize("variant", BROKEN)
def test_each_broken_variant_violates_its_invariant(variant: str, tmp_path: pathlib.Path) -> None:
    assert search(FILE, tmp_path, [f"BROKEN_{variant}"], fast="0").violated == BROKEN[variant]


def test_each_variant_of_the_file_has_its_control() -> None:
    assert set(re.findall(r"\bBROKEN_(\w+)", (SPEC / FILE).read_text())) == set(BROKEN)


def test_real_offsets_and_ranges_agree_with_every_trace() -> None:
    counts: Counter[str] = Counter()
    for seed in SEEDS:
        counts += replay(random_run(FILE, seed))
    assert {"lake", "hand over", "topic", "finish", "restart"} <= set(counts), counts


def test_changed_offset_is_a_disagreement_and_a_cut_trace_an_error() -> None:
    text = next(text for text in (random_run(FILE, seed) for seed in SEEDS) if 'hand over", "c' in text)
    with pytest.raises(Disagreement):
        replay(re.sub(r'"starts": \[\d', '"starts": [9', text))
    with pytest.raises(BadTrace, match="no end"):
        replay("\n".join(text.splitlines()[:-1]))
