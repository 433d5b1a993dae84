"""Sums of numbers in commit metadata stay within 64 bits for any input."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

import penstock
from penstock.engine.connect import embedded_enumerator
from penstock.proto.codec.splits import split_from_message, split_to_message
from penstock.proto.errors import CorruptBlock
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import MAX_SPLIT_BYTES, Split

CASE = "A_merge_event_long_v6_h0150"


def hostile(folder: pathlib.Path) -> None:
    """Three write stats of one log file, whose counts add up beyond 64 bits."""
    file = sorted((folder / ".hoodie").glob("*.deltacommit"))[-1]
    commit = json.loads(file.read_text())
    stats = next(
        stats for stats in commit["partitionToWriteStats"].values() if any(".log." in stat["path"] for stat in stats)
    )
    log = next(stat for stat in stats if ".log." in stat["path"])
    log |= dict.fromkeys(("numWrites", "numDeletes", "fileSizeInBytes"), 2**63 - 1)
    stats += [dict(log), dict(log)]
    file.write_text(json.dumps(commit))


@pytest.mark.golden
def test_counts_that_add_up_beyond_64_bits_can_be_planned(golden: Any, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(CASE, tmp_path)
    hostile(folder)
    plan = embedded_enumerator().plan(PlanRequest(table=str(folder), query=Snapshot()))
    writes = [write for split in plan.splits for log in split.logs for write in log.writes or ()]
    assert max(write.data_rows for write in writes) >= 3 * 2**40, "the hostile commit is met"
    assert [split_from_message(split_to_message(split)) for split in plan.splits] == list(plan.splits)
    with pytest.raises(CorruptBlock, match="expected 3298534883328"):
        list(penstock.read(str(folder)))


def test_split_size_is_bounded_by_64_bits() -> None:
    logs = tuple(FileRef(f"l{number}", 2**63 - 1) for number in range(3))
    split = Split(
        split_id="s",
        partition="p",
        partition_values=(),
        file_group="g",
        order_key=InstantTime("1"),
        base=FileRef("b", 2**63 - 1),
        logs=logs,
    )
    assert split.size_bytes == MAX_SPLIT_BYTES
