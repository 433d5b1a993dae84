"""The metadata tables of the golden tables: their listings equal the folders, their statistics are correct, and no plan
depends on whether they are used."""

from __future__ import annotations

import functools
import json
import logging
import pathlib
import random
import shutil
from typing import Any, Protocol

import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import PenstockError
from penstock.proto.model.queries import PlanRequest, Snapshot
from penstock.proto.model.splits import EventTimeBounds, Plan, Split, UnknownBounds
from penstock.table.files.names import parse_file_name
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.metadata import listing
from penstock.table.metadata.column_stats import COLUMN_STATS, combined_stats
from penstock.table.metadata.files import FILES
from penstock.table.metadata.keys import column_stats_key, partition_stats_key
from penstock.table.metadata.listing import TableListing
from penstock.table.metadata.metadata_table import MetadataTable, indexes, open_metadata_table
from tests.golden.catalogue import Entry, counted_entries

pytestmark = pytest.mark.golden

GOLDEN = pathlib.Path(__file__).parent
WITH_METADATA = (
    "A_mdt_all_v9_h120",
    "B_up_cow_cdc_v6",
    "B_up_cow_cdc_v8",
    "B_up_cow_cdc_v9",
    "B_up_mor_v6",
    "B_up_mor_v8",
    "B_up_mor_v9",
    "E_mdt_cow_v9",
    "H_lance_clustered_v9",
    "E_mdt_mor_v9",
    "B_v6_arch_mor",
    "B_v6_colstats_mor",
    "B_v6_timeline_mor",
    "B_v6_timeline_mor_before_restore",
    "B_v6_timeline_mor_pending_compaction",
    "B_v8_colstats_mor",
    "B_v8_timeline_mor",
    "B_v9_arch_mor",
    "B_v9_colstats_cow",
    "B_v9_colstats_mor",
    "B_v9_timeline_mor",
    "B_v9_timeline_mor_before_restore",
    "B_v9_timeline_mor_pending_compaction",
    "C_v6_sink",
    "C_v6_streamer",
    "C_v9_sink",
    "C_v9_streamer_keys",
)
UNCOMMITTED = {
    "B_v6_timeline_mor_pending_compaction": 2,
    "B_v8_timeline_mor": 1,
    "B_v9_timeline_mor_pending_compaction": 2,
}
"""Files in which folders and metadata differ, all of pending instants: base files of a compaction that was reset to
inflight, a log that a rollback in progress has deleted."""
COLSTATS = ("B_v6_colstats_mor", "B_v8_colstats_mor", "B_v9_colstats_cow", "B_v9_colstats_mor")


