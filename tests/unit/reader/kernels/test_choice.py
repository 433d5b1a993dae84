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
    KERNELS,
    KNOWN_KEY_COST,
    LOOKED_UP_KEYS,
    SLOW_BYTES,
    WHOLE_FILE_BYTES,
    WHOLE_FILE_COST,
    KernelChoice,
    slow_bytes,
)
from penstock.reader.split.context import ReadOptions


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


def test_many_keys_are_looked_up_by_the_kernel() -> None:
    choice = KernelChoice(lambda: False)
    half = LOOKED_UP_KEYS // 4 // KNOWN_KEY_COST, LOOKED_UP_KEYS // 4
    assert [choice.for_keys(*half) for _ in range(3)] == [False, False, True]
    assert not KernelChoice(lambda: False).for_keys(100_000, 1_000_000)
    assert KernelChoice(lambda: False).for_keys(LOOKED_UP_KEYS // KNOWN_KEY_COST, 1)
    assert KernelChoice(lambda: True).for_keys(1, 1)


def test_choice_of_a_process_matches_keys_without_the_kernel_and_that_of_a_caller_does_not() -> None:
    chosen = ReadOptions(compiled=True, is_chosen=True)
    assert chosen.matching is KERNELS
    assert ReadOptions(compiled=True).matching is True
    assert ReadOptions(compiled=False, is_chosen=True).matching is False
    assert ReadOptions(compiled=True).decodes_by_kernels(1)
    assert not ReadOptions(compiled=False, is_chosen=True).decodes_by_kernels(SLOW_BYTES + 1)


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


CASES = [(50, "avro", False), (50, "parquet", False), (10_000, "avro", True), (10_000, "parquet", False)]


@pytest.mark.parametrize(("rows", "log_blocks", "loads"), CASES)
@pytest.mark.parametrize("query", ["snapshot", "cdc"])
def test_table_is_read_without_numba(
    tmp_path: pathlib.Path, rows: int, log_blocks: str, loads: bool, query: str
) -> None:
    """Small tables, and larger ones with logs in Parquet, of which a tenth of the keys are deleted."""
    path = str(tmp_path / "t")
    ordering = pa.string() if log_blocks == "avro" else pa.int64()  # texts as ordering values are written in Avro
    schema = pa.schema([("id", pa.string()), ("seq", ordering)])
    penstock.create_table(path, schema, record_key="id", ordering="seq", buckets=1, table_type="merge_on_read")
    keys = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(rows)]
    for seq in (1, 2, 3):
        chosen = keys[::10] if seq == 3 else keys
        written = pa.table({"id": chosen, "seq": pa.array([seq] * len(chosen)).cast(ordering)}, schema)
        penstock.write(path, written, operation="delete" if seq == 3 else "upsert")
    options = {"query": query, "after": "earliest"} if query == "cdc" else {}
    command = [sys.executable, "-P", "-c", PROGRAM, path, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    deleted = rows // 10
    assert json.loads(done.stdout) == [3 * rows + deleted if query == "cdc" else rows - deleted, loads]
