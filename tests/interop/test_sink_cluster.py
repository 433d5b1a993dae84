"""A topic becomes two tables by streams on a standalone Spark cluster of two workers, while executors, workers, the
driver and the broker are killed, tasks fail at failpoints, and Spark starts second attempts at slow tasks. At the end
each record is in the tables once, for Hudi's reader and for Penstock's, and Hudi goes on writing.

`make sinks MINUTES=30` runs it for long and records the result.
"""

from __future__ import annotations

import os
import pathlib
import random
import time
from typing import Any

import pytest

import penstock
from tests.hybrid.penstock_sink import CACHE, KAFKA_SOURCE
from tests.hybrid.topic_fold import fold_topic
from tests.hybrid.topic_records import Record, TopicProducer, make_topic, read_topic
from tests.interop.hudi_process import fetch_jars
from tests.interop.sink_cluster import KINDS, SinkCluster
from tests.interop.sink_failpoints import Harm, noted
from tests.interop.sink_judgements import (
    batches_of,
    commit_problems,
    missing_files,
    offset_problems,
    parts,
    row_problems,
    rows_of,
    snapshot_problems,
    stray_files,
    won_after,
)
from tests.long_record import add_to_record

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(2 * 3600)]

SHORT_S = 25.0
LONG_S = float(os.environ.get("PENSTOCK_SINKS_SECONDS", "1800"))
SEED = int(os.environ.get("PENSTOCK_SEED", "20261126"))


def jars() -> str:
    """The jars of Spark's Kafka source."""
    return ",".join(map(str, fetch_jars(KAFKA_SOURCE, CACHE)))


@pytest.mark.exhaustive
def test_each_record_is_written_once_in_a_short_run(hudi: Any, kafka: Any, tmp_path: pathlib.Path) -> None:
    _run(hudi, kafka, tmp_path, SHORT_S, (2.0, 5.0))


@pytest.mark.long
def test_each_record_is_written_once_in_a_long_run(hudi: Any, kafka: Any, tmp_path: pathlib.Path) -> None:
    """Runs for PENSTOCK_SINKS_SECONDS."""
    _run(hudi, kafka, tmp_path, LONG_S, (10.0, 40.0))


def _run(hudi: Any, kafka: Any, folder: pathlib.Path, seconds: float, strikes_s: tuple[float, float]) -> None:
    began, rng, topic = time.monotonic(), random.Random(SEED), f"sinks-{folder.name}"
    make_topic(kafka.bootstrap, topic)
    producer = TopicProducer(kafka.bootstrap, topic, random.Random(rng.random()), deletes=True)
    producer.begin(60)
    cluster = SinkCluster(folder=folder, broker=kafka, topic=topic, jars=jars(), rng=rng, seed=SEED)
    try:
        cluster.begin()
        producer.start()
        cluster.run(seconds, strikes_s)
        producer.request_stop()
        producer.join()
        cluster.catch_up()
        cluster.end()
    finally:
        producer.request_stop()
        cluster.abandon()
    assert producer.failure is None, producer.failure
    records = read_topic(kafka.bootstrap, topic)
    note = _note(cluster, records, seconds, time.monotonic() - began)
    problems = [*cluster.problems, *cluster.unexcused(), *_problems(hudi, cluster, records)]
    assert not problems, "\n".join([note, *problems])
    assert all(cluster.happened[f"{kind} killed"] for kind in KINDS), note
    assert noted(folder, "both") and all(noted(folder, kind) for kind in Harm), note


def _problems(hudi: Any, cluster: SinkCluster, records: list[Record]) -> list[str]:
    """What is wrong with the tables."""
    problems: list[str] = []
    fold, path = fold_topic(records), cluster.folder / "upserts"
    rows = [row for record in records if (row := record.row()) is not None]
    for name, expected in (("upserts", [*fold.values()]), ("inserts", rows)):
        table = cluster.folder / name
        penstock.maintain(str(table), skip=("compact", "cluster", "clean", "archive"))
        problems += snapshot_problems(hudi, table, penstock.read(str(table)).read_all(), expected)
        ends = {number: cluster.offsets(name, number) for number in cluster.batches(name)}
        batches, by_batch = batches_of(table, cluster.topic), parts(records, ends)
        if name == "inserts":
            inserted = {number: [one for one in by_batch[number] if one.row() is not None] for number in by_batch}
            by_batch = inserted
            problems += commit_problems(name, penstock.read(str(table)).read_all(), batches, by_batch)
        problems += offset_problems(name, batches, ends, [number for number in by_batch if by_batch[number]])
        middle = batches[len(batches) // 2]
        newest = batches[-1]
        won = won_after(records, middle.ends) if name == "upserts" else _inserted_after(records, middle.ends)
        ours = penstock.read(str(table), query="incremental", after=middle.order_key, upto=newest.order_key)
        problems += row_problems(f"range of {name} by Penstock", rows_of(ours.read_all()), won)
        hudis = rows_of(hudi.incremental(table, middle.order_key, newest.order_key))
        problems += row_problems(f"range of {name} by Hudi", [row for row in hudis if row in expected], won)
        problems += [f"{name}: stray file {file}" for file in stray_files(table)]
        problems += [f"{name}: missing file {file}" for file in missing_files(table)]
    assert path.exists()
    return problems


def _inserted_after(records: list[Record], ends: Any) -> list[Any]:
    late = [record for record in records if record.offset >= ends.get(record.partition, 0)]
    return [row for record in late if (row := record.row()) is not None]


def _note(cluster: SinkCluster, records: list[Record], seconds: float, took: float) -> str:
    """The numbers of the run, which are added to the record too."""
    harms = {kind: noted(cluster.folder, kind) for kind in (*Harm, "both")}
    note = (
        f"sinks: {seconds:.0f} s of kills in {took:.0f} s, seed {SEED}: {len(records)} records, "
        f"{len(cluster.batches('upserts'))} and {len(cluster.batches('inserts'))} micro-batches; "
        f"{dict(sorted(cluster.happened.items()))}; {cluster.driver.starts} starts of the driver; "
        f"{len(cluster.events('failed'))} failures of streams; tasks that failed {harms['raise']}, whose process ended "
        f"{harms['exit']}, that were slow {harms['stay']}, of which {harms['both']} ran twice at the same time"
    )
    add_to_record(note)
    print(note)
    return note
