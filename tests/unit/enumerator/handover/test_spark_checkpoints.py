"""Checkpoints of Spark queries: the folder of each query, and errors of damaged checkpoints."""

from __future__ import annotations

import pathlib

import pytest

from penstock.enumerator.handover.offset_formats import SinkBatch
from penstock.enumerator.handover.offsets import OffsetMap
from penstock.enumerator.handover.spark_checkpoints import SparkCheckpoints
from penstock.proto.errors import ConfigurationError, CorruptFile, FormatError, PositionExpired

LOG = 'v1\n{"batchWatermarkMs":0}\n{"t":{"0":5}}'


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "1").write_text(LOG)
    return tmp_path


def test_batch_has_the_offsets_of_the_checkpoint(folder: pathlib.Path) -> None:
    checkpoints = SparkCheckpoints({"w": str(folder)})
    assert checkpoints(SinkBatch("w", 1)) == (OffsetMap("t", ((0, 5),)),)
    assert checkpoints(SinkBatch("v", 1)) is None


def test_unnamed_folder_belongs_to_the_first_query_only(folder: pathlib.Path) -> None:
    checkpoints = SparkCheckpoints({}, str(folder))
    assert checkpoints(SinkBatch("w", 1)) is not None
    assert checkpoints(SinkBatch("v", 1)) is None
    assert checkpoints(SinkBatch("w", 1)) is not None


def test_batch_that_spark_dropped_is_unknown(folder: pathlib.Path) -> None:
    with pytest.raises(PositionExpired, match="offsets/0 is gone"):
        SparkCheckpoints({}, str(folder))(SinkBatch("w", 0))


def test_missing_checkpoint_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="no checkpoint"):
        SparkCheckpoints({}, str(tmp_path))(SinkBatch("w", 0))


@pytest.mark.parametrize("data", [b"", b"v1\n\xff\n", LOG[:-2].encode(), LOG.replace("v1", "v9").encode()])
def test_damaged_checkpoint_is_an_error_with_its_file(folder: pathlib.Path, data: bytes) -> None:
    (folder / "offsets" / "1").write_bytes(data)
    with pytest.raises(FormatError, match="batch 1 of the Spark query 'w'"):
        SparkCheckpoints({}, str(folder))(SinkBatch("w", 1))


def test_large_checkpoint_file_is_not_read(folder: pathlib.Path) -> None:
    with (folder / "offsets" / "1").open("r+b") as file:
        file.truncate(1 << 30)
    with pytest.raises(CorruptFile):
        SparkCheckpoints({}, str(folder))(SinkBatch("w", 1))
