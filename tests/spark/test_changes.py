"""Changes in Spark: a batch and a stream in both formats, with a filter and a projection, in both deployments."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import penstock
from penstock.enumerator.server.run import serve

RowsOf = Callable[[DataFrame | pa.Table], Counter[Any]]
CASE = "B_v9_cdc_mor_data_before"
FORMATS = ["rows", "hudi"]


@pytest.fixture
def path(golden: Any) -> str:
    return str(golden.table(CASE))


def changes(path: str, **options: Any) -> pa.Table:
    """The rows of `penstock.read`, which the golden suite compares with Hudi's."""
    return penstock.read(path, query="cdc", **{"after": "earliest", **options}).read_all()


@pytest.mark.parametrize("form", FORMATS)
def test_batch(spark: SparkSession, path: str, deployment: str, form: str, rows_of: RowsOf) -> None:
    expected = changes(path, cdc_format=form)
    with serve({"t": path}, "127.0.0.1:0", poll_interval_ms=200) as running:
        options = {"server": running.address, "slots": "2"} if deployment == "server" else {}
        reader = spark.read.format("penstock").options(query="cdc", after="earliest", cdcFormat=form, **options)
        frame = reader.load("t" if deployment == "server" else path)
        assert frame.columns == expected.column_names
        assert rows_of(frame) == rows_of(expected)
        assert frame.count() == expected.num_rows


def test_filter_and_a_projection(spark: SparkSession, path: str, rows_of: RowsOf) -> None:
    """Spark's filter and the option `where`: neither changes the kind of a change."""
    whole = changes(path)
    expected = whole.filter(pc.and_kleene(pc.equal(whole["_change_type"], "+U"), pc.greater(whole["v"], 20)))
    assert 0 < expected.num_rows < whole.num_rows
    reader = spark.read.format("penstock").options(query="cdc", after="earliest")
    columns = ("_change_type", "id", "v")
    ours = reader.options(where="_change_type = '+U' AND v > 20", columns=",".join(columns)).load(path)
    assert rows_of(ours) == rows_of(expected.select(columns))
    sparks = spark.read.format("penstock").options(query="cdc", after="earliest").load(path)
    frame = sparks.where((F.col("_change_type") == "+U") & (F.col("v") > 20)).select(*columns)
    assert rows_of(frame) == rows_of(expected.select(columns))


@pytest.mark.parametrize("form", FORMATS)
def test_stream(
    spark: SparkSession, path: str, deployment: str, form: str, tmp_path: pathlib.Path, rows_of: RowsOf
) -> None:
    """One commit per micro-batch: each change once, none of a service, and a restart continues."""
    batches: dict[int, pa.Table] = {}
    expected = changes(path, cdc_format=form)
    time = "ts_ms" if form == "hudi" else "_change_instant"
    with serve({"t": path}, "127.0.0.1:0", poll_interval_ms=200) as running:
        options = {"server": running.address, "slots": "2"} if deployment == "server" else {}
        for _ in range(2):  # the second run has no new data
            frame = (
                spark.readStream.format("penstock")
                .options(query="cdc", after="earliest", cdcFormat=form, maxCommitsPerTrigger="1", **options)
                .load("t" if deployment == "server" else path)
            )
            writer = frame.writeStream.foreachBatch(lambda df, n: batches.__setitem__(n, df.toArrow()))
            query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
            assert query.awaitTermination(120), "the stream did not end"
    assert rows_of(pa.concat_tables(batches.values())) == rows_of(expected)
    instants = [set(table[time].to_pylist()) for table in batches.values() if table.num_rows]
    assert all(len(values) == 1 for values in instants)
    assert sorted(instants, key=min) == instants
    assert len(instants) == len(set(expected[time].to_pylist()))


def test_options_that_do_not_go_together(spark: SparkSession, path: str) -> None:
    with pytest.raises(PySparkException, match="cdcFormat"):
        spark.read.format("penstock").options(cdcFormat="hudi").load(path).count()
    with pytest.raises(PySparkException, match="query=cdc needs the option after"):
        spark.read.format("penstock").options(query="cdc").load(path).count()
