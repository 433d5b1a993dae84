"""Cleans of whole tables: policies, older states, readers that hold them, plans of others, and refusals."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.table_services.clean import clean
from penstock.proto.errors import ConfigurationError, CorruptFile, TableError, UnsupportedFeature, WriteConflict
from penstock.table.storage.local_writes import LocalStorage
from penstock.table.timeline.container_encoder import encode_container
from penstock.table.timeline.metadata_schemas.savepoints import SAVEPOINT
from penstock.table.timeline.services.clean_encoder import CleanPlan, encode_clean_plan
from tests.unit.engine.table_services.lake import Lake, hours_ago, rows_of
from tests.unit.writer.metadata_table.metadata_tables import listings

VERSIONS = pytest.mark.parametrize("version", [9, 6])


@VERSIONS
def test_states_at_the_newest_commits_can_be_read(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(6)
    planned = clean(str(lake.path), commits=2, dry_run=True)
    assert (planned.instant, len(planned.files)) == ("", 6) and len(lake.files()) == 6
    result = clean(str(lake.path), commits=2)
    assert result.files == planned.files and result.policy == "KEEP_LATEST_COMMITS"
    assert result.earliest_to_retain == lake.instants[-2]
    assert len(lake.files()) == 3  # of the two newest states, and of the one before
    lake.check_states(lake.instants[-2])
    assert clean(str(lake.path), commits=2).instant == ""
    assert not [name for name in lake.timeline_files() if name.endswith(".tmp")]
    (done,) = lake.table.timeline().completed_cleans
    metadata = lake.table.clean(done)
    assert (metadata.earliest_to_retain, metadata.last_completed) == (result.earliest_to_retain, lake.instants[-1])
    assert sum(len(part.file_names) for part in metadata.partitions) == 6


def test_default_is_ten_commits(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(12, cities=("oslo",))
    assert clean(str(lake.path)).earliest_to_retain == lake.instants[2]


def test_other_policies(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(4)
    assert clean(str(lake.path), hours=1).files == ()
    assert len(clean(str(lake.path), file_versions=3).files) == 2
    result = clean(str(lake.path), file_versions=1)
    assert (len(result.files), result.earliest_to_retain) == (4, "")
    assert len(lake.files()) == 1 and rows_of(lake.path) == lake.states[lake.instants[-1]]
    for options in ({"commits": 1, "hours": 1}, {"commits": 0}, {"file_versions": -1}):
        with pytest.raises(ConfigurationError, match="clean: got"):
            clean(str(lake.path), **options)


def test_next_clean_looks_only_at_what_changed_since(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path)
    lake.write(3)
    clean(str(lake.path), commits=1)
    lake.write(3, cities=("oslo",))
    result = clean(str(lake.path), commits=1)  # the last clean retained a write to both
    assert {path.partition("/")[0] for path in result.files} == {"oslo", "riga"}
    lake.write(3, cities=("oslo",))
    seen: list[str] = []
    listed = LocalStorage.list_dir
    monkeypatch.setattr(LocalStorage, "list_dir", lambda self, path: (seen.append(path), listed(self, path))[1])
    assert clean(str(lake.path), commits=1, dry_run=True).files
    assert "riga" not in seen and "oslo" in seen


@VERSIONS
def test_replaced_groups_are_deleted_when_they_are_old(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(2, cities=("oslo",))
    lake.write(1, cities=("oslo",), operation="insert_overwrite")
    lake.write(1, cities=("oslo",))
    replaced = [name for name in lake.files() if name[-25:-8].strip("_") in lake.instants[:2]]
    assert clean(str(lake.path), commits=2).files == ()
    lake.write(1, cities=("oslo",))
    result = clean(str(lake.path), commits=2)
    assert result.files == tuple(f"oslo/{name}" for name in replaced) and len(replaced) == 2
    lake.check_states(lake.instants[-2])


def test_deleted_partition_goes_with_its_folder(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(2)
    lake.write(1, cities=("riga",), operation="delete_partition")
    lake.write(2, cities=("oslo",))
    result = clean(str(lake.path), commits=1)
    assert result.partitions == ("riga",) and not (lake.path / "riga").exists()
    assert lake.table.list_partitions() == ("oslo",)
    (done,) = lake.table.timeline().completed_cleans
    assert [part.partition for part in lake.table.clean(done).partitions if part.whole] == ["riga"]
    lake.write()
    assert rows_of(lake.path) == [("oslo", lake.writes), ("riga", lake.writes)]


def test_folder_with_other_files_stays(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(2)
    lake.write(1, cities=("riga",), operation="delete_partition")
    lake.write(2, cities=("oslo",))
    (lake.path / "riga" / "notes.txt").write_text("mine")
    clean(str(lake.path), commits=1)
    assert (lake.path / "riga" / "notes.txt").read_text() == "mine"
    (done,) = lake.table.timeline().completed_cleans
    assert not any(part.whole for part in lake.table.clean(done).partitions)


def test_reader_keeps_what_it_has_not_read(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(6)
    keys = {item.requested_time: lake.table.timeline().order_key(item) for item in lake.table.timeline().instants}
    read = lake.instants[1]
    result = clean(str(lake.path), commits=1, keep_from=penstock.Position(keys[read]))
    assert result.earliest_to_retain == lake.instants[2]
    lake.check_states(read)
    after = penstock.read(str(lake.path), query="incremental", after=keys[read]).read_all()
    assert after.num_rows == 2
    assert clean(str(lake.path), commits=1, keep_from=str(keys[read])).files == ()
    assert clean(str(lake.path), file_versions=1, keep_from=keys[read]).files == ()
    lake.check_states(read)
    with pytest.raises(ConfigurationError, match="not an instant"):
        clean(str(lake.path), keep_from="yesterday")
    assert clean(str(lake.path), commits=1, keep_from=keys[lake.instants[-1]]).files


def test_pending_write_limits_the_clean(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(5)
    pending = lake.path / ".hoodie/timeline" / f"{int(lake.instants[2]) + 1}.commit.requested"
    pending.write_bytes(b"")
    assert clean(str(lake.path), commits=1).earliest_to_retain == lake.instants[2]
    assert len(lake.files()) == 4


@VERSIONS
def test_savepoint_keeps_its_files(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(2)
    at = lake.instants[-1]
    completed = {item.requested_time: item for item in lake.table.timeline().completed_writes}[at]
    names = {stat.partition: [stat.file_name] for stat in lake.table.commit(completed).stats}
    fields = {
        "savepointedBy": "me",
        "savepointedAt": 1,
        "comments": "",
        "partitionMetadata": {key: {"partitionPath": key, "savepointDataFile": value} for key, value in names.items()},
        "version": 1,
    }
    folder = lake.path / lake.table.properties.timeline_folder
    name = f"{at}.savepoint" if version == 6 else f"{at}_{int(at) + 1}.savepoint"
    (folder / name).write_bytes(encode_container(SAVEPOINT, fields))
    lake.write(4)
    result = clean(str(lake.path), commits=1)
    assert {name for value in names.values() for name in value}.isdisjoint(
        path.rpartition("/")[2] for path in result.files
    )
    assert rows_of(lake.path, as_of=at) == lake.states[at]
    (folder / name).unlink()
    again = clean(str(lake.path), commits=1)  # looks at all partitions, as a savepoint was deleted
    assert again.files == () or len(again.files) == 2


def plan_file(lake: Lake, names: dict[str, tuple[str, ...]], **fields: Any) -> pathlib.Path:
    """A clean that another process planned."""
    defaults = {"policy": "KEEP_LATEST_COMMITS", "earliest": lake.instants[0], "earliest_action": "commit"}
    plan = CleanPlan(**{"last_completed": lake.instants[-1], "files": names, **defaults, **fields})
    path = lake.path / lake.table.properties.timeline_folder / f"{hours_ago(0)}.clean.requested"
    path.write_bytes(encode_clean_plan(plan, str(lake.path)))
    return path


@VERSIONS
def test_clean_of_another_process_is_carried_on(tmp_path: pathlib.Path, version: int) -> None:
    lake = Lake(tmp_path, version)
    lake.write(4)
    oldest = lake.files()[0]
    planned = plan_file(lake, {"oslo": (oldest, oldest.replace("oslo", "gone"))})
    dry = clean(str(lake.path), commits=2, dry_run=True)
    assert dry.carried_on == (planned.name[:17],) and f"oslo/{oldest}" in dry.files
    result = clean(str(lake.path), commits=2)
    assert result.carried_on == dry.carried_on and result.files == dry.files
    assert oldest not in lake.files()
    assert lake.table.timeline().completed_cleans[0].requested_time == planned.name[:17]
    lake.check_states(lake.instants[-2])


def test_plan_to_delete_what_is_needed_is_refused(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(3)
    oldest, middle, newest = lake.files()
    plan_file(lake, {"oslo": (oldest, newest)})
    with pytest.raises(TableError, match=rf"would delete oslo/{newest}, but it is in the newest file slice"):
        clean(str(lake.path))
    assert lake.files() == [oldest, middle, newest]
    assert not [name for name in lake.timeline_files() if name.endswith(".inflight") and "clean" in name]


def test_plan_to_delete_what_a_reader_needs_is_refused(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(3)
    oldest, *_ = lake.files()
    keys = {item.requested_time: lake.table.timeline().order_key(item) for item in lake.table.timeline().instants}
    planned = plan_file(lake, {"oslo": (oldest,)})
    with pytest.raises(TableError, match="but a reader needs it"):
        clean(str(lake.path), keep_from=keys[lake.instants[0]])
    assert oldest in lake.files()
    clean(str(lake.path), keep_from=keys[lake.instants[1]])
    assert oldest not in lake.files() and planned.exists()


def test_plan_for_other_files_is_refused(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(2)
    (lake.path / "oslo" / "notes.txt").write_text("mine")
    plan_file(lake, {"oslo": ("notes.txt",)})
    with pytest.raises(CorruptFile, match="expected a data file"):
        clean(str(lake.path))
    assert (lake.path / "oslo" / "notes.txt").exists()


def test_restore_comes_before_a_clean(tmp_path: pathlib.Path) -> None:
    lake = Lake(tmp_path)
    lake.write(3)
    restore = lake.path / ".hoodie/timeline" / f"{hours_ago(0)}.restore.requested"
    restore.write_bytes(b"")
    with pytest.raises(WriteConflict, match=r"restore \d+ is pending"):
        clean(str(lake.path), commits=1)
    assert len(lake.files()) == 3


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("hoodie.table.metadata.partitions.inflight=files", "Hudi is building the partitions files"),
        ("hoodie.table.version=8", "version 8"),
    ],
)
def test_tables_that_are_not_cleaned(tmp_path: pathlib.Path, line: str, match: str) -> None:
    lake = Lake(tmp_path)
    lake.write(3)
    with (lake.path / ".hoodie/hoodie.properties").open("a") as properties:
        properties.write(f"{line}\n")
    with pytest.raises(UnsupportedFeature, match=match):
        clean(str(lake.path), commits=1)
    assert len(lake.files()) == 3


def test_metadata_table_no_longer_lists_deleted_files(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"id": ["a", "b"], "n": [1, 1]})
    penstock.create_table(
        path, rows.schema, record_key="id", table_type="copy_on_write", buckets=1, metadata_table=True
    )
    for n in range(4):
        penstock.write(path, rows.set_column(1, "n", pa.array([n, n])))
    before = listings(tmp_path / "t")
    result = clean(path, commits=1)
    by_metadata, by_folders = listings(tmp_path / "t")
    assert len(result.files) == 2 and by_metadata == by_folders != before[1]
    assert penstock.read(path).read_all()["n"].to_pylist() == [3, 3]
