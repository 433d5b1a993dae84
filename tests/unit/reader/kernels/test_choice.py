"""Which splits are read by the compiled kernels, and that a small read imports no numba."""

from __future__ import annotations

import hashlib
import json
import pathlib
import subprocess
import sys

import pyarrow as pa
import pytest

import penstock
from penstock.proto.model.changes import GroupChanges
from penstock.proto.model.files import FileRef
from penstock.proto.model.hybrid import KafkaRange
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import RowGroupRun, Split, WholeFile
from penstock.reader.kernels.choice import (
    BASE_BYTES_FOR_ONE,
    SLOW_BYTES,
    WHOLE_FILE_BYTES,
    WHOLE_FILE_COST,
    KernelChoice,
    slow_bytes,
)


def split_of(base_bytes: int | None, *log_bytes: int, part: object = None) -> Split:
    return Split(
        split_id="s",
        partition="",
        partition_values=(),
        file_group="g",
        order_key=InstantTime("20261126000000000"),
        base=None if base_bytes is None else FileRef("b.parquet", base_bytes),
        logs=tuple(FileRef(f"{number}.log", size) for number, size in enumerate(log_bytes)),
        part=part or WholeFile(),  # type: ignore[arg-type]
    )


def test_first_splits_of_a_process_are_read_without_kernels() -> None:
    choice = KernelChoice(lambda: False)
    half = split_of(None, SLOW_BYTES // 2)
    assert [choice.for_split(half) for _ in range(3)] == [False, False, True]


def test_large_split_is_read_by_kernels_and_leaves_room_for_small_ones() -> None:
    choice = KernelChoice(lambda: False)
    assert choice.for_split(split_of(None, SLOW_BYTES + 1))
    assert not choice.for_split(split_of(None, SLOW_BYTES))


def test_loaded_kernels_are_used() -> None:
    assert KernelChoice(lambda: True).for_split(split_of(None, 1))


def test_base_with_logs_counts_in_part_and_a_base_alone_does_not() -> None:
    assert slow_bytes(split_of(10 * BASE_BYTES_FOR_ONE, 7, 5)) == 10 + 12
    assert slow_bytes(split_of(WHOLE_FILE_BYTES + 1)) == slow_bytes(split_of(1 << 40)) == 0
    assert slow_bytes(split_of(1 << 40, part=RowGroupRun(0, 1, 1 << 30))) == 0


def test_many_small_files_are_checked_by_a_kernel() -> None:
    choice = KernelChoice(lambda: False)
    files = SLOW_BYTES // WHOLE_FILE_COST
    answers = [choice.for_split(split_of(WHOLE_FILE_BYTES)) for _ in range(files + 1)]
    assert answers == [False] * files + [True]


def test_topics_and_changes_count_whole() -> None:
    topic = split_of(None, part=KafkaRange(topic="t", topic_id="i", partition=0, first=0, end=100))
    assert slow_bytes(topic) == 8 * topic.size_bytes > 0
    assert slow_bytes(split_of(None, part=GroupChanges(steps=()))) == 0


PROGRAM = """
import json, sys, penstock
options = json.loads(sys.argv[2])
rows = penstock.read(sys.argv[1], **options).read_all().num_rows
print(json.dumps([rows, "numba" in sys.modules]))
"""


@pytest.mark.parametrize(("rows", "loads"), [(50, False), (10_000, True)])
@pytest.mark.parametrize("query", ["snapshot", "cdc"])
def test_small_table_is_read_without_numba(tmp_path: pathlib.Path, rows: int, loads: bool, query: str) -> None:
    path = str(tmp_path / "t")
    schema = pa.schema([("id", pa.string()), ("seq", pa.int64())])
    penstock.create_table(path, schema, record_key="id", ordering="seq", buckets=1, table_type="merge_on_read")
    for seq in (1, 2):
        keys = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(rows)]
        penstock.write(path, pa.table({"id": keys, "seq": [seq] * rows}, schema))
    options = {"query": query, "after": "earliest"} if query == "cdc" else {}
    command = [sys.executable, "-P", "-c", PROGRAM, path, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [rows * 3 if query == "cdc" else rows, loads]