class Golden(Protocol):
    def names(self) -> list[str]: ...
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the metadata table however few partitions there are."""
    monkeypatch.setattr(listing, "FEW_PARTITIONS", 0)


def opened(path: pathlib.Path) -> tuple[HudiTable, MetadataTable]:
    table = open_table(str(path))
    metadata = open_metadata_table(table, table.timeline())
    assert isinstance(metadata, MetadataTable)
    return table, metadata


def sizes(table: HudiTable, *, metadata: bool) -> dict[str, int]:
    """Every data file with its size."""
    result = TableListing(table, table.timeline(), metadata=metadata, few_partitions=0)
    files = {file.ref.path: file.ref.size_bytes for listed in result.all_files().values() for file in listed}
    assert result.from_metadata is metadata
    return files


def test_list_of_tables_is_complete(golden: Golden) -> None:
    listed = [name for name in golden.names() if FILES in indexes(open_table(str(golden.table(name))).properties)]
    assert sorted(listed) == sorted(WITH_METADATA)


@pytest.mark.parametrize("case", WITH_METADATA)
def test_names_and_sizes_are_those_of_the_folders(golden: Golden, case: str) -> None:
    table = open_table(str(golden.table(case)))
    by_metadata, by_folders = sizes(table, metadata=True), sizes(table, metadata=False)
    differing = {path for path, _ in by_metadata.items() ^ by_folders.items()}
    pending = {instant.requested_time for instant in table.timeline().pending}
    instants = {name.instant for path in differing if (name := parse_file_name(path.rpartition("/")[2]))}
    assert instants <= pending
    assert len(differing) == UNCOMMITTED.get(case, 0)
    assert table.metadata_fallbacks == 0


@pytest.mark.parametrize("case", WITH_METADATA)
def test_partitions_are_those_of_the_folders_and_one_by_one_the_same(golden: Golden, case: str) -> None:
    table = open_table(str(golden.table(case)))
    whole = TableListing(table, table.timeline(), metadata=True, few_partitions=0).all_files()
    assert sorted(whole) == sorted(table.list_partitions())
    for partition, files in whole.items():
        one = TableListing(table, table.timeline(), metadata=True, few_partitions=0).of([partition, "p=none"])
        assert one == {partition: files, "p=none": ()}


def planned(path: pathlib.Path, entry: Entry, *, metadata: bool) -> Plan | str:
    table = open_table(str(path))
    request = PlanRequest(table="t", query=entry.query, metadata=metadata)
    try:
        plan = plan_request(table, "t", request)
    except PenstockError as error:
        return f"{type(error).__name__}: {error}"
    assert table.metadata_fallbacks == 0
    return plan


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("case", WITH_METADATA)
def test_plans_are_the_same_with_and_without(golden: Golden, case: str) -> None:
    entries = [entry for entry in counted_entries() if entry.case == case]
    assert entries
    for entry in entries:
        actual = planned(golden.table(case), entry, metadata=True)
        assert actual == planned(golden.table(case), entry, metadata=False), str(entry)


@pytest.mark.usefixtures("always")
def test_metadata_table_is_read_once_per_plan_for_the_needed_partitions(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, requested = MetadataTable.records, []

    def records(self: MetadataTable, partition: str, keys: Any) -> Any:
        requested.append((partition, keys and sorted(keys)))
        return real(self, partition, keys)

    monkeypatch.setattr(MetadataTable, "records", records)
    list_partition = HudiTable.list_partition

    def of_metadata_table(self: HudiTable, partition: str, *, strict: bool = False) -> Any:
        if not self.storage.base_path.endswith("/.hoodie/metadata"):
            pytest.fail("a folder was listed")
        return list_partition(self, partition, strict=strict)

    monkeypatch.setattr(HudiTable, "list_partition", of_metadata_table)
    for name in ("list_partition_files", "list_files"):
        monkeypatch.setattr(HudiTable, name, lambda *_, **__: pytest.fail("folders were listed"))
    path = golden.table("B_v9_colstats_mor")
    entries = [entry for entry in counted_entries() if entry.case == "B_v9_colstats_mor"]
    for entry in entries:
        requested.clear()
        plan = planned(path, entry, metadata=True)
        assert isinstance(plan, Plan)
        assert len(requested) == 1
        if requested[0][1] is not None:
            assert (
                {split.partition for split in plan.splits}
                <= set(requested[0][1])
                < {"__all_partitions__"} | {f"p={letter}" for letter in "abcdefgh"}
            )


@functools.cache
def true_bounds(case: str) -> dict[str, Any]:
    bounds: dict[str, Any] = json.loads((GOLDEN / "expected" / case / "bounds.json").read_text())["files"]
    return bounds


@pytest.mark.parametrize("case", COLSTATS)
def test_column_statistics_equal_the_files(golden: Golden, case: str) -> None:
    """Bounds and counts of every column of every file; null bounds if a column has only nulls."""
    _, metadata = opened(golden.table(case))
    records = metadata.records(COLUMN_STATS, None)
    checked = 0
    for path, file in true_bounds(case).items():
        partition, _, name = path.rpartition("/")
        for column, true in file["bounds"].items():
            stats = combined_stats(records[column_stats_key(column, partition, name)])
            assert stats is not None
            assert (stats.file_name, stats.column, stats.is_deleted) == (name, column, False)
            assert (stats.low, stats.high) == (true["min"], true["max"]), f"{path} {column}"
            assert (stats.null_count, stats.value_count) == (true["nulls"], true["rows"])
            checked += 1
    assert checked > 40


def test_partition_statistics_hold_those_of_the_files(golden: Golden) -> None:
    table, metadata = opened(golden.table("B_v9_colstats_mor"))
    records = metadata.records("partition_stats", None)
    for partition in table.list_partitions():
        stats = combined_stats(records[partition_stats_key("v", partition)])
        true = [f["bounds"]["v"] for p, f in true_bounds("B_v9_colstats_mor").items() if p.startswith(partition + "/")]
        assert stats is not None
        assert stats.file_name == partition
        newest = [item for item in true if item["min"] is not None]
        assert isinstance(stats.low, int)
        assert isinstance(stats.high, int)
        assert stats.low >= min(item["min"] for item in newest)
        assert stats.high <= max(item["max"] for item in newest)


def event_time_plan(path: pathlib.Path, column: str, *, metadata: bool = True) -> Plan:
    request = PlanRequest(table="t", query=Snapshot(), event_time=column, metadata=metadata)
    return plan_request(open_table(str(path)), "t", request)


def true_of_split(case: str, split: Split, column: str) -> EventTimeBounds | UnknownBounds:
    factor = {"et": 1, "d": 86_400_000_000}[column]
    files = true_bounds(case)
    all_of = [files[file.path]["bounds"][column] for file in (*([split.base] if split.base else []), *split.logs)]
    valued = [item for item in all_of if item["min"] is not None]
    if not valued:
        return UnknownBounds()
    return EventTimeBounds(min(i["min"] for i in valued) * factor, max(i["max"] for i in valued) * factor)


@pytest.mark.parametrize("column", ["et", "d"])
@pytest.mark.parametrize("case", COLSTATS)
def test_event_time_bounds_of_slices_with_logs(golden: Golden, case: str, column: str) -> None:
    plan = event_time_plan(golden.table(case), column)
    for split in plan.splits:
        assert split.event_time == true_of_split(case, split, column)
    assert any(split.logs for split in plan.splits) is case.endswith("mor")
    without = event_time_plan(golden.table(case), column, metadata=False)
    for split in without.splits:
        assert not split.logs or split.event_time == UnknownBounds()


def test_column_of_plain_longs_has_no_unit_and_so_no_bounds(golden: Golden) -> None:
    plan = event_time_plan(golden.table("B_v9_colstats_mor"), "et_ms")
    assert {split.event_time for split in plan.splits} == {UnknownBounds()}


def test_bounds_include_the_rows_of_the_split(golden: Golden) -> None:
    """Over merged rows, for every table whose column has statistics: every row is within the bounds."""
    import pyarrow.compute as pc

    from penstock.reader.read_split import read_split

    plan = event_time_plan(golden.table("B_v9_colstats_mor"), "et")
    known = 0
    for split in plan.splits:
        if isinstance(split.event_time, UnknownBounds):
            continue
        known += 1
        for part in read_split(plan.scan, split):
            times = part.batch["et"].cast("timestamp[us]").cast("int64")
            assert pc.min(times).as_py() >= split.event_time.min_us
            assert pc.max(times).as_py() <= split.event_time.max_us
    assert known >= 2


def remove_newest_instants(path: pathlib.Path) -> None:
    """Removes the newest instants from the metadata table's timeline."""
    files = sorted((path / ".hoodie/metadata/.hoodie/timeline").glob("2*deltacommit"))
    for file in files[-2:]:
        file.unlink()


