"""The keys of commit metadata that hold topic offsets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.enumerator.handover import commit_offsets
from penstock.enumerator.handover.commit_offsets import (
    KNOWN_KEYS,
    SINK_OFFSETS,
    SPARK_SINK,
    KnownOffsets,
    LakeCommit,
    OffsetsKey,
    OtherSource,
    UnresolvedBatch,
    Writer,
    WriterKind,
    offsets_of_commit,
)
from penstock.enumerator.handover.offset_formats import Format, SinkBatch
from penstock.enumerator.handover.offsets import OffsetMap
from penstock.proto.errors import FormatError


def commit_with(key: str, text: str) -> LakeCommit:
    return LakeCommit(
        instant="1",
        order_key="1",
        action="deltacommit",
        operation="UPSERT",
        is_service=False,
        wrote_nothing=False,
        extra={key: text},
    )


@pytest.mark.parametrize("form", Format)
def test_known_key_may_have_any_format(form: Format, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        Format.STREAMER: "orders,0:7",
        Format.CONNECT: "0=7",
        Format.FLINK: "kafka_metadata%3Aorders%3A0:7",
        Format.SPARK: '{"query":"3"}',
        Format.JSON: '{"orders":{"0":7}}',
    }
    added = OffsetsKey("new.key", form, WriterKind.STREAMER)
    monkeypatch.setattr(commit_offsets, "KNOWN_KEYS", (*KNOWN_KEYS, added))
    commit = commit_with("new.key", texts[form])
    expected = OffsetMap("orders", ((0, 7),))
    writer = Writer(WriterKind.SPARK, "query") if form is Format.SPARK else Writer(WriterKind.STREAMER)
    positions = offsets_of_commit(commit, "orders", None, lambda batch: (expected,))
    assert positions == (KnownOffsets(writer, "new.key", expected),)


def sink_commit(offsets: str) -> LakeCommit:
    return replace(commit_with(SINK_OFFSETS, offsets), extra={SPARK_SINK: '{"query":"3"}', SINK_OFFSETS: offsets})


def no_checkpoint(batch: SinkBatch) -> None:
    """No checkpoint is configured."""


def test_offsets_in_the_commit_of_a_sink_need_no_checkpoint() -> None:
    writer = Writer(WriterKind.SPARK, "query")
    both = '{"orders":{"0":7},"parcels":{"0":1}}'
    for topic, offset in (("orders", 7), ("parcels", 1)):
        position = KnownOffsets(writer, SINK_OFFSETS, OffsetMap(topic, ((0, offset),)))
        assert offsets_of_commit(sink_commit(both), topic, None, no_checkpoint) == (position,)
    without = commit_with(SPARK_SINK, '{"query":"3"}')
    assert offsets_of_commit(without, "orders", None, no_checkpoint) == (UnresolvedBatch(writer, SPARK_SINK, 3),)


def test_sink_whose_query_reads_no_topic_is_another_source() -> None:
    writer = Writer(WriterKind.SPARK, "query")
    assert offsets_of_commit(sink_commit("{}"), "orders", None, no_checkpoint) == OtherSource(writer, SINK_OFFSETS, ())
    other = OtherSource(writer, SINK_OFFSETS, ("parcels",))
    assert offsets_of_commit(sink_commit('{"parcels":{"0":1}}'), "orders", None, no_checkpoint) == other
    with pytest.raises(FormatError, match=r"key penstock.streaming.kafka.offsets: got 'x', expected JSON"):
        offsets_of_commit(sink_commit("x"), "orders", None, no_checkpoint)
