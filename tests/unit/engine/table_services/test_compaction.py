"""Compaction: rows stay, logs become base files, and writes go on between plan and run."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.results import ServiceState
from penstock.engine.write.create import create_table
from penstock.engine.write.current_table import current_table
from penstock.engine.write.rollback import rollback
from penstock.engine.write.write import write
from penstock.proto.errors import ConfigurationError, CorruptFile, UnsupportedFeature, WriteConflict
from tests.unit.engine.table_services.serviced_lake import LOGS, commit_of, rows_of, upsert, with_logs
from tests.unit.engine.write.recorded_storage import FIRST, Kind, Lake
from tests.unit.engine.write.test_kills import leftovers
from tests.unit.engine.write.test_traps_of_timeline import set_property

both = pytest.mark.parametrize("kind", LOGS, ids=["9", "6"])


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Lake:
    return with_logs(tmp_path / "t", kind, monkeypatch)


@both
def test_rows_stay_and_logs_become_base_files(lake: Lake) -> None:
    before = rows_of(lake.path)
    (due,) = compact(str(lake.path), dry_run=True)
    (result,) = compact(str(lake.path))
    after = penstock.read(str(lake.path)).read_all()
    assert rows_of(lake.path) == before == rows_of(lake.path, query="read_optimized")
    files = {file.rpartition("/")[2] for file in lake.files() if f"_{result.instant}.parquet" in file}
    assert sorted(set(after["_hoodie_file_name"].to_pylist())) == sorted(files)
    assert (due.groups, due.files, due.read_bytes) == (result.groups, result.files, result.read_bytes)
    assert (result.rows, result.written_files) == (after.num_rows, len(files))
    assert result.completion_time > result.instant if lake.layout == 2 else result.completion_time == result.instant
    assert compact(str(lake.path)) == (), "nothing is left to compact"
    assert leftovers(lake.path) == []


@both
def test_metadata_counts_rows_and_logs(lake: Lake) -> None:
    slices = current_table(lake.table()).slices.by_partition
    before = {item.file_id: item for items in slices.values() for item in items if item.logs}
    (result,) = compact(str(lake.path))
    commit = commit_of(lake.path, result.instant)
    assert (commit.operation, commit.compacted, commit.may_change_schema) == ("COMPACT", True, False)
    assert commit.schema_json and "_hoodie" not in commit.schema_json.replace("_hoodie_is_deleted", "")
    stats = {stat.file_id: stat for stat in commit.stats}
    assert set(stats) == set(before)
    totals = [0, 0, 0, 0]
    for group, stat in stats.items():
        file = pq.ParquetFile(lake.path / stat.path)
        item = before[group]
        assert (stat.num_writes, stat.file_size_bytes) == (
            file.metadata.num_rows,
            (lake.path / stat.path).stat().st_size,
        )
        assert stat.prev_commit == item.base_instant
        assert stat.prev_base_file == (item.base_name if lake.layout == 2 else "")
        assert stat.compacted_logs is not None and stat.compacted_logs.files == len(item.logs)
        assert stat.compacted_logs.size_bytes == sum(log.size_bytes for log in item.logs)
        assert b"org.apache.hudi.bloomfilter" in file.metadata.metadata
        totals = [
            one + more
            for one, more in zip(
                totals,
                (stat.num_inserts, stat.num_update_writes, stat.num_deletes, stat.compacted_logs.records),
                strict=True,
            )
        ]
    assert totals == [2, 1, 3, 8], "k13 and k14 are new, k1 won, k3, k4 and k0 are deleted"


@both
def test_writes_between_plan_and_run_survive(lake: Lake) -> None:
    (plan,) = compact(str(lake.path), schedule_only=True)
    assert plan.state is ServiceState.SCHEDULED
    planned = rows_of(lake.path)
    upsert(lake.path, ("k5", 9, "oslo"), ("k2", 9, "riga"))
    upsert(lake.path, ("k6", 0, "riga"), operation="delete")
    before = rows_of(lake.path)
    (result,) = compact(str(lake.path), run_only=True)
    assert result.instant == plan.instant
    assert rows_of(lake.path) == before != planned
    assert rows_of(lake.path, query="read_optimized") == planned
    upsert(lake.path, ("k7", 9, "oslo"))
    before = rows_of(lake.path)
    compact(str(lake.path))
    assert rows_of(lake.path) == before == rows_of(lake.path, query="read_optimized")


@both
def test_dry_run_writes_nothing(lake: Lake) -> None:
    before = lake.everything()
    (due,) = compact(str(lake.path), dry_run=True)
    assert (due.instant, due.state) == ("", ServiceState.DUE)
    assert lake.everything() == before
    (plan,) = compact(str(lake.path), schedule_only=True)
    upsert(lake.path, ("k15", 1, "oslo"))
    before = lake.everything()
    (pending,) = compact(str(lake.path), dry_run=True)
    assert (pending.instant, pending.groups) == (plan.instant, due.groups)
    assert lake.everything() == before


@both
def test_only_chosen_partitions_are_compacted(lake: Lake) -> None:
    before = rows_of(lake.path)
    (result,) = compact(str(lake.path), partitions=["oslo"])
    assert result.partitions == ("oslo",)
    (rest,) = compact(str(lake.path))
    assert rest.partitions == ("riga",)
    assert rows_of(lake.path) == before


@both
def test_group_whose_rows_are_deleted_has_an_empty_base_file(lake: Lake) -> None:
    lake.write([(f"k{n}", 0, "oslo" if n % 2 else "riga") for n in range(20)], "delete")
    (result,) = compact(str(lake.path))
    assert (result.rows, result.groups) == (0, result.written_files)
    assert rows_of(lake.path).num_rows == 0
    lake.write(FIRST)
    assert lake.rows() == sorted(FIRST)


@both
def test_columns_that_came_later_are_in_every_row(tmp_path: pathlib.Path, kind: Kind) -> None:
    path = tmp_path / "t"
    inner = pa.struct([("a", pa.list_(pa.int64())), ("b", pa.map_(pa.string(), pa.float64()))])
    first = pa.schema([("id", pa.string()), ("n", pa.int32()), ("s", inner)])
    create_table(str(path), first, record_key="id", table_version=kind[0], buckets=1)
    value = {"a": [1, None], "b": [("x", 1.5), ("y", None)]}
    write(str(path), pa.Table.from_pylist([{"id": i, "n": 1, "s": value} for i in "abc"], first))
    second = pa.schema([*first, ("more", pa.list_(pa.string()))]).set(1, pa.field("n", pa.int64()))
    write(str(path), pa.Table.from_pylist([{"id": "a", "n": 2**40, "s": None, "more": ["m", None]}], second))
    before = rows_of(path)
    compact(str(path))
    assert rows_of(path) == before == rows_of(path, query="read_optimized")
    assert before.schema.field("n").type == pa.int64() and before["more"].to_pylist() == [["m", None], None, None]


def test_copy_on_write_table_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "t", (9, "copy_on_write", "simple"), monkeypatch)
    with pytest.raises(ConfigurationError, match="no logs to compact"):
        compact(str(lake.path))


@both
def test_unwritten_table_is_refused(lake: Lake) -> None:
    set_property(lake.path, "hoodie.populate.meta.fields", "false")
    before = lake.everything()
    with pytest.raises(UnsupportedFeature, match="populate"):
        compact(str(lake.path))
    assert lake.everything() == before


@both
def test_parts_exclude_each_other(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match="schedule_only and run_only"):
        compact(str(lake.path), schedule_only=True, run_only=True)


@both
def test_replaced_group_is_compacted_for_older_readers(lake: Lake) -> None:
    """An overwrite between plan and run: the group is hidden, and time travel still finds its rows."""
    before, instant = rows_of(lake.path), lake.write([("k1", 9, "oslo")]).instant
    at = rows_of(lake.path)
    (plan,) = compact(str(lake.path), schedule_only=True)
    lake.write([("z", 1, "oslo")], "insert_overwrite")
    now = rows_of(lake.path)
    compact(str(lake.path), run_only=True)
    assert rows_of(lake.path) == now
    assert rows_of(lake.path, as_of=instant) == at != before
    assert rows_of(lake.path, as_of=plan.instant) == at


@both
def test_damaged_plan_is_refused(lake: Lake) -> None:
    (plan,) = compact(str(lake.path), schedule_only=True)
    before = rows_of(lake.path)
    file = next(name for name in sorted(lake.files()) if ".log." in name)
    moved = lake.path / "moved"
    (lake.path / file).rename(moved)
    with pytest.raises(CorruptFile, match=file.rpartition("/")[2]):
        compact(str(lake.path))
    moved.rename(lake.path / file)
    assert rows_of(lake.path) == before
    (result,) = compact(str(lake.path))
    assert result.instant == plan.instant and rows_of(lake.path) == before
    assert leftovers(lake.path) == []


@both
def test_pending_compaction_is_not_rolled_back(lake: Lake) -> None:
    (plan,) = compact(str(lake.path), schedule_only=True)
    before = lake.everything()
    with pytest.raises(ConfigurationError, match="is not rolled back"):
        rollback(str(lake.path), plan.instant)
    assert lake.everything() == before


@both
def test_pending_write_and_plan(lake: Lake) -> None:
    """On version 6 a plan waits for pending writes; later versions plan without their logs."""
    results: list[object] = []

    def meanwhile(method: str, path: str) -> None:
        if method == "new_file":
            lake.storage.before = lambda method, path: None
            try:
                results.append(compact(str(lake.path), schedule_only=True))
            except WriteConflict as error:
                results.append(str(error))

    lake.storage.before = meanwhile
    lake.write([("k1", 20, "oslo")])
    before = rows_of(lake.path)
    assert before["seq"].to_pylist().count(20) == 1
    (result,) = results
    if lake.layout == 1:
        assert "is pending, and on version 6" in str(result)
    else:
        compact(str(lake.path), run_only=True)
        assert rows_of(lake.path) == before
        assert rows_of(lake.path, query="read_optimized")["seq"].to_pylist().count(20) == 0
    compact(str(lake.path))
    assert rows_of(lake.path) == before == rows_of(lake.path, query="read_optimized")