def truncate_files(path: pathlib.Path) -> None:
    for file in (path / ".hoodie/metadata/files").iterdir():
        file.write_bytes(file.read_bytes()[:-1])


def remove_table(path: pathlib.Path) -> None:
    shutil.rmtree(path / ".hoodie/metadata")


def remove_files_partition(path: pathlib.Path) -> None:
    shutil.rmtree(path / ".hoodie/metadata/files")


def damage_properties(path: pathlib.Path) -> None:
    (path / ".hoodie/metadata/.hoodie/hoodie.properties").write_bytes(b"\x00")


DAMAGES = (remove_newest_instants, truncate_files, remove_table, remove_files_partition, damage_properties)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_folders_are_listed_if_the_metadata_table_is_unusable(
    golden: Golden, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    path = golden.copy("B_v9_timeline_mor", tmp_path)
    request = PlanRequest(table="t", query=Snapshot())
    expected = plan_request(open_table(str(path)), "t", request)
    damage(path)
    table = open_table(str(path))
    with caplog.at_level(logging.WARNING, "penstock.enumerator"):
        assert plan_request(table, "t", request) == expected
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "metadata table passed over" in caplog.text
    assert table.metadata_fallbacks == 1
    caplog.clear()
    plan_request(table, "t", PlanRequest(table="t", query=Snapshot(), metadata=False))
    assert not caplog.records
    assert table.metadata_fallbacks == 1


@pytest.mark.usefixtures("always")
def test_unusable_metadata_table_is_one_warning_per_plan(
    golden: Golden, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Both listing and statistics need a metadata table that is unusable."""
    path = golden.copy("B_v9_colstats_mor", tmp_path)
    remove_table(path)
    with caplog.at_level(logging.WARNING, "penstock.enumerator"):
        event_time_plan(path, "et")
    assert len(caplog.records) == 1


def test_damaged_statistics_give_no_bounds(
    golden: Golden, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = golden.copy("B_v9_colstats_mor", tmp_path)
    whole = event_time_plan(path, "et")
    for file in (path / ".hoodie/metadata/column_stats").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "penstock.enumerator"):
        plan = event_time_plan(path, "et")
    assert "metadata table passed over" in caplog.text
    for split, before in zip(plan.splits, whole.splits, strict=True):
        assert split.split_id == before.split_id
        assert split.event_time == (UnknownBounds() if split.logs else before.event_time)


@pytest.mark.usefixtures("always")
def test_file_missing_in_the_metadata_table_is_read_from_its_folder(
    golden: Golden, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A metadata table that is wrong although it looks complete: the plan is repeated from folders."""
    path = golden.copy("B_v9_colstats_cow", tmp_path)
    table = open_table(str(path))
    expected = plan_request(open_table(str(path)), "t", PlanRequest(table="t", query=Snapshot(), metadata=False))
    real = listing.data_files
    monkeypatch.setattr(listing, "data_files", lambda partition, versions: real(partition, versions)[:-1])
    assert plan_request(table, "t", PlanRequest(table="t", query=Snapshot())) == expected
    assert table.metadata_fallbacks == 1


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("case", ["B_v6_colstats_mor", "B_v9_colstats_mor"])
def test_metadata_table_with_mutations_changes_no_plan(golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
    """With changed, removed and inserted bytes in its files: the same splits, with the same bounds or none."""
    path = golden.copy(case, tmp_path)
    whole = event_time_plan(path, "et")
    files = [
        file
        for pattern in ("files/*", "column_stats/*", ".hoodie/hoodie.properties")
        for file in sorted((path / ".hoodie/metadata").glob(pattern))
        if file.suffix != ".crc" and file.stat().st_size
    ]
    draw = random.Random(8)
    passed_over = 0
    for _ in range(60):
        file = draw.choice(files)
        before = file.read_bytes()
        data = bytearray(before)
        for _ in range(draw.randint(1, 3)):
            at = draw.randrange(len(data))
            data[at : at + draw.randint(0, 3)] = bytes(draw.randrange(256) for _ in range(draw.randint(0, 3)))
        file.write_bytes(data)
        table = open_table(str(path))
        plan = plan_request(table, "t", PlanRequest(table="t", query=Snapshot(), event_time="et"))
        file.write_bytes(before)
        passed_over += table.metadata_fallbacks
        assert table.metadata_fallbacks <= 1
        for split, expected in zip(plan.splits, whole.splits, strict=True):
            assert split.split_id == expected.split_id
            assert split.event_time in (expected.event_time, UnknownBounds())
    assert 5 < passed_over < 60
