"""Clustering: small groups become one, sorted, with the rows that they had; other writers keep away meanwhile."""

from __future__ import annotations

import pathlib

import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine.table_services.clustering import cluster
from penstock.engine.table_services.compaction import compact
from penstock.engine.table_services.results import ServiceState
from penstock.engine.write.current_table import current_table
from penstock.engine.write.rollback import rollback
from penstock.proto.errors import ConfigurationError, StorageError, UnsupportedFeature, WriteConflict
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.table_services.clustering import ClusteringSizes
from penstock.writer.transaction.heartbeat import start_heartbeat
from tests.unit.engine.table_services.serviced_lake import (
    OPENS,
    SIMPLE,
    commit_of,
    rows_of,
    upsert,
    with_logs,
    with_small_files,
)
from tests.unit.engine.table_services.test_runs import Interrupted
from tests.unit.engine.write.killed_storage import as_other_process
from tests.unit.engine.write.recorded_storage import Kind, Lake
from tests.unit.engine.write.test_kills import leftovers

each = pytest.mark.parametrize("kind", SIMPLE, ids=lambda kind: f"{kind[0]}-{kind[1]}")
both = pytest.mark.parametrize("kind", [SIMPLE[0], SIMPLE[3]], ids=["9-mor", "6-cow"])


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Lake:
    return with_small_files(tmp_path / "t", kind, monkeypatch)


def groups_of(lake: Lake) -> dict[str, int]:
    return {partition: len(items) for partition, items in current_table(lake.table()).slices.by_partition.items()}


@each
def test_small_groups_become_one_with_their_rows_sorted(lake: Lake) -> None:
    before, groups = rows_of(lake.path), groups_of(lake)
    (due,) = cluster(str(lake.path), sort_by=["id"], dry_run=True)
    (result,) = cluster(str(lake.path), sort_by=["id"])
    assert groups == {"oslo": 3, "riga": 3} and groups_of(lake) == {"oslo": 1, "riga": 1}
    assert rows_of(lake.path) == before == rows_of(lake.path, query="read_optimized")
    rows = penstock.read(str(lake.path)).read_all()
    for city in ("oslo", "riga"):
        ids = rows.filter(pc.equal(rows["city"], city))["id"].to_pylist()
        assert ids == sorted(ids) and len(ids) > 8
    commit = commit_of(lake.path, result.instant)
    assert (commit.operation, commit.compacted, len(commit.replaced)) == ("CLUSTER", False, 6)
    paths = {f"{row['_hoodie_partition_path']}/{row['_hoodie_file_name']}" for row in rows.to_pylist()}
    assert sorted(stat.path for stat in commit.stats) == sorted(paths)
    assert all(stat.prev_commit == "" and stat.num_inserts == stat.num_writes for stat in commit.stats)
    assert (due.groups, due.files, due.read_bytes) == (result.groups, result.files, result.read_bytes)
    assert (result.rows, result.written_files) == (rows.num_rows, 2)
    assert cluster(str(lake.path), sort_by=["id"]) == ()
    assert leftovers(lake.path) == []
    lake.write([("k90", 20, "riga"), ("new", 1, "oslo")])
    assert rows_of(lake.path).num_rows == before.num_rows + 1


@both
def test_rows_keep_their_order_without_columns_to_sort_by(lake: Lake) -> None:
    before = rows_of(lake.path)
    cluster(str(lake.path))
    assert rows_of(lake.path) == before and groups_of(lake) == {"oslo": 1, "riga": 1}
    assert cluster(str(lake.path)) == ()


