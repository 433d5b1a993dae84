"""Bootstrapped tables beyond their plain queries: filters, runs of row groups, moved sources, damage, and refusals."""

from __future__ import annotations

import json
import pathlib
import shutil
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.codec.serialized import decode_scan, decode_split, encode_scan, encode_split
from penstock.proto.errors import CorruptFile, PenstockError, SchemaMismatch, TableError, UnsupportedFeature
from penstock.proto.model.queries import PlanRequest, ReadOptimized, Snapshot
from penstock.proto.model.splits import EventTimeBounds, Plan, RowGroupRun
from penstock.reader.read_split import SplitTally, read_split
from penstock.table.bootstrap.index import INDEX_FILE, METADATA_BOOTSTRAP
from penstock.table.hudi_table import open_table
from tests.golden.rows import difference
from tests.golden.test_every_golden_table import plan_of, rows_of, rows_of_plan
from tests.golden_tables import GOLDEN, SOURCES

pytestmark = pytest.mark.golden

CASES = [case["name"] for case in json.loads((GOLDEN / "cases_E.json").read_text())]
MOR, GROUPS = "E_mor_v9", "E_row_groups_mor_v9"
FEW_MATCHES = ("E_special_v9", "E_history_mor561_v9")
"""Tables in which a filter may match no row."""


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...
    def expected(self, name: str, query_id: str) -> pa.Table: ...


def files_of(plan: Plan) -> list[tuple[str, str]]:
    """(Path, path of the source or '') of each base file."""
    bases = [split.base for split in plan.splits if split.base is not None]
    return [(base.path, "" if base.source is None else base.source.path) for base in bases]


def source_files(folder: pathlib.Path) -> list[pathlib.Path]:
    return sorted((folder / SOURCES).rglob("*.parquet"))


def test_tables_of_the_catalogue_have_skeletons_and_other_slices(golden: Golden) -> None:
    """The cases test what they are for: skeletons alone, skeletons with logs, and rewritten slices."""
    found = set()
    for case in CASES:
        for split in plan_of(golden.table(case), Snapshot()).splits:
            has_source = split.base is not None and split.base.source is not None
            assert has_source == (split.base_instant == METADATA_BOOTSTRAP)
            found.add((has_source, bool(split.logs)))
    assert found == {(True, True), (True, False), (False, True), (False, False)}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("where", ["v > 12", "v < 9 and id > 'k03'", "id = 'k06'", "_hoodie_record_key = 'k07'"])
@pytest.mark.sampled(2, rest=20)
def test_filters_keep_the_rows_of_the_snapshot(golden: Golden, case: str, where: str) -> None:
    rows = golden.expected(case, "snapshot")
    kept = rows.filter(FILTERS[where](rows))
    assert kept.num_rows < rows.num_rows and (kept.num_rows or case in FEW_MATCHES)
    assert difference(rows_of(golden.table(case), Snapshot(), where=where), kept) == ""


FILTERS: dict[str, Any] = {
    "v > 12": lambda rows: [value is not None and value > 12 for value in rows["v"].to_pylist()],
    "v < 9 and id > 'k03'": lambda rows: [
        value is not None and value < 9 and key > "k03"
        for value, key in zip(rows["v"].to_pylist(), rows["id"].to_pylist(), strict=True)
    ],
    "id = 'k06'": lambda rows: [key == "k06" for key in rows["id"].to_pylist()],
    "_hoodie_record_key = 'k07'": lambda rows: [key == "k07" for key in rows["id"].to_pylist()],
}


@pytest.mark.parametrize("columns", [("_hoodie_record_key",), ("v",), ("v", "_hoodie_file_name"), ("p", "name")])
@pytest.mark.sampled(2, rest=10)
def test_columns_of_one_file_or_of_both(golden: Golden, columns: tuple[str, ...]) -> None:
    for case in (MOR, GROUPS, "E_cow_v6"):
        rows = golden.expected(case, "snapshot").select(columns)
        assert difference(rows_of(golden.table(case), Snapshot(), columns=columns), rows) == ""


def test_row_groups_of_the_source_are_pruned_and_divided(golden: Golden) -> None:
    case = "E_row_groups_cow_v9"
    table, rows = golden.table(case), golden.expected(case, "snapshot")
    plan = plan_of(table, Snapshot(), target_split_bytes=1)
    runs = [split for split in plan.splits if isinstance(split.part, RowGroupRun)]
    assert len(runs) >= 4 and difference(rows_of_plan(plan), rows) == ""
    tally = SplitTally()
    pruned = plan_of(table, Snapshot(), where="v = 23")
    for split in pruned.splits:
        list(read_split(pruned.scan, split, tally=tally))
    assert tally.report().pruned_rows > 0


def test_event_times_are_those_of_the_source(golden: Golden) -> None:
    table = golden.table("E_cow_v9")
    plan = plan_of(table, Snapshot(), event_time="d")
    times = [split.event_time for split in plan.splits]
    assert all(isinstance(bounds, EventTimeBounds) for bounds in times)
    assert len(set(times)) > 1


