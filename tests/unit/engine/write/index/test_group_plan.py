"""File groups by counted rows: by bucket, by slice, and new rows by the hash of their keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.engine.write.current_table import CurrentTable, current_table
from penstock.engine.write.index.group_plan import NEW, SPREAD, CountedRows, plan_groups
from penstock.engine.write.index.index_choice import BucketIndex, KeyIndex
from penstock.engine.write.operations import Operation
from penstock.proto.errors import ConfigurationError, TableError, WriteConflict
from tests.unit.engine.write.index import test_assignment
from tests.unit.engine.write.index.test_assignment import SIZES, assigner, group_of, locked
from tests.unit.engine.write.recorded_storage import Lake

bucket, simple = test_assignment.bucket, test_assignment.simple


def counted(slot: int, rows: int, partition: str = "oslo", *, deletes: int = 0, copies: bool = False) -> CountedRows:
    return CountedRows(partition=partition, slot=slot, rows=rows, data_rows=rows - deletes, has_copies=copies)


def test_each_bucket_is_a_group(bucket: Lake) -> None:
    bucket.write([("a", 1, "oslo")])
    current = current_table(bucket.table())
    (stored,) = current.slices.of("oslo")
    known = int(stored.file_id[:8])
    slots = [counted(number, 5, deletes=5) for number in (1, 0)] + [counted(0, 1, "bern")]
    plan = plan_groups(assigner(BucketIndex(2)), current, slots)
    assert [(one.partition, int(one.file_id[:8])) for one in plan.writes] == [("bern", 0), ("oslo", 0), ("oslo", 1)]
    assert [one.latest for one in plan.writes] == [None, *(stored if slot == known else None for slot in (0, 1))]
    assert [(route.partition, route.slot, route.groups) for route in plan.routes] == [
        ("bern", 0, (0,)),
        ("oslo", 0, (1,)),
        ("oslo", 1, (2,)),
    ]
    with pytest.raises(ConfigurationError, match="would give a bucket a second file group"):
        plan_groups(assigner(BucketIndex(2), Operation.BULK_INSERT), current, slots)


def test_stored_keys_are_in_their_slice_and_new_ones_fill_it(simple: CurrentTable) -> None:
    plan = plan_groups(assigner(KeyIndex()), simple, [counted(0, 3), counted(NEW, 9, deletes=2)])
    (write,) = plan.writes
    assert (write.partition, write.file_id) == group_of(simple) and write.rewrites
    assert [(route.slot, route.groups, route.limits) for route in plan.routes] == [(NEW, (0,), ()), (0, (0,), ())]
    (deletes,) = plan_groups(assigner(KeyIndex(), Operation.DELETE), simple, [counted(0, 3, deletes=3)]).writes
    assert not deletes.rewrites


def test_new_rows_are_spread_by_the_room_of_files(simple: CurrentTable) -> None:
    rows = 3 * SIZES.rows_of_file
    one = replace(assigner(KeyIndex(), Operation.BULK_INSERT), sizes=SIZES)
    sizes = one.sizes_of(simple)
    plan = plan_groups(one, simple, [counted(NEW, rows)])
    (route,) = plan.routes
    assert len(plan.writes) == len(route.groups) == -(-rows // sizes.rows_of_file) > 1
    assert len({write.file_id for write in plan.writes}) == len(plan.writes)
    assert all(write.latest is None for write in plan.writes)
    full = range(1, len(route.groups))
    assert route.limits == tuple(SPREAD * number * sizes.rows_of_file // rows for number in full)


def test_deletes_of_unknown_keys_have_no_group(simple: CurrentTable) -> None:
    plan = plan_groups(assigner(KeyIndex()), simple, [counted(NEW, 4, deletes=4)])
    assert plan.writes == plan.routes == ()


def test_group_of_a_pending_service_and_copies_below_logs_are_refused(
    simple: CurrentTable, bucket: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WriteConflict, match="is being rewritten by a pending clustering"):
        plan_groups(assigner(KeyIndex()), locked(simple, group_of(simple)), [counted(0, 1)])
    busy = replace(simple.slices.of("oslo")[0], being_compacted=True)
    slices = replace(simple.slices, by_partition={"oslo": [busy]})
    merging = replace(simple, slices=slices, table=bucket.table())
    assert plan_groups(assigner(KeyIndex()), merging, [counted(0, 1, copies=True)]).writes[0].rewrites is False
    on_read = Lake(bucket.path.with_name("m"), (9, "merge_on_read", "simple"), monkeypatch)
    merging = replace(merging, table=on_read.table())
    with pytest.raises(TableError, match="has a key of this write in several rows"):
        plan_groups(assigner(KeyIndex()), merging, [counted(0, 1, copies=True)])
