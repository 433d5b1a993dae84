"""Log compactions of golden tables change no row, at any time and in any range."""

from __future__ import annotations

import itertools
import pathlib
from typing import Protocol

import pyarrow as pa
import pytest

from penstock.enumerator.planning.discovery import read_timeline
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, SnapshotAsOf
from penstock.reader.read_split import output_schema, read_split
from penstock.table.hudi_table import open_table
from tests.golden.rows import difference

pytestmark = pytest.mark.golden


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def rows_of(folder: pathlib.Path, query: Query) -> pa.Table:
    plan = plan_request(open_table(str(folder)), "t", PlanRequest(table="t", query=query))
    batches = [part.batch for split in plan.splits for part in read_split(plan.scan, split)]
    return pa.Table.from_batches(batches, output_schema(plan.scan))


@pytest.mark.parametrize("case", ["A_log_compaction_v6_h0150", "A_log_compaction_v8_h102", "A_log_compaction_v9_h120"])
def test_state_after_a_log_compaction_is_the_state_before_it(golden: Golden, case: str) -> None:
    folder = golden.table(case)
    facts = read_timeline(open_table(str(folder)))
    writes = facts.timeline.completed_writes
    compactions = 0
    for before, after in itertools.pairwise(writes):
        key = Position(InstantTime(facts.timeline.order_key(after)))
        as_of = rows_of(folder, SnapshotAsOf(after.requested_time))
        assert difference(_answer(rows_of(folder, Incremental(upto=key))), _answer(as_of)) == ""
        if facts.commits[after.requested_time].operation == "LOG_COMPACT":
            compactions += 1
            assert difference(_answer(as_of), _answer(rows_of(folder, SnapshotAsOf(before.requested_time)))) == ""
            start = Position(InstantTime(facts.timeline.order_key(before)))
            assert rows_of(folder, Incremental(start, key)).num_rows == 0
    assert compactions >= 3


@pytest.mark.parametrize("case", ["A_log_compaction_v6_h0150", "A_log_compaction_v8_h102", "A_log_compaction_v9_h120"])
def test_range_over_log_compactions_has_the_rows_that_its_instants_wrote(golden: Golden, case: str) -> None:
    """1.2.0 writes the log compaction's instant to rewritten rows, so their commit time does not identify them. The
    expected rows of each instant come from the state at its end, before later log compactions."""
    folder = golden.table(case)
    facts = read_timeline(open_table(str(folder)))
    line = facts.timeline
    data = [item for item in line.completed_writes if facts.is_data(item)]
    newest = Position(InstantTime(line.order_key(data[-1])))
    wrote: dict[str, str] = {}
    for item in data:
        upto = Position(InstantTime(line.order_key(item)))
        try:
            rows = rows_of(folder, Incremental(Position(InstantTime(str(int(line.order_key(item)) - 1))), upto))
        except PositionExpired:
            assert item in data[:2], "only the oldest files were cleaned"
            continue
        wrote |= dict.fromkeys(rows["_hoodie_record_key"].to_pylist(), item.requested_time)
    left = rows_of(folder, Incremental(upto=newest))["_hoodie_record_key"].to_pylist()
    for number, item in enumerate(data[:-1]):
        later = {other.requested_time for other in data[number + 1 :]}
        result = rows_of(folder, Incremental(Position(InstantTime(line.order_key(item))), newest))
        assert sorted(result["_hoodie_record_key"].to_pylist()) == sorted(
            key for key in left if wrote.get(key) in later
        )
        assert set(result["_hoodie_commit_time"].to_pylist()) <= later


def _answer(rows: pa.Table) -> pa.Table:
    """The rows without the columns that 1.2.0 sets to the log compaction's instant."""
    return rows.drop_columns(["_hoodie_commit_time", "_hoodie_commit_seqno"])
