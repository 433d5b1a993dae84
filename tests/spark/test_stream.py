"""A stream delivers each commit once; with one commit per micro-batch, exactly the rows of that commit."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter

import penstock.spark
from penstock.engine.spark.source import PenstockDataSource
from penstock.enumerator.server.run import serve

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
SERVICES = {"inc_05", "inc_08"}
"""The compaction and the clustering of the two tables, which are not data commits."""
CASES = ["B_v9_inc_mor", "B_v6_inc_mor"]


def data_commits(golden: Any, case: str) -> dict[str, str]:
    """Order key of each data commit, in order, to the id of the query of that commit."""
    return {
        query["end"]: query["id"]
        for query in golden.case(case)["queries"]
        if query["id"].removeprefix("inc_").isdecimal() and query["id"] not in SERVICES
    }


class MicroBatches:
    """Collects the rows of each micro-batch by its id."""

    def __init__(self) -> None:
        self.tables: dict[int, pa.Table] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.tables[batch_id] = frame.toArrow()


def stream(
    spark: SparkSession, target: str, sink: Callable[[DataFrame, int], None], checkpoint: pathlib.Path, **options: str
) -> DataStreamWriter:
    frame = spark.readStream.format("penstock").options(**{"after": "earliest", **options}).load(target)
    return frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))


def drained(writer: DataStreamWriter) -> list[Any]:
    """Runs the available micro-batches; the progress of each with a new offset."""
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(120), "the stream did not end"
    return [p for p in query.recentProgress if p["sources"][0]["startOffset"] != p["sources"][0]["endOffset"]]


def end_key(progress: Any) -> str:
    offset = progress["sources"][0]["endOffset"]
    return str((json.loads(offset) if isinstance(offset, str) else offset)["order_key"])


@pytest.mark.parametrize("case", CASES)
def test_stream_with_one_commit_per_micro_batch(
    spark: SparkSession, golden: Any, deployment: str, case: str, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    commits = data_commits(golden, case)
    batches = MicroBatches()
    with serve({"t": str(golden.table(case))}, "127.0.0.1:0", poll_interval_ms=200) as running:
        options = {"server": running.address, "slots": "2"} if deployment == "server" else {}
        target = "t" if deployment == "server" else str(golden.table(case))
        ends = drained(stream(spark, target, batches, tmp_path, maxCommitsPerTrigger="1", **options))
    assert [end_key(progress) for progress in ends] == list(commits)
    assert list(batches.tables) == list(range(len(commits)))
    for (key, query_id), rows in zip(commits.items(), batches.tables.values(), strict=True):
        assert rows_of(rows) == rows_of(golden.expected(case, query_id)), (key, query_id)


def test_stream_without_a_cap_returns_the_whole_range_at_once(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    batches = MicroBatches()
    drained(stream(spark, str(golden.table("B_v9_inc_mor")), batches, tmp_path))
    (rows,) = batches.tables.values()
    assert rows_of(rows) == rows_of(golden.expected("B_v9_inc_mor", "inc_all"))


def test_two_commits_a_micro_batch_after_a_position(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    commits = list(data_commits(golden, "B_v9_inc_mor"))
    batches = MicroBatches()
    ends = drained(
        stream(
            spark,
            str(golden.table("B_v9_inc_mor")),
            batches,
            tmp_path,
            after=commits[3],
            maxCommitsPerTrigger="2",
            columns="_hoodie_record_key,ts",
        )
    )
    assert [end_key(progress) for progress in ends] == [commits[5], commits[7], commits[8]]
    last = golden.expected("B_v9_inc_mor", "inc_11").select(["_hoodie_record_key", "ts"])
    assert rows_of(batches.tables[2]) == rows_of(last)


def test_restarted_stream_continues_after_the_last_micro_batch(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """The sink fails in micro-batch 3. The next run repeats it, then continues; the third has no data."""
    commits = data_commits(golden, "B_v6_inc_mor")
    batches = MicroBatches()

    def fails_at_three(frame: DataFrame, batch_id: int) -> None:
        batches(frame, batch_id)
        if batch_id == 3:
            raise RuntimeError("the sink fails on purpose")

    target, checkpoint = str(golden.table("B_v6_inc_mor")), tmp_path / "checkpoint"
    with pytest.raises(StreamingQueryException, match="the sink fails on purpose"):
        drained(stream(spark, target, fails_at_three, checkpoint, maxCommitsPerTrigger="1"))
    assert list(batches.tables) == [0, 1, 2, 3]
    again = MicroBatches()
    drained(stream(spark, target, again, checkpoint, maxCommitsPerTrigger="1"))
    assert list(again.tables) == list(range(3, len(commits)))
    assert rows_of(again.tables[3]) == rows_of(batches.tables[3])
    both = {**batches.tables, **again.tables}
    for batch_id, query_id in enumerate(commits.values()):
        assert rows_of(both[batch_id]) == rows_of(golden.expected("B_v6_inc_mor", query_id)), query_id
    nothing = MicroBatches()
    drained(stream(spark, target, nothing, checkpoint, maxCommitsPerTrigger="1"))
    assert nothing.tables == {}


def test_commit_that_completes_while_the_stream_waits(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """A continuous query: the last commit's completion is held back until everything before it is delivered."""
    table = golden.copy("B_v9_inc_mor", tmp_path)
    (last,) = (table / ".hoodie" / "timeline").glob("*_20261120213516257.deltacommit")
    aside = tmp_path / last.name
    last.rename(aside)
    commits = list(data_commits(golden, "B_v9_inc_mor").values())
    batches = MicroBatches()

    def sink(frame: DataFrame, batch_id: int) -> None:
        batches(frame, batch_id)
        if batch_id == len(commits) - 2:
            aside.rename(last)
        if batch_id == len(commits) - 1:
            raise RuntimeError("everything is here")

    query = stream(spark, str(table), sink, tmp_path / "checkpoint", maxCommitsPerTrigger="1").start()
    with pytest.raises(StreamingQueryException, match="everything is here"):
        assert not query.awaitTermination(120), "the stream did not see the new commit"
    assert list(batches.tables) == list(range(len(commits)))
    assert rows_of(batches.tables[len(commits) - 1]) == rows_of(golden.expected("B_v9_inc_mor", "inc_11"))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"upto": "latest"}, "upto"),
        ({"limit": "3"}, "limit"),
        ({"asOf": "20261120213516257"}, "asOf"),
        ({"query": "snapshot"}, "query=snapshot cannot be streamed"),
        ({"query": "read_optimized"}, "query=read_optimized cannot be streamed"),
        ({"after": "yesterday"}, "option after: got 'yesterday'"),
        ({"upto": "20261120213505364", "after": "20261120213516257"}, "ends before it starts"),
        ({"upto": "20261120213505364", "after": "latest"}, "ends before it starts"),
        ({"eventTime": "ts"}, "eventTime=ts: the column is a plain bigint"),
        ({"eventTime": "ts", "eventTimeUnit": "ms"}, "eventTime needs maxOutOfOrderness"),
        ({"eventTime": "ts", "eventTimeUnit": "ms", "maxOutOfOrderness": "10"}, "a number without a unit"),
        ({"idleTimeout": "10s"}, "idleTimeout advances the watermark of event times: give eventTime"),
        ({"failOnDataLoss": "false", "onLostRange": "fail"}, "give one of them"),
    ],
)
def test_stream_refuses_invalid_options(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, options: dict[str, str], text: str
) -> None:
    with pytest.raises(PySparkException, match=f"(?s){text}"):
        frame = spark.readStream.format("penstock").options(**options).load(str(golden.table("B_v9_inc_mor")))
        writer = frame.writeStream.foreachBatch(MicroBatches())
        drained(writer.option("checkpointLocation", str(tmp_path)))


