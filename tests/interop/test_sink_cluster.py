"""A topic becomes two tables by streams on a standalone Spark cluster of two workers: one through a server, the other
with the driver as the coordinator. Executors, workers, the driver, the server and the broker are killed, tasks fail at
failpoints, and Spark starts second attempts at slow tasks. At the end each record is in the tables once, for Hudi's
reader and for Penstock's, and Hudi goes on writing.

`make sinks MINUTES=30` runs it for long and records the result.
"""

from __future__ import annotations

import os
import pathlib
import random
import time
from collections.abc import Mapping
from typing import Any

import pytest

import penstock
from tests.hybrid.penstock_sink import CACHE, KAFKA_SOURCE
from tests.hybrid.topic_fold import fold_topic
from tests.hybrid.topic_records import COLUMNS, Record, TopicProducer, make_topic, read_topic
from tests.interop.hudi_options import hudis_options
from tests.interop.hudi_process import fetch_jars
from tests.interop.sink_cluster import KINDS, TABLES, SinkCluster
from tests.interop.sink_failpoints import Harm, noted
from tests.interop.sink_judgements import (
    batches_of,
    change_problems,
    commit_problems,
    missing_files,
    offset_problems,
    parts,
    range_problems,
    rows_of_records,
    snapshot_problems,
    stray_files,
    won_after,
)
from tests.long_record import add_to_record

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(2 * 3600)]

SHORT_S = 12.0
LONG_S = float(os.environ.get("PENSTOCK_SINKS_SECONDS", "1800"))
HUDIS_COLUMNS = [
    ("id", "c0"),
    ("region", "c1"),
    ("ts", "CAST(c2 AS BIGINT)"),
    ("n", "CAST(c3 AS BIGINT)"),
    ("at", "CAST(NULL AS TIMESTAMP)"),
    ("amount", "CAST(c4 AS DOUBLE)"),
    ("note", "CAST(c5 AS STRING)"),
    ("_hoodie_is_deleted", "c6"),
]
HUDIS_OPTIONS = hudis_options(9, "merge_on_read", "bucket") | {
    "hoodie.table.name": "upserts",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.bucket.index.num.buckets": "2",
}
SEED = int(os.environ.get("PENSTOCK_SEED", "20261126"))


def jars() -> str:
    """The jars of Spark's Kafka source."""
    return ",".join(map(str, fetch_jars(KAFKA_SOURCE, CACHE)))


@pytest.mark.long
def test_each_record_is_written_once_in_a_short_run(hudi: Any, kafka: Any, tmp_path: pathlib.Path) -> None:
    """The driver dies at a failpoint alone: each start of another one takes as long as the rest."""
    kinds = {kind: KINDS[kind] for kind in KINDS if kind != "driver"}
    _run(hudi, kafka, tmp_path, SHORT_S, (2.0, 5.0), kinds, dies_at=2)


@pytest.mark.long
def test_each_record_is_written_once_in_a_long_run(hudi: Any, kafka: Any, tmp_path: pathlib.Path) -> None:
    """Runs for PENSTOCK_SINKS_SECONDS."""
    _run(hudi, kafka, tmp_path, LONG_S, (10.0, 40.0), KINDS, dies_at=-1)


@pytest.mark.long
def test_sink_that_forgets_its_batches_is_detected(kafka: Any, tmp_path: pathlib.Path) -> None:
    """The control: the driver dies between the commit of a micro-batch and Spark's checkpoint, and the next one does
    not find the micro-batch in the table. Without speculation no task runs twice at the same time."""
    topic = f"sinks-{tmp_path.name}"
    make_topic(kafka.bootstrap, topic)
    producer = TopicProducer(kafka.bootstrap, topic, random.Random(SEED), deletes=True)
    producer.begin(30)
    cluster = SinkCluster(
        folder=tmp_path,
        broker=kafka,
        topic=topic,
        jars=jars(),
        rng=random.Random(SEED),
        seed=SEED,
        dies_at=1,
        forgets=True,
        speculates=False,
    )
    try:
        cluster.begin()
        producer.begin(30)
        cluster.catch_up()
        cluster.end()
    finally:
        cluster.abandon()
    assert not [*cluster.problems, *cluster.unexcused()] and cluster.happened["driver died"] == 1
    ends = {number: cluster.offsets("upserts", number) for number in cluster.batches("upserts")}
    problems = [*offset_problems("upserts", batches_of(tmp_path / "upserts", topic), ends, list(ends))]
    assert len(problems) == 1 and "with several: [1]" in problems[0]
    assert not noted(tmp_path, "both")


