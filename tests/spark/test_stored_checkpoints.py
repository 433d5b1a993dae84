"""Checkpoints of queries of an earlier release resume, and each micro-batch has the same rows.

tests/fixtures/releases holds them. Each query failed in its second micro-batch, which was planned and not committed.
"""

from __future__ import annotations

import json
import pathlib
import zipfile
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.spark import register
from tests.recorded_calls import STREAMS, TABLES, URI, batch_rows

RELEASES = pathlib.Path(__file__).parent.parent / "fixtures" / "releases"
CASES = [
    (file.parent.name, file.stem.removeprefix("checkpoint-")) for file in sorted(RELEASES.glob("*/checkpoint-*.zip"))
]


@pytest.mark.parametrize(("version", "stream"), CASES)
def test_stored_checkpoint_goes_on_with_the_same_micro_batches(
    spark: SparkSession, golden: Any, tmp_path: pathlib.Path, version: str, stream: str
) -> None:
    register(spark)
    with zipfile.ZipFile(RELEASES / version / f"checkpoint-{stream}.zip") as packed:
        packed.extractall(tmp_path / "checkpoint")
    batches: dict[str, list[str]] = {}

    def write(frame: DataFrame, batch_id: int) -> None:
        batches[str(batch_id)] = batch_rows(frame.toArrow())

    options = STREAMS[stream]
    path = str(golden.table(TABLES[options["path"].removeprefix(URI)]))
    frame = spark.readStream.format("penstock").options(**{**options, "path": path}).load()
    query = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()
    stored = json.loads((RELEASES / version / "batches.json").read_text(encoding="utf-8"))
    assert batches == stored[stream]
