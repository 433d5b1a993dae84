"""Hudi tables through both enumerators: the same plan, the same splits, and plans that round-trip through bytes."""

from __future__ import annotations

import logging
import pathlib
import re
import shutil
from dataclasses import replace
from typing import Any

import pytest

from penstock.enumerator.embedded import EmbeddedEnumerator
from penstock.enumerator.server.run import serve
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import PenstockError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, Query, ReadOptimized, Snapshot
from penstock.proto.model.reports import EndOfSlot, SplitReport
from penstock.proto.model.splits import Split
from penstock.reader.read_split import read_split
from tests.plan_bytes import decode_plan, encode_plan

pytestmark = pytest.mark.golden

TABLES = {"v9": "A_positions_v9_h120", "v6": "A_compaction_pending_v6_h0150"}


def pulled(client: EnumeratorClient, plan_id: str, slots: int) -> list[Split]:
    """Every split of a plan, slots in turn as parallel tasks pull them, with a report for each."""
    result = []
    at = dict.fromkeys(range(slots), 0)
    while at:
        for slot, index in list(at.items()):
            answer = client.next_split(plan_id, slot, index)
            if isinstance(answer, EndOfSlot):
                del at[slot]
                continue
            result.append(answer.split)
            client.finish_split(plan_id, slot, index, SplitReport(rows=1, size_bytes=answer.split.size_bytes))
            at[slot] += 1
    return result


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("query", [Snapshot(), ReadOptimized(), Incremental(), *map(Changes, ChangeFormat)])
def test_served_table_has_the_plan_of_the_embedded_enumerator(golden: Any, name: str, query: Query) -> None:
    path = str(golden.table(TABLES[name]))
    embedded = EmbeddedEnumerator({name: path})
    request = PlanRequest(table=name, query=query, slots=2)
    plan = embedded.plan(request)
    assert plan.splits
    with serve({name: path}, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        assert client.describe_table(name) == embedded.describe_table(name)
        assert client.newest_position(name) == embedded.newest_position(name) == plan.commit_range.upto
        opened = client.open_plan(request)
        assert opened.scan == client.describe_plan(opened.plan_id) == plan.scan
        result = pulled(client, opened.plan_id, opened.slots)
    assert sorted(result, key=lambda split: (split.order_key, split.split_id)) == list(plan.splits)


@pytest.mark.parametrize("query", [Snapshot(), Incremental(), Changes(ChangeFormat.ROWS)])
def test_completion_times_are_served(golden: Any, query: Query) -> None:
    path = str(golden.table(TABLES["v9"]))
    request = PlanRequest(table="t", query=query, slots=2, completion_time=True, timeline_timezone="UTC")
    plan = EmbeddedEnumerator({"t": path}).plan(request)
    assert plan.scan.completion_times is not None and plan.scan.completion_times.instants
    assert plan.scan.columns[-1] == "_completion_time"
    assert decode_plan(encode_plan(plan)) == plan
    with serve({"t": path}, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        opened = client.open_plan(request)
        assert opened.scan == client.describe_plan(opened.plan_id) == plan.scan
    without = EmbeddedEnumerator({"t": path}).plan(replace(request, completion_time=False, timeline_timezone=""))
    assert without.splits == plan.splits
    assert without.scan == replace(plan.scan, columns=plan.scan.columns[:-1], completion_times=None)


@pytest.mark.parametrize("name", TABLES)
def test_positions_advance_commit_by_commit_to_the_newest(golden: Any, name: str) -> None:
    with serve({name: str(golden.table(TABLES[name]))}, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        newest = client.newest_position(name)
        at: Position = EARLIEST
        ranges = splits = 0
        while at != newest:
            upto = client.newest_position(name, at, 1)
            assert at < upto
            opened = client.open_plan(PlanRequest(table=name, query=Incremental(at, upto)))
            at, ranges, splits = upto, ranges + 1, splits + opened.splits  # a commit of only deletes has no split
        assert splits > ranges > 1
        assert client.newest_position(name, newest, 1) == newest
        assert client.open_plan(PlanRequest(table=name, query=Incremental(newest))).splits == 0


def test_splits_are_assigned_once_without_the_timeline_and_logged(
    golden: Any, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "trips"
    shutil.copytree(golden.table(TABLES["v9"]), path)
    with serve({"trips": str(path)}, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        opened = client.open_plan(PlanRequest(table="trips", query=Snapshot(), slots=2))
        (path / ".hoodie").rename(tmp_path / "away")
        with caplog.at_level(logging.DEBUG, "penstock.enumerator"):
            first = pulled(client, opened.plan_id, opened.slots)
            again = pulled(client, opened.plan_id, opened.slots)
    assert len(first) == opened.splits
    assert again == first
    lines = [m for r in caplog.records if (m := r.getMessage()).startswith("split assigned")]
    reported = [re.search(r"slot=(\d+) index=\d+ split=(\S+)", line) for line in lines]
    assert len({match[2] for match in reported if match}) == len(lines) == opened.splits
    assert {match[1] for match in reported if match} == {"0", "1"}


@pytest.mark.exhaustive
def test_plans_of_golden_tables_round_trip_through_bytes(golden: Any) -> None:
    enumerator = EmbeddedEnumerator()
    planned = 0
    for name in golden.names():
        for query in (Snapshot(), Incremental(), *map(Changes, ChangeFormat)):
            try:
                plan = enumerator.plan(PlanRequest(table=str(golden.table(name)), query=query, slots=1))
            except PenstockError:
                continue  # the golden suite tests which entries may be refused
            assert decode_plan(encode_plan(plan)) == plan, name
            planned += 1
    assert planned > 300


CHANGED = "B_v9_cdc_mor_op_key_only"
"""Its changes are logged by key, so that each needs the states before and after."""


@pytest.mark.parametrize("form", ChangeFormat)
def test_changes_of_served_splits_are_those_of_embedded_ones(golden: Any, form: ChangeFormat) -> None:
    path = str(golden.table(CHANGED))
    plan = EmbeddedEnumerator({"t": path}).plan(PlanRequest(table="t", query=Changes(form)))
    assert len(plan.splits) >= 3
    with serve({"t": path}, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        opened = client.open_plan(PlanRequest(table="t", query=Changes(form), slots=2))
        served = {split.split_id: split for split in pulled(client, opened.plan_id, opened.slots)}
    for split in plan.splits:
        expected = [part.batch for part in read_split(plan.scan, split)]
        assert [part.batch for part in read_split(opened.scan, served[split.split_id])] == expected
        assert sum(batch.num_rows for batch in expected)


def test_range_of_changes_continues_at_the_end_of_the_last_one(golden: Any) -> None:
    with serve({"t": str(golden.table(CHANGED))}, "127.0.0.1:0") as server:
        client = EnumeratorClient(server.address)
        newest, at, steps = client.newest_position("t"), EARLIEST, []
        while at != newest:
            upto = client.newest_position("t", at, 1)
            opened = client.open_plan(PlanRequest(table="t", query=Changes(ChangeFormat.ROWS, at, upto), slots=1))
            result = pulled(client, opened.plan_id, opened.slots)
            steps += [step for split in result for step in split.part.steps]
            at = upto
        opened = client.open_plan(PlanRequest(table="t", query=Changes(ChangeFormat.ROWS), slots=1))
        whole = [step for split in pulled(client, opened.plan_id, opened.slots) for step in split.part.steps]
    assert sorted(steps, key=repr) == sorted(whole, key=repr)
    assert len({step.instant for step in steps}) >= 5