def _run(
    hudi: Any,
    kafka: Any,
    folder: pathlib.Path,
    seconds: float,
    strikes_s: tuple[float, float],
    kinds: Mapping[str, float],
    *,
    dies_at: int,
) -> None:
    began, rng, topic = time.monotonic(), random.Random(SEED), f"sinks-{folder.name}"
    make_topic(kafka.bootstrap, topic)
    producer = TopicProducer(kafka.bootstrap, topic, random.Random(rng.random()), deletes=True)
    producer.begin(60)
    cluster = SinkCluster(folder=folder, broker=kafka, topic=topic, jars=jars(), rng=rng, seed=SEED, dies_at=dies_at)
    try:
        cluster.begin()
        producer.start()
        cluster.run(seconds, strikes_s, kinds)
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
    problems += _hudi_goes_on(hudi, folder / "upserts", records)
    assert not problems, "\n".join([note, *problems])
    assert all(cluster.happened[f"{kind} killed"] for kind in kinds) and cluster.happened["driver died"], note
    assert all(noted(folder, kind) for kind in Harm), note
    if seconds >= LONG_S:  # in a short run each slow attempt may end before Spark starts its twin
        assert noted(folder, "both"), note


def _problems(hudi: Any, cluster: SinkCluster, records: list[Record]) -> list[str]:
    """What is wrong with the tables."""
    problems: list[str] = []
    for name in TABLES:
        path = cluster.folder / name
        penstock.maintain(str(path), skip=("compact", "cluster", "clean", "archive"))  # it rolls back what was killed
        ends = {number: cluster.offsets(name, number) for number in cluster.batches(name)}
        batches, by_batch = batches_of(path, cluster.topic), parts(records, ends)
        middle, newest = batches[len(batches) // 2], batches[-1]
        if name == "upserts":
            expected, won = [*fold_topic(records).values()], won_after(records, middle.ends)
            problems += change_problems(path, newest.order_key)
        else:
            by_batch = {number: [one for one in by_batch[number] if one.row() is not None] for number in by_batch}
            expected, won = rows_of_records(records), rows_of_records(records, middle.ends)
            problems += commit_problems(name, penstock.read(str(path)).read_all(), batches, by_batch)
        problems += snapshot_problems(hudi, path, expected)
        problems += offset_problems(name, batches, ends, [number for number in by_batch if by_batch[number]])
        problems += range_problems(hudi, path, middle.order_key, newest.order_key, won, expected)
        problems += [f"{name}: stray file {file}" for file in stray_files(path)]
        problems += [f"{name}: missing file {file}" for file in missing_files(path)]
    return problems


def _hudi_goes_on(hudi: Any, path: pathlib.Path, records: list[Record]) -> list[str]:
    """Hudi updates a row, deletes one and inserts one; what is wrong with the table afterwards."""
    rows = sorted(fold_topic(records).values())
    later = max(row[COLUMNS.index("ts")] for row in rows) + 1000
    updated, deleted = rows[0], rows[-1]
    new = (updated[0], updated[1], later, -1, None, 0.5, "Hudi")
    added = ("eu-new", "eu", later, -2, None, 1.5, None)
    data = [(*new, False), (*added, False), (*deleted[:2], later, -3, None, 0.0, None, True)]
    hudi.write(path, HUDIS_COLUMNS, [[*row[:4], *row[5:]] for row in data], HUDIS_OPTIONS)
    return [*snapshot_problems(hudi, path, [*rows[1:-1], new, added])]


def _note(cluster: SinkCluster, records: list[Record], seconds: float, took: float) -> str:
    """The numbers of the run, which are added to the record too."""
    harms = {kind: noted(cluster.folder, kind) for kind in (*Harm, "both")}
    note = (
        f"sinks: {seconds:.0f} s of kills in {took:.0f} s, seed {SEED}: {len(records)} records, "
        f"{len(cluster.batches('upserts'))} and {len(cluster.batches('inserts'))} micro-batches; "
        f"{dict(sorted(cluster.happened.items()))}; {cluster.driver.starts} starts of the driver, "
        f"{cluster.server.starts} of the server; "
        f"{len(cluster.events('failed'))} failures of streams; tasks that failed {harms['raise']}, whose process ended "
        f"{harms['exit']}, that were slow {harms['stay']}, of which {harms['both']} ran twice at the same time"
    )
    add_to_record(note)
    print(note)
    return note