def test_checkpoint_of_a_newer_release_is_refused(spark: SparkSession, golden: Any, tmp_path: pathlib.Path) -> None:
    target, checkpoint = str(golden.table("B_v9_inc_mor")), tmp_path / "checkpoint"
    drained(stream(spark, target, MicroBatches(), checkpoint))
    log = checkpoint / "offsets" / "0"
    log.write_text(log.read_text().replace('"version": 2, "scope"', '"version": 4, "scope"'))
    (checkpoint / "offsets" / ".0.crc").unlink(missing_ok=True)
    assert '"version": 4, "scope"' in log.read_text()
    with pytest.raises(PySparkException, match=r"(?s)StateVersionError.*version 4"):
        drained(stream(spark, target, MicroBatches(), checkpoint))


def as_version_1(checkpoint: pathlib.Path) -> None:
    """Rewrites a checkpoint's offsets in the format of the previous release."""
    for log in (checkpoint / "offsets").glob("[0-9]*"):
        *head, offset = log.read_text().splitlines()
        reported = json.loads(offset)
        assert reported["version"] == 2
        text = json.dumps({"version": 1, "order_key": reported["order_key"], "index": reported["index"]})
        log.write_text("\n".join([*head, text]))
        (log.parent / f".{log.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("planned", [False, True], ids=["all committed", "last one only planned"])
def test_checkpoint_of_version_1_goes_on(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf, planned: bool
) -> None:
    """Planned, not committed: Spark requests the same range of two old offsets again."""
    commits = list(data_commits(golden, "B_v9_inc_mor").values())
    target, checkpoint = str(golden.table("B_v9_inc_mor")), tmp_path / "checkpoint"
    batches = MicroBatches()

    def fails_at_four(frame: DataFrame, batch_id: int) -> None:
        if batch_id == 4:
            raise RuntimeError("the sink fails on purpose")
        batches(frame, batch_id)

    with pytest.raises(StreamingQueryException, match="the sink fails on purpose"):
        drained(stream(spark, target, fails_at_four, checkpoint, maxCommitsPerTrigger="1"))
    if not planned:
        (checkpoint / "offsets" / "4").unlink()
        (checkpoint / "offsets" / ".4.crc").unlink(missing_ok=True)
    as_version_1(checkpoint)
    drained(stream(spark, target, batches, checkpoint, maxCommitsPerTrigger="1"))
    assert list(batches.tables) == list(range(len(commits)))
    for batch_id, query_id in enumerate(commits):
        assert rows_of(batches.tables[batch_id]) == rows_of(golden.expected("B_v9_inc_mor", query_id)), query_id


def test_other_options_than_the_checkpoints_are_refused(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path
) -> None:
    target, checkpoint = str(golden.table("B_v9_inc_mor")), tmp_path / "checkpoint"
    drained(stream(spark, target, MicroBatches(), checkpoint))
    with pytest.raises(PySparkException, match=r"(?s)ConfigurationError.*may not change while a checkpoint is used"):
        drained(stream(spark, target, MicroBatches(), checkpoint, where="ts > 3"))


def test_stream_starts_with_a_snapshot_by_default(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    batches = MicroBatches()
    target = str(golden.table("B_v9_inc_mor"))
    drained(stream(spark, target, batches, tmp_path, after="snapshot", maxFilesPerTrigger="1"))
    assert len(batches.tables) > 1
    rows = sum((rows_of(table) for table in batches.tables.values()), Counter())
    assert rows == rows_of(golden.expected("B_v9_inc_mor", "snapshot"))


def test_golden_tables_have_the_expected_services(golden: Any) -> None:
    """The services omitted above are services in the catalogue, and have no rows."""
    for case in CASES:
        assert len(data_commits(golden, case)) == 9
        for service in SERVICES:
            assert golden.expected(case, service).num_rows == 0


def environment(spark: SparkSession) -> dict[str, str]:
    """The environment variables that all queries of the session share, in the JVM."""
    sources: Any = spark._jsparkSession.sessionState().dataSourceManager()
    return dict(sources.lookupDataSource("penstock").dataSourceCls().envVars())


@pytest.mark.parametrize("is_registered", [True, False])
def test_stream_of_a_registered_source_adds_no_variable(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, is_registered: bool
) -> None:
    """A variable that two streams add at once damages the map, and then every task of the session fails. Without
    `register` a stream adds variables: the check sees them."""
    session = spark.newSession()
    if is_registered:
        penstock.spark.register(session)
    else:
        session.dataSource.register(PenstockDataSource)
    before = environment(session)
    drained(stream(session, str(golden.table("B_v9_inc_mor")), MicroBatches(), tmp_path / "checkpoint"))
    after = environment(session)
    assert (after.keys() == before.keys()) == is_registered
    assert spark.sparkContext.environment.keys() & set(after) <= {"PYTHONHASHSEED", "PENSTOCK_HISTORY"}
