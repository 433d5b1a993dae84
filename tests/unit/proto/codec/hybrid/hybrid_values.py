"""Values of hybrid reads: strategies of all that the classes allow, and one of each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from penstock.proto.codec import groups as groups
from penstock.proto.codec import streams as streams
from penstock.proto.model.hybrid import (
    MAX_OFFSET,
    HandOverRules,
    Hybrid,
    HybridMode,
    KafkaPlace,
    KafkaRange,
    PartitionPlace,
    Phase,
    TopicRecords,
    ValueFormat,
)
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    Plan,
    Scan,
    Split,
    VisibleInstants,
)
from penstock.proto.model.streams import NoBatch, Progress, StreamPoint, StreamScope, TopicBatch

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


instants = st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime)


lake_positions = st.builds(
    Position, st.from_regex(r"[0-8][0-9]{0,23}", fullmatch=True).map(InstantTime), st.integers(0, WHOLE_INSTANT)
)


topics = st.from_regex(r"[A-Za-z0-9._-]{1,249}", fullmatch=True).filter(lambda name: name not in (".", ".."))


partitions = st.integers(0, 2**31 - 1)


offsets = st.integers(0, MAX_OFFSET)


modes = st.sampled_from(HybridMode)


formats = st.sampled_from(ValueFormat)


rules = st.builds(
    HandOverRules,
    key=texts,
    key_format=texts,
    checkpoints=st.lists(st.tuples(texts, words), max_size=3).map(tuple),
    others_elsewhere=st.booleans(),
    group=texts,
    timestamp_ms=st.none() | offsets,
    starting_offsets=texts,
)


hybrids = st.builds(
    Hybrid, mode=modes, topic=topics, value_format=formats, rules=rules, fail_on_data_loss=st.booleans()
)


@st.composite
def ranges(draw: st.DrawFn, topic: str | None = None) -> KafkaRange:
    """Any that is not empty."""
    first, end = sorted(draw(st.lists(offsets, min_size=2, max_size=2, unique=True)))
    name = draw(topics) if topic is None else topic
    return KafkaRange(topic=name, topic_id=draw(texts), partition=draw(partitions), first=first, end=end)


@st.composite
def places(draw: st.DrawFn) -> KafkaPlace:
    """A topic of up to four partitions, some of which were added after the hand-over."""
    starts = draw(st.dictionaries(partitions, st.integers(0, 2**60), max_size=4))
    read = draw(st.dictionaries(partitions, st.integers(0, 2**60), max_size=2))
    read |= {partition: draw(st.integers(0, 2**60)) for partition in starts}
    return KafkaPlace(
        phase=draw(st.sampled_from(Phase)),
        topic=draw(topics),
        topic_id=draw(texts),
        instant=draw(instants),
        lake=draw(lake_positions),
        starts=tuple(sorted(starts.items())),
        epochs=tuple(sorted(draw(st.dictionaries(partitions, partitions, max_size=3)).items())),
        places=tuple(
            PartitionPlace(
                partition,
                starts.get(partition, 0) + read[partition],
                draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
                draw(offsets),
            )
            for partition in sorted(read)
        ),
    )


@st.composite
def points(draw: st.DrawFn) -> StreamPoint:
    """A point after the hand-over. In the topic, the batch before it may have ranges."""
    place = draw(places())
    content: NoBatch | TopicBatch = NoBatch()
    if place.phase is Phase.KAFKA and draw(st.booleans()):
        passed = [item for item in place.places if item.next]
        content = TopicBatch(
            tuple(
                KafkaRange(
                    topic=place.topic,
                    topic_id=place.topic_id,
                    partition=item.partition,
                    first=draw(st.integers(0, item.next - 1)),
                    end=item.next,
                )
                for item in passed
            )
        )
    return StreamPoint(progress=Progress(place.position, kafka=place), content=content, ended=draw(st.booleans()))


def wired(message: Any) -> Any:
    """The message as the other side parses it."""
    return type(message).FromString(message.SerializeToString())


KEY = InstantTime("20260101000000000")


HYBRID = Hybrid(
    mode=HybridMode.CHANGELOG,
    topic="orders",
    rules=HandOverRules(checkpoints=(("w", "s3://lake/checkpoint"),), timestamp_ms=5),
)


SCOPE = StreamScope(request=PlanRequest(table="t", query=Incremental(), hybrid=HYBRID))


RANGE = KafkaRange(topic="orders", topic_id="id", partition=0, first=3, end=9)


OTHER = replace(RANGE, partition=2, first=0, end=1)


PLACE = KafkaPlace(
    phase=Phase.KAFKA,
    topic="orders",
    topic_id="id",
    instant=KEY,
    lake=Position(KEY),
    starts=((0, 3), (2, 0)),
    epochs=((0, 7),),
    places=(PartitionPlace(0, 9, 1_700_000_000_000_000, 4), PartitionPlace(2, 1)),
)


POINT = StreamPoint(progress=Progress(PLACE.position, kafka=PLACE), content=TopicBatch((RANGE, OTHER)))


SPLIT = Split(
    split_id="orders:0:3",
    partition="",
    partition_values=(),
    file_group="orders:0",
    order_key=PLACE.position.order_key,
    base=None,
    part=RANGE,
)


SCAN = Scan(
    table="t",
    base_path="/lake/t",
    table_version=9,
    schema_json="{}",
    columns=("id",),
    merge=CommitTimeOrdering(),
    visible=VisibleInstants(frozenset()),
    topic=TopicRecords(mode=HybridMode.CHANGELOG, value_format=ValueFormat.JSON, key_fields=("id",)),
)


PLAN = Plan(scan=SCAN, commit_range=CommitRange(EARLIEST, PLACE.position), splits=(SPLIT,))


HUGE = 2**64 - 1
"""What a negative number is on the wire."""
