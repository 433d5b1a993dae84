"""A task writes the files of its groups, and returns their statistics."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.spark.write.columns import GROUP
from penstock.engine.spark.write.file_groups import REPORTS, GroupWriter, groups_of, stat_of, write_file_groups
from penstock.engine.write.index.group_plan import CountedRows, plan_groups
from penstock.engine.write.planned_write import WriteOptions, open_write
from penstock.proto.errors import InvariantViolation
from penstock.table.timeline.commits import WriteStat
from penstock.table.timeline.instants import Action
from penstock.writer.transaction.attempt_files import open_for_attempts
from penstock.writer.transaction.markers import markers_of
from penstock.writer.transaction.transaction import transaction
from tests.unit.engine.spark.write.opened_table import opened
from tests.unit.engine.write.recorded_storage import Kind, Lake, arrow

INSTANT = "20260101000000000"


def numbered(rows: pa.Table, numbers: list[int]) -> pa.RecordBatch:
    """Rows of groups with these numbers."""
    (batch,) = rows.append_column(GROUP, pa.array(numbers, pa.int32())).combine_chunks().to_batches()
    return batch


def test_rows_of_a_group_stand_together_whatever_the_batches() -> None:
    rows = arrow([(f"k{number}", number, "oslo") for number in range(6)])
    numbers = [1, 1, 4, 4, 4, 9]
    whole = numbered(rows, numbers)
    for size in range(1, 7):
        cut = [whole.slice(begin, size) for begin in range(0, 6, size)]
        groups = list(groups_of(iter([whole.slice(0, 0), *cut])))
        assert [number for number, _ in groups] == [1, 4, 9]
        assert [data.num_rows for _, data in groups] == [2, 3, 1]
        assert pa.concat_tables([data for _, data in groups]).combine_chunks().equals(rows.combine_chunks())
    assert list(groups_of(iter([]))) == []


@pytest.mark.parametrize("kind", [(9, "merge_on_read", "bucket"), (6, "copy_on_write", "bucket")])
def test_task_writes_its_groups_and_reports_them(make_lake: Callable[[Kind], Lake], kind: Kind) -> None:
    lake = make_lake(kind)
    planned = open_write(str(lake.path), WriteOptions())
    slots = [CountedRows(partition="oslo", slot=slot, rows=1, data_rows=1) for slot in (0, 1)]
    writes = plan_groups(planned.assigner, planned.early, slots).writes
    data = arrow([("a", 1, "oslo"), ("a", 3, "oslo"), ("b", 2, "oslo")])
    schema, _ = planned.preparation.rows(planned.early, data)
    action = Action.DELTA_COMMIT if planned.table.properties.is_merge_on_read else Action.COMMIT
    with (
        transaction(planned.table, planned.storage, planned.environment, action) as begun,
        open_for_attempts(lake.storage, begun.requested_time),
    ):
        instant = begun.requested_time
        writer = GroupWriter(table=opened(lake), schema=schema, instant=instant, writes=writes, salt=77)
        copied = replace(pickle.loads(pickle.dumps(writer)))
        reports = pa.Table.from_batches(write_file_groups(copied)(iter([numbered(data, [1, 1, 1])])))
    assert reports.schema == REPORTS
    assert reports["number"].to_pylist() == [1] and reports["rows"].to_pylist() == [3]
    stat = stat_of(reports["stat"][0].as_py())
    assert stat is not None and stat.num_inserts == 2, "one row of each key"
    assert stat.file_id == writes[1].file_id and stat.file_name == f"{stat.file_id}_2-77-0_{instant}.parquet"
    assert [marker.file_name for marker in markers_of(lake.storage, instant)] == [stat.file_name]
    rows = pq.read_table(lake.path / stat.path)
    assert dict(zip(rows["id"].to_pylist(), rows["seq"].to_pylist(), strict=True)) == {"a": 3, "b": 2}
    assert rows["_hoodie_commit_seqno"].to_pylist() == [f"{instant}_2_0", f"{instant}_2_1"]


def test_rows_of_another_partition_are_not_written(make_lake: Callable[[Kind], Lake]) -> None:
    lake = make_lake((9, "merge_on_read", "bucket"))
    planned = open_write(str(lake.path), WriteOptions())
    slots = [CountedRows(partition="oslo", slot=0, rows=1, data_rows=1)]
    writes = plan_groups(planned.assigner, planned.early, slots).writes
    data = arrow([("a", 1, "bern")])
    schema, _ = planned.preparation.rows(planned.early, data)
    writer = GroupWriter(table=opened(lake), schema=schema, instant=INSTANT, writes=writes, salt=77)
    with open_for_attempts(lake.storage, INSTANT), pytest.raises(InvariantViolation, match=r"'bern'.*in file group"):
        writer.write(0, data, 0)


def test_statistics_survive_their_text() -> None:
    import json
    from dataclasses import asdict

    stat = WriteStat(
        partition="p",
        file_id="f",
        path="p/f",
        num_writes=1,
        num_deletes=2,
        num_inserts=3,
        num_update_writes=4,
        file_size_bytes=5,
        base_file="b",
        log_files=("l", "m"),
        prev_commit="1",
        change_logs={"p/c": 6},
        prev_base_file="o",
    )
    assert stat_of(json.dumps(asdict(stat))) == stat
    assert stat_of("") is None
