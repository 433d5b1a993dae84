"""Dead letters on an object store: they are written before the following rows are returned, or the read fails."""

from __future__ import annotations

import json

import pytest

from penstock.proto.errors import StorageDenied
from penstock.proto.model.hybrid import KafkaAccess
from tests.s3.bucket import BUCKET, REGION, SECRET, USER, direct
from tests.unit.reader.topics.fake_topic import read_all, rows_of, topic_of, topic_scan

pytestmark = pytest.mark.ops
GOOD = [{"id": number, "city": "c", "amount": 1.5, "ts": 1} for number in range(3)]


def letters(store: str, secret: str) -> KafkaAccess:
    """Access to the store itself: the proxy does not parse uploads."""
    place = f"scheme=http&endpoint_override={store}&region={REGION}"
    return KafkaAccess(dead_letter=f"s3://{USER}:{secret}@{BUCKET}/letters/orders?{place}")


def test_dead_letters_are_written_as_objects(store: str) -> None:
    topic = topic_of(GOOD[0], b"{", GOOD[1], b"}", GOOD[2])
    for _attempt in range(2):
        rows = rows_of(read_all(topic_scan(), topic, access=letters(store, SECRET), batch_rows=2))
        assert [row["id"] for row in rows] == [0, 1, 2]
    with direct(store).open_input_stream(f"{BUCKET}/letters/orders/orders-0-0-5.jsonl") as written:
        lines = [json.loads(line) for line in written.read().decode().splitlines()]
    assert [line["offset"] for line in lines] == [1, 3]


def test_dead_letters_refused_by_the_store_end_the_read(store: str) -> None:
    topic = topic_of(GOOD[0], b"{", GOOD[1])
    message = rf"dead letters cannot be written to s3://.*{BUCKET}/letters/orders"
    with pytest.raises(StorageDenied, match=message) as caught:
        read_all(topic_scan(), topic, access=letters(store, "wrong-secret"))
    assert "wrong-secret" not in str(caught.value)
