"""The keys of commit metadata that hold topic offsets."""

from __future__ import annotations

import pytest

from penstock.enumerator.handover import commit_offsets
from penstock.enumerator.handover.commit_offsets import (
    KNOWN_KEYS,
    KnownOffsets,
    LakeCommit,
    OffsetsKey,
    Writer,
    WriterKind,
    offsets_of_commit,
)
from penstock.enumerator.handover.offset_formats import Format
from penstock.enumerator.handover.offsets import OffsetMap


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