@both
def test_nulls_are_first_and_the_columns_are_in_order(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.table_services.slice_rows._BATCH_ROWS", 3)
    cluster(str(lake.path), sort_by=["_hoodie_is_deleted", "seq", "id"], partitions=["oslo"])
    rows = penstock.read(str(lake.path), where="city = 'oslo'").read_all()
    keys = list(zip(rows["seq"].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert keys == sorted(keys) and groups_of(lake) == {"oslo": 1, "riga": 3}


@both
def test_new_groups_have_the_size_of_a_file(lake: Lake) -> None:
    before = rows_of(lake.path)
    sizes = [item.size_bytes for item in current_table(lake.table()).slices.of("oslo")]
    cluster(str(lake.path), sizes=ClusteringSizes(target_file_bytes=sum(sorted(sizes)[-2:])))
    assert groups_of(lake)["oslo"] == 2 and rows_of(lake.path) == before


@both
def test_dry_run_writes_nothing(lake: Lake) -> None:
    before = lake.everything()
    (due,) = cluster(str(lake.path), dry_run=True)
    assert (due.instant, due.state, due.partitions) == ("", ServiceState.DUE, ("oslo", "riga"))
    assert lake.everything() == before
    (plan,) = cluster(str(lake.path), schedule_only=True)
    before = lake.everything()
    (pending,) = cluster(str(lake.path), dry_run=True)
    assert (pending.instant, pending.groups) == (plan.instant, due.groups)
    assert lake.everything() == before


@each
def test_writes_keep_away_from_the_groups_of_a_plan(lake: Lake) -> None:
    (plan,) = cluster(str(lake.path), partitions=["oslo"], schedule_only=True)
    with pytest.raises(WriteConflict, match="pending clustering"):
        lake.write([("k80", 99, "oslo")])
    lake.write([("k90", 99, "riga"), ("other", 1, "bern")])
    if lake.kind[1] == "merge_on_read":
        compacted = compact(str(lake.path))
        assert all("oslo" not in result.partitions for result in compacted)
    before = rows_of(lake.path)
    (result,) = cluster(str(lake.path), run_only=True)
    assert result.instant == plan.instant and rows_of(lake.path) == before
    lake.write([("k80", 99, "oslo")])
    assert rows_of(lake.path)["seq"].to_pylist().count(99) == 2


@both
def test_groups_of_a_pending_compaction_stay(lake: Lake) -> None:
    if lake.kind[1] == "copy_on_write":
        return
    before = rows_of(lake.path)
    (plan,) = compact(str(lake.path), partitions=["riga"], schedule_only=True)
    (result,) = cluster(str(lake.path))
    assert result.partitions == ("oslo", "riga") and result.groups == 5 and plan.groups == 1
    compact(str(lake.path), run_only=True)
    assert rows_of(lake.path) == before


@each
def test_write_during_the_run_conflicts(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that disregards the plan, as Hudi's may: the clustering fails, and is rolled back."""
    plans = []

    def meanwhile() -> None:
        (pending,) = (file for file in lake.timeline_folder.glob("*.requested") if b"CLUSTER" in file.read_bytes())
        plans.append(pending)
        hidden = pending.rename(lake.path / "hidden")
        inflight = pending.with_suffix(".inflight").rename(lake.path / "hidden2")
        upsert(lake.path, ("k80", 99, "oslo"))
        hidden.rename(pending)
        inflight.rename(pending.with_suffix(".inflight"))

    monkeypatch.setattr(OPENS, lambda path: Interrupted(lake.path, meanwhile))
    with pytest.raises(WriteConflict, match="which this write"):
        cluster(str(lake.path))
    monkeypatch.undo()
    assert plans and not plans[0].exists()
    assert rows_of(lake.path)["seq"].to_pylist().count(99) == 1
    assert leftovers(lake.path) == []
    before = rows_of(lake.path)
    cluster(str(lake.path))
    assert rows_of(lake.path) == before


@each
def test_write_between_plan_and_run_conflicts(lake: Lake) -> None:
    (plan,) = cluster(str(lake.path), schedule_only=True)
    (file,) = lake.timeline_folder.glob(f"{plan.instant}.*")
    hidden = file.rename(lake.path / "hidden")
    upsert(lake.path, ("k80", 99, "oslo"))
    hidden.rename(file)
    before = rows_of(lake.path)
    with pytest.raises(WriteConflict, match="penstock rollback TABLE"):
        cluster(str(lake.path))
    assert rows_of(lake.path) == before
    assert rollback(str(lake.path), plan.instant) == (plan.instant,)
    cluster(str(lake.path))
    assert rows_of(lake.path) == before and groups_of(lake) == {"oslo": 1, "riga": 1}


@each
def test_failed_clustering_is_rolled_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before, files = rows_of(lake.path), lake.files()

    def meanwhile() -> None:
        raise StorageError("no space")

    monkeypatch.setattr(OPENS, lambda path: Interrupted(lake.path, meanwhile, at=2))
    with pytest.raises(StorageError):
        cluster(str(lake.path))
    monkeypatch.undo()
    assert lake.files() == files and rows_of(lake.path) == before
    assert leftovers(lake.path) == []
    lake.write([("k80", 99, "oslo")])


@each
@pytest.mark.parametrize("is_alive", [True, False])
def test_clustering_of_a_dead_process_blocks_no_write(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, is_alive: bool
) -> None:
    (plan,) = cluster(str(lake.path), schedule_only=True)
    with monkeypatch.context() as patch:
        if not is_alive:
            as_other_process(patch)
        start_heartbeat(LocalStorage(str(lake.path)), plan.instant)
    if is_alive:
        with pytest.raises(WriteConflict):
            lake.write([("k80", 99, "oslo")])
        with pytest.raises(WriteConflict, match="another process runs"):
            cluster(str(lake.path))
        return
    lake.write([("k80", 99, "oslo")])
    assert rows_of(lake.path)["seq"].to_pylist().count(99) == 1
    assert leftovers(lake.path) == []


def test_bucket_index_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = with_logs(tmp_path / "t", (9, "merge_on_read", "bucket"), monkeypatch)
    before = lake.everything()
    with pytest.raises(UnsupportedFeature, match="the hash of a key determines its file group"):
        cluster(str(lake.path))
    with pytest.raises(ConfigurationError, match="was created with 'bucket'"):
        cluster(str(lake.path), index="simple")
    properties = lake.path / ".hoodie/hoodie.properties"
    properties.write_text("\n".join(line for line in properties.read_text().splitlines() if "hoodie.index" not in line))
    with pytest.raises(ConfigurationError, match="does not say which index"):
        cluster(str(lake.path))
    with pytest.raises(UnsupportedFeature, match="bucket index"):
        cluster(str(lake.path), index="bucket")
    assert lake.everything() == {**before, ".hoodie/hoodie.properties": properties.read_bytes()}


@both
@pytest.mark.parametrize(("sort_by", "text"), [(["nothing"], "the table has"), (["id", "id"], "named twice")])
def test_columns_that_cannot_be_sorted_by_are_refused(lake: Lake, sort_by: list[str], text: str) -> None:
    before = lake.everything()
    with pytest.raises(ConfigurationError, match=text):
        cluster(str(lake.path), sort_by=sort_by)
    changed = {name for name, data in lake.everything().items() if before.get(name) != data}
    assert changed == set()
