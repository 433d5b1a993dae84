"""Tables whose files store the operation of each row: logs keep a changelog as it comes, base files none of it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.write import incoming_rows
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.proto.errors import SchemaMismatch, UnsupportedFeature
from penstock.table.hudi_table import open_table
from penstock.table.schema.avro import META_COLUMNS, OPERATION, parse_record_schema
from tests.golden.test_changelog_tables import COMPARED, STORED

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64()), ("p", pa.string())])
Record = tuple[str, str, int, int]
"""Operation, id, ts, v."""
HISTORY: Sequence[Sequence[Record]] = [
    [("I", "a", 1, 1), ("I", "b", 1, 2), ("I", "c", 1, 3)],
    [("-U", "a", 2, 1), ("U", "a", 2, 10), ("D", "b", 2, 2), ("I", "d", 2, 4)],
    [("-U", "d", 3, 4), ("U", "d", 3, 40), ("-U", "c", 3, 3)],
    [("I", "b", 4, 20), ("D", "a", 4, 10)],
]
"""The history of the golden tables of changelogs (tests/golden/generators/gen_D.py)."""
SNAPSHOT = [("b", 20), ("d", 40)]


def create(path: pathlib.Path, version: int, kind: str, **more: Any) -> None:
    settings: dict[str, Any] = {"buckets": 2, "ordering": "ts", "store_operations": True, **more}
    create_table(
        str(path), SCHEMA, record_key="id", partition_by="p", table_type=kind, table_version=version, **settings
    )


def rows_of(records: Sequence[Record]) -> pa.Table:
    names = (OPERATION, "id", "ts", "v")
    rows = [dict(zip(names, record, strict=True), p="x") for record in records]
    return pa.Table.from_pylist(rows, pa.schema([*SCHEMA, (OPERATION, pa.string())]))


def changes_of(path: pathlib.Path) -> dict[str, list[list[tuple[str, int]]]]:
    """Key -> the changes of each commit in their order, as (kind, v)."""
    table = penstock.read(str(path), query="cdc", cdc_format="rows", after="earliest").read_all()
    rows = table.sort_by("_change_seq").to_pylist()
    instants = sorted({row["_change_instant"] for row in rows})
    changes: dict[str, list[list[tuple[str, int]]]] = {}
    for row in rows:
        own = changes.setdefault(row["id"], [[] for _ in instants])
        own[instants.index(row["_change_instant"])].append((row["_change_type"], row["v"]))
    return changes


def expected_changes(by_commit: list[list[tuple[str, str, int]]]) -> dict[str, list[list[tuple[str, int]]]]:
    keys = {key for commit in by_commit for _, key, _ in commit}
    return {key: [[(kind, v) for kind, other, v in commit if other == key] for commit in by_commit] for key in keys}


def snapshot(path: pathlib.Path) -> list[tuple[str, int]]:
    rows = penstock.read(str(path)).read_all()
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("spilled", [False, True])
def test_logs_keep_the_changelog(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, spilled: bool
) -> None:
    path = tmp_path / "t"
    create(path, version, "merge_on_read")
    if spilled:
        monkeypatch.setattr(incoming_rows, "HELD_BYTES", 10)
    results = [write(str(path), rows_of(records)) for records in HISTORY]
    assert snapshot(path) == SNAPSHOT
    assert changes_of(path) == expected_changes(STORED)
    assert [(one.inserted, one.updated, one.deleted, one.rows) for one in results] == [
        (3, 0, 0, 3),
        (1, 1, 1, 4),
        (0, 1, 0, 3),
        (1, 0, 1, 2),
    ]
    assert not list(path.rglob("*.parquet"))
    table = open_table(str(path))
    newest = table.commit(table.timeline().completed_writes[-1])
    recorded = parse_record_schema(newest.schema_json).by_name()
    assert list(recorded) == SCHEMA.names, "Hudi finds the column in data files"


@pytest.mark.parametrize(("version", "index"), [(9, "bucket"), (6, "simple")])
def test_base_files_have_the_column_without_operations(tmp_path: pathlib.Path, version: int, index: str) -> None:
    path = tmp_path / "t"
    create(path, version, "copy_on_write", index=index, buckets=2 if index == "bucket" else None)
    for records in HISTORY:
        write(str(path), rows_of(records))
    assert snapshot(path) == SNAPSHOT
    assert changes_of(path) == expected_changes(COMPARED)
    for file in path.rglob("*.parquet"):
        rows = pq.read_table(file)
        assert rows.schema.names == [*META_COLUMNS, OPERATION, *SCHEMA.names]
        assert rows[OPERATION].null_count == len(rows)


def test_inserts_need_no_operations_and_keys_are_deleted(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t"
    create(path, 9, "merge_on_read")
    write(str(path), rows_of(HISTORY[0]).drop_columns([OPERATION]), "insert")
    write(str(path), rows_of([("D", "b", 0, 0)]).drop_columns([OPERATION]), "delete")
    assert snapshot(path) == [("a", 1), ("c", 3)]
    changes = penstock.read(str(path), query="cdc", cdc_format="rows", after="earliest").read_all()
    kinds = sorted(zip(changes["_change_type"].to_pylist(), changes["_hoodie_record_key"].to_pylist(), strict=True))
    assert kinds == [("+I", "a"), ("+I", "b"), ("+I", "c"), ("-D", "b")]


def test_bulk_insert_and_overwrite_write_base_files(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t"
    create(path, 9, "merge_on_read")
    write(str(path), rows_of(HISTORY[0]), "bulk_insert")
    write(str(path), rows_of(HISTORY[1]))
    assert snapshot(path) == [("a", 10), ("c", 3), ("d", 4)]
    write(str(path), rows_of([("I", "e", 1, 5)]).drop_columns([OPERATION]), "insert_overwrite")
    assert snapshot(path) == [("e", 5)]


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([("I", "a", 1, 1), ("u", "b", 1, 2)], "row 1 has _hoodie_operation 'u', expected one of I, -U, U, D"),
        ([(None, "a", 1, 1)], "row 0 has _hoodie_operation None"),
    ],
)
def test_row_without_a_known_operation_is_refused(
    tmp_path: pathlib.Path, records: Sequence[Record], words: str
) -> None:
    path = tmp_path / "t"
    create(path, 9, "merge_on_read")
    with pytest.raises(SchemaMismatch, match=f"^table {path}: {words}"):
        write(str(path), rows_of(records))
    assert snapshot_is_empty(path)


def snapshot_is_empty(path: pathlib.Path) -> bool:
    return not open_table(str(path)).timeline().instants


@pytest.mark.parametrize(("operation", "fits"), [("I", False), ("U", False), ("D", True), ("-U", True)])
def test_delete_marker_needs_an_operation_that_removes(tmp_path: pathlib.Path, operation: str, fits: bool) -> None:
    path = tmp_path / "t"
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    create_table(str(path), schema, record_key="id", partition_by="p", ordering="ts", buckets=1, store_operations=True)
    write(str(path), rows_of([("I", "a", 1, 1)]))
    rows = rows_of([(operation, "a", 2, 1)]).append_column("_hoodie_is_deleted", pa.array([True]))
    if fits:
        write(str(path), rows)
        assert snapshot(path) == []
    else:
        with pytest.raises(SchemaMismatch, match=f"row 0 has a delete marker and _hoodie_operation '{operation}'"):
            write(str(path), rows)


def test_tables_whose_changelog_would_be_lost_are_refused(tmp_path: pathlib.Path) -> None:
    for name, settings, words in (
        ("simple", {"index": "simple", "buckets": None}, "only a bucket index is written"),
        ("logged", {"change_logging": "data_before"}, "and has hoodie.table.cdc.enabled=true: it is not written"),
    ):
        create(tmp_path / name, 9, "merge_on_read", **settings)
        with pytest.raises(UnsupportedFeature, match=f"table {tmp_path / name} .*{words}"):
            write(str(tmp_path / name), rows_of(HISTORY[0]))


def test_logged_changes_have_no_operations(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t"
    create(path, 9, "copy_on_write", change_logging="data_before_after")
    for records in HISTORY:
        write(str(path), rows_of(records))
    assert changes_of(path) == expected_changes(COMPARED)


@pytest.mark.sampled(1)
@pytest.mark.golden
@pytest.mark.parametrize(
    "case", ["D_changelog_mor_v9", "D_changelog_mor_v6", "D_changelog_cow_v9", "D_changelog_cow_v6"]
)
def test_tables_of_hudi_go_on(golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    """The column is found in the newest data file. Hudi's groups are no buckets, so those of logs are refused."""
    path = golden.copy(case, tmp_path)
    options: dict[str, Any] = {"index": "simple", "timeline_timezone": "UTC"}
    if "_mor_" in case:
        with pytest.raises(UnsupportedFeature, match="stores operations"):
            write(str(path), rows_of([("I", "z", 9, 9)]), **options)
        return
    write(str(path), rows_of([("-U", "d", 9, 40), ("U", "d", 9, 41), ("D", "b", 9, 20), ("I", "z", 9, 9)]), **options)
    assert snapshot(path) == [("d", 41), ("z", 9)]
    newest = pq.read_schema(max(path.rglob("*.parquet"), key=lambda file: file.name.rpartition("_")[2]))
    assert newest.names[:6] == [*META_COLUMNS, OPERATION]