def test_splits_travel_with_their_sources(golden: Golden) -> None:
    plan = plan_of(golden.table(MOR), Snapshot())
    scan = decode_scan(encode_scan(plan.scan))
    splits = tuple(decode_split(encode_split(split)) for split in plan.splits)
    assert (scan, splits) == (plan.scan, plan.splits)
    assert difference(rows_of_plan(replace(plan, scan=scan, splits=splits)), golden.expected(MOR, "snapshot")) == ""


def test_a_source_that_is_gone_or_has_other_rows_is_an_error(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(MOR, tmp_path)
    source = next(file for file in source_files(folder) if "p=c" in str(file))
    rows = pq.read_table(source, partitioning=None)
    pq.write_table(rows.slice(1), source)
    with pytest.raises(CorruptFile, match=rf"p=c/\S+ has {rows.num_rows} rows.*{source.name} of base file \S+ has"):
        rows_of(folder, Snapshot())
    source.unlink()
    with pytest.raises(CorruptFile, match=source.name):
        rows_of(folder, Snapshot())


def test_a_source_with_its_rows_in_another_order_is_not_noticed(golden: Golden, tmp_path: pathlib.Path) -> None:
    """The comparison with Hudi's rows detects a wrong join: neither file stores which rows belong together."""
    folder = golden.copy("E_cow_v9", tmp_path)
    for source in source_files(folder):
        rows = pq.read_table(source, partitioning=None)
        pq.write_table(rows.take(list(range(rows.num_rows))[::-1]), source)
    assert difference(rows_of(folder, Snapshot()), golden.expected("E_cow_v9", "snapshot")) != ""


def test_a_source_in_orc_that_is_gone_or_damaged_is_named(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy("E_orc_cow_v9", tmp_path)
    needed = next(source for base, source in files_of(plan_of(folder, Snapshot())) if source)
    file = folder / SOURCES / needed
    file.write_bytes(b"no orc" * 20)
    with pytest.raises(CorruptFile, match=rf"source file {needed} of base file \S+"):
        rows_of(folder, Snapshot())
    file.unlink()
    with pytest.raises(CorruptFile, match=rf"source file {needed} of base file \S+ is missing"):
        rows_of(folder, Snapshot())


def test_a_skeleton_in_orc_has_as_many_rows_as_its_source(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy("E_orc_types_v9", tmp_path)
    source = next(iter(sorted((folder / SOURCES).rglob("*.orc"))))
    rows = orc.ORCFile(source).read()
    orc.write_table(rows.slice(1), source)
    with pytest.raises(CorruptFile, match=rf"has {rows.num_rows} rows.*{source.name} of base file \S+ has"):
        rows_of(folder, Snapshot())


def test_sources_are_found_where_the_property_says(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(MOR, tmp_path)
    moved = tmp_path / "moved"
    (folder / SOURCES).rename(moved)
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace(str(folder / SOURCES), f"file:{moved}"))
    assert difference(rows_of(folder, Snapshot()), golden.expected(MOR, "snapshot")) == ""


def test_a_link_out_of_the_sources_is_refused(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(MOR, tmp_path)
    source = next(file for file in source_files(folder) if "p=c" in str(file))
    source.rename(tmp_path / "outside.parquet")
    source.symlink_to(tmp_path / "outside.parquet")
    with pytest.raises(CorruptFile, match="symbolic link leads out"):
        rows_of(folder, Snapshot())


def test_a_skeleton_without_a_source_is_an_error(golden: Golden, tmp_path: pathlib.Path) -> None:
    """Without the index, and without the property, a skeleton would have nulls in all columns."""
    folder = golden.copy(MOR, tmp_path)
    index = folder / INDEX_FILE
    index.rename(tmp_path / "index")
    for query in (Snapshot(), ReadOptimized()):
        with pytest.raises(CorruptFile, match="names no source file"):
            rows_of(folder, query)
    (tmp_path / "index").rename(index)
    properties = folder / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "bootstrap.base.path" not in line]
    properties.write_text("\n".join(lines))
    with pytest.raises(CorruptFile, match="names no source file"):
        rows_of(folder, Snapshot())


def test_an_open_table_reads_an_index_that_was_restored(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(MOR, tmp_path)
    index = folder / INDEX_FILE
    table = open_table(str(folder))
    request = PlanRequest(table="t", query=Snapshot())
    expected = plan_request(table, "t", request).splits
    index.rename(tmp_path / "index")
    with pytest.raises(CorruptFile, match="names no source file"):
        plan_request(table, "t", request)
    (tmp_path / "index").rename(index)
    assert plan_request(table, "t", request).splits == expected


def test_a_table_whose_slices_were_all_rewritten_needs_no_index(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy("E_full_v9", tmp_path)
    shutil.rmtree(folder / ".hoodie" / ".aux" / ".bootstrap", ignore_errors=True)
    assert difference(rows_of(folder, Snapshot()), golden.expected("E_full_v9", "snapshot")) == ""
    plan = plan_of(folder, Snapshot())
    assert all(source == "" for _, source in files_of(plan)) and plan.scan.bootstrap_base_path == ""


def test_partition_columns_that_no_path_has_are_refused(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy(MOR, tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    slashes = "\nhoodie.datasource.write.slash.separated.date.partitioning=true\n"
    properties.write_text(properties.read_text() + slashes)
    with pytest.raises(UnsupportedFeature, match="are not taken from its paths"):
        plan_request(open_table(str(folder)), "t", PlanRequest(table="t", query=Snapshot()))


def test_a_nested_partition_column_that_no_path_has_is_refused(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy("E_orc_types_v9", tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    assert "partition.fields=p" in text
    properties.write_text(text.replace("partition.fields=p", "partition.fields=st.y"))
    with pytest.raises(UnsupportedFeature, match="are not taken from its paths"):
        rows_of(folder, Snapshot())


def test_formatted_partition_columns_that_no_path_has_are_refused(golden: Golden, tmp_path: pathlib.Path) -> None:
    """Also without skeletons: a file does not have the text. Hudi fails on paths that do not fit, too."""
    folder = golden.copy("E_full_v9", tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("keygenerator.type=SIMPLE", "keygenerator.type=CUSTOM")
    properties.write_text(text.replace("partition.fields=p", "partition.fields=p\\:SIMPLE,v\\:TIMESTAMP"))
    with pytest.raises(UnsupportedFeature, match="are not taken from its paths"):
        rows_of(folder, Snapshot())
    properties.write_text(text.replace("partition.fields=p", "partition.fields=p\\:SIMPLE,v\\:SIMPLE"))
    assert rows_of(folder, Snapshot()).schema.field("v").type == pa.int32()


def test_merges_by_commit_time_need_no_formatted_column(golden: Golden, tmp_path: pathlib.Path) -> None:
    folder = golden.copy("E_epoch_mor_v9", tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text().replace("ordering.fields=ts", "ordering.fields=em")
    properties.write_text(text.replace("merge.mode=EVENT_TIME_ORDERING", "merge.mode=COMMIT_TIME_ORDERING"))
    assert rows_of(folder, Snapshot()).num_rows == 14


@pytest.mark.parametrize(
    ("case", "column"), [("E_epoch_mor_v9", "em"), ("E_epoch_mor_v9", "EM"), ("E_custom_mor_v9", "p")]
)
def test_merges_by_formatted_partition_columns_are_an_error(
    golden: Golden, tmp_path: pathlib.Path, case: str, column: str
) -> None:
    """Hudi 1.2.0 fails on such a merge. A merge by another column, and a read without one, have rows."""
    folder = golden.copy(case, tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("ordering.fields=ts", f"ordering.fields={column}"))
    with pytest.raises(TableError, match=f"merges by {column.lower()}: values of formatted"):
        rows_of(folder, Snapshot())
    assert rows_of(folder, ReadOptimized()).num_rows
    properties.write_text(text.replace("ordering.fields=ts", "ordering.fields=v"))
    assert rows_of(folder, Snapshot()).num_rows


def test_an_ordering_column_that_the_source_lacks_is_refused(golden: Golden, tmp_path: pathlib.Path) -> None:
    """Its values are in the path alone. As nulls they would let another row win."""
    folder = golden.copy(MOR, tmp_path)
    properties = folder / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("ordering.fields=ts", "ordering.fields=p"))
    with pytest.raises(SchemaMismatch, match="lacks partition column 'p'"):
        rows_of(folder, Snapshot())


@pytest.mark.parametrize("case", ["E_mor_v6", MOR, "E_full_v9"])
def test_bootstrapped_tables_are_not_written_or_serviced(golden: Golden, tmp_path: pathlib.Path, case: str) -> None:
    folder = golden.copy(case, tmp_path)
    before = sorted(str(file) for file in folder.rglob("*"))
    path, zone = str(folder), {"timeline_timezone": "UTC"}
    rows = golden.expected(case, "snapshot").slice(0, 1)
    calls: list[Any] = [
        lambda: penstock.write(path, rows, **zone),
        lambda: penstock.compact(path, **zone),
        lambda: penstock.cluster(path, **zone),
        lambda: penstock.clean(path, commits=1, **zone),
        lambda: penstock.archive(path, **zone),
        lambda: penstock.rollback(path, "20260101000000000", **zone),
        lambda: penstock.savepoint(path, **zone),
    ]
    for call in calls:
        with pytest.raises(PenstockError, match=r"bootstrapped table .*write, compact, cluster and clean it with Hudi"):
            call()
    assert sorted(str(file) for file in folder.rglob("*")) == before
