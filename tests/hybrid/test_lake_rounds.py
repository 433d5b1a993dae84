"""The harness itself: at its last hand-over point a table that real Hudi wrote is, in Hudi's own reading, the fold of
the records below it; and its commits store this point."""

from __future__ import annotations

import pathlib
import random
from collections import Counter
from typing import Any

import pytest

from penstock.enumerator.handover.offset_fallbacks import hand_over
from penstock.enumerator.handover.offset_search import WriterHints, find_offsets
from penstock.enumerator.handover.spark_checkpoints import SparkCheckpoints
from penstock.enumerator.handover.table_commits import commits_before
from penstock.table.hudi_table import open_table
from tests.hybrid.lake_rounds import Kind, LakeFiller, WritePath
from tests.hybrid.topic_fold import fold_topic
from tests.hybrid.topic_records import COLUMNS, TopicProducer, make_topic, read_topic

SEED = 7


@pytest.mark.sampled(1)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("kind", "write_path"),
    [
        pytest.param(
            kind, write_path, marks=() if (kind, write_path) == (Kind.UPSERT, WritePath.SINK) else pytest.mark.long
        )
        for kind in Kind
        for write_path in WritePath
    ],
)
def test_table_is_the_fold_of_its_topic(
    hudi: Any, kafka: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest, kind: Kind, write_path: WritePath
) -> None:
    topic, rng, plain = f"rounds_{kind}_{write_path}", random.Random(SEED), write_path is WritePath.HOODIE_STREAMER
    streamer = request.getfixturevalue("streamer") if plain else None
    transactions = not plain and (kind is Kind.UPSERT) is (write_path is WritePath.SINK)
    make_topic(kafka.bootstrap, topic)
    producer = TopicProducer(
        kafka.bootstrap,
        topic,
        rng,
        deletes=kind is Kind.UPSERT,
        tombstones=not plain,
        transactions=transactions,
        idle=1,
    )
    filler = LakeFiller(
        hudi, tmp_path, kafka.bootstrap, topic, rng, kind=kind, write_path=write_path, streamer=streamer
    )
    producer.begin(150)
    filler.begin(1)
    producer.wake_idle()
    producer.begin(250)
    filler.begin(1)
    upto = filler.hand_overs[-1]
    below = [record for record in read_topic(kafka.bootstrap, topic) if record.offset < upto[record.partition]]
    actual = Counter(tuple(row[name] for name in COLUMNS) for row in hudi.read(filler.table).to_pylist())
    rows = fold_topic(below).values() if kind is Kind.UPSERT else filter(None, (record.row() for record in below))
    assert actual == Counter(rows)
    history = commits_before(open_table(str(filler.table)), None)
    checkpoints = SparkCheckpoints({}, str(filler.checkpoint))
    resolved = hand_over(find_offsets(history.active, history.archived, WriterHints(topic=topic), checkpoints))
    assert resolved.offsets.by_partition() == upto
