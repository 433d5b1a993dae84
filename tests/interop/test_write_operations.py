"""Changelogs that Penstock writes (`_hoodie_operation`): real Hudi reads the same rows, compacts them with their
operations, and goes on with them by its Java client, the only writer beside Flink's that gives rows operations."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.write.write import write
from penstock.table.hudi_table import open_table
from penstock.table.schema.avro import OPERATION
from tests.interop.hudi_options import hudis_options, service_call
from tests.unit.engine.write.test_stored_operations import (
    HISTORY,
    SNAPSHOT,
    Record,
    changes_of,
    create,
    rows_of,
    snapshot,
)

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

AVRO = (
    '{"type":"record","name":"t_record","namespace":"hoodie.t","fields":['
    + ",".join(
        f'{{"name":"{n}","type":["null","{t}"],"default":null}}'
        for n, t in (("id", "string"), ("ts", "long"), ("v", "long"), ("p", "string"))
    )
    + "]}"
)
COLUMNS = (("id", "c0"), ("ts", "c1"), ("v", "c2"), ("p", "'x'"))


def options_of(version: int, kind: str) -> dict[str, str]:
    return hudis_options(version, kind, "bucket") | {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.allow.operation.metadata.field": "true",
    }


def hudis_snapshot(hudi: Any, path: pathlib.Path, **options: str) -> list[tuple[str, int]]:
    rows = hudi.read(path, **options)
    return sorted(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))


def stored_rows(path: pathlib.Path, instant: str) -> dict[str, str]:
    """Key -> operation in the base files of an instant."""
    rows: dict[str, str] = {}
    for file in path.rglob(f"*_{instant}.parquet"):
        table = pq.read_table(file)
        rows |= dict(zip(table["id"].to_pylist(), table[OPERATION].to_pylist(), strict=True))
    return rows


def java_writes(hudi: Any, path: pathlib.Path, records: Sequence[Record], options: dict[str, str]) -> None:
    rows = [
        {"id": {"string": key}, "ts": {"long": ts}, "v": {"long": v}, "p": {"string": "x"}} for _, key, ts, v in records
    ]
    own = {
        "hoodie.index.type": "SIMPLE",
        "hoodie.combine.before.upsert": "false",
        "hoodie.write.markers.type": "DIRECT",
    }
    hudi.write_records(
        path,
        schema=AVRO,
        rows=rows,
        keys=[[key, "x"] for _, key, _, _ in records],
        operations=[kind for kind, *_ in records],
        operation="upsert",
        options=options | own,
    )


@pytest.mark.parametrize("version", [9, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_hudi_reads_compacts_and_continues_a_changelog(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    path = tmp_path / "t"
    create(path, version, "merge_on_read")
    options = options_of(version, "merge_on_read")
    for records in HISTORY[:2]:
        write(str(path), rows_of(records))
    expected = [("a", 10), ("c", 3), ("d", 4)]
    assert hudis_snapshot(hudi, path) == snapshot(path) == expected, "logs alone"

    now = {"hoodie.compact.inline.max.delta.commits": "1"}
    hudi.call(service_call("compaction", "scheduleAndExecute", path, options | now))
    compaction = open_table(str(path)).timeline().completed_writes[-1].requested_time
    assert stored_rows(path, compaction) == {"a": "U", "c": "I", "d": "I"}, "a compaction keeps operations"
    assert hudis_snapshot(hudi, path, hoodie__datasource__query__type="read_optimized") == expected

    for records in HISTORY[2:]:
        write(str(path), rows_of(records))
    assert hudis_snapshot(hudi, path) == snapshot(path) == SNAPSHOT, "logs on base files"
    begin = open_table(str(path)).timeline().completed_writes[-2]
    incremental = hudi.incremental(path, begin.completion_time or begin.requested_time, "99991231235959999")
    assert incremental["id"].to_pylist() == ["b"]

    java_writes(hudi, path, [("-U", "d", 5, 40), ("U", "d", 5, 50), ("D", "a", 5, 0)], options)
    assert hudis_snapshot(hudi, path) == snapshot(path) == [("b", 20), ("d", 50)], "upsert by the Java client"
    write(str(path), rows_of([("D", "b", 6, 20), ("-U", "d", 6, 50), ("U", "d", 6, 60), ("I", "e", 6, 6)]))
    write(str(path), rows_of([("D", "e", 0, 0)]).drop_columns([OPERATION]), "delete")
    assert hudis_snapshot(hudi, path) == snapshot(path) == [("d", 60)], "a delete by key"
    changes = penstock.read(str(path), query="cdc", cdc_format="rows", after="earliest").read_all()
    kinds = [row["_change_type"] for row in changes.sort_by("_change_seq").to_pylist() if row["id"] == "d"]
    assert kinds == ["+I", *(["-U", "+U"] * 3)]


def serviced_rows(path: pathlib.Path, instant: str) -> list[tuple[Any, ...]]:
    """Key, values, operation, commit time and sequence number in the base files of an instant."""
    names = ("id", "ts", "v", OPERATION, "_hoodie_commit_time", "_hoodie_commit_seqno")
    files = [pq.read_table(file) for file in path.rglob(f"*_{instant}.parquet")]
    assert all(file.schema.names[5] == OPERATION for file in files)
    return sorted(tuple(row[name] for name in names) for file in files for row in file.to_pylist())


@pytest.mark.parametrize("version", [9, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_compaction_of_a_changelog_equals_that_of_hudi(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    """Of a copy of the table. Then both go on with both tables."""
    ours, theirs = tmp_path / "t", tmp_path / "copy" / "t"
    create(ours, version, "merge_on_read")
    options = options_of(version, "merge_on_read")
    write(str(ours), rows_of(HISTORY[0]), "bulk_insert")
    write(str(ours), rows_of([("D", "c", 1, 3), ("U", "b", 1, 7), ("I", "e", 1, 5), ("-U", "a", 1, 1)]))
    write(str(ours), rows_of([("U", "a", 1, 8), ("D", "x", 1, 0), ("I", "c", 0, 9), ("U", "e", 0, 1)]))
    shutil.copytree(ours, theirs)
    texts = ",".join(f"{name}={value}" for name, value in options.items())
    texts += ",hoodie.compact.inline.max.delta.commits=1"
    hudi.call(f"CALL run_compaction(op => 'scheduleAndExecute', path => '{theirs}', options => '{texts}')")
    hudis = open_table(str(theirs)).timeline().completed_writes[-1].requested_time
    (done,) = penstock.compact(str(ours))
    assert serviced_rows(ours, done.instant) == serviced_rows(theirs, hudis) != []
    for path in (ours, theirs):
        assert snapshot(path) == hudis_snapshot(hudi, path) == [("a", 8), ("b", 7), ("e", 5)]
        write(str(path), rows_of([("-U", "b", 6, 7), ("U", "b", 6, 60), ("D", "e", 6, 5)]))
        java_writes(hudi, path, [("-U", "b", 7, 60), ("U", "b", 7, 70)], options)
        (last,) = penstock.compact(str(path))
        assert hudis_snapshot(hudi, path) == snapshot(path) == [("a", 8), ("b", 70)], "both go on"
        optimized = hudis_snapshot(hudi, path, hoodie__datasource__query__type="read_optimized")
        assert optimized == snapshot(path) and serviced_rows(path, last.instant)
    first, *_, last_write = open_table(str(ours)).timeline().completed_writes
    begin, end = (item.completion_time or item.requested_time for item in (first, last_write))
    incremental = penstock.read(str(ours), query="incremental", after=begin, upto=end).read_all()
    assert sorted(incremental["id"].to_pylist()) == sorted(hudi.incremental(ours, begin, end)["id"].to_pylist())
    assert changes_of(ours) == changes_of(theirs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [9, 6])
def test_clustering_of_a_changelog_equals_that_of_hudi(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    ours, theirs = tmp_path / "t", tmp_path / "copy" / "t"
    create(ours, version, "copy_on_write", index="simple", buckets=None)
    options = hudis_options(version, "copy_on_write", "simple") | {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.allow.operation.metadata.field": "true",
    }
    for records in HISTORY:
        write(str(ours), rows_of(records))
    write(str(ours), rows_of([("I", "e", 5, 5)]), "bulk_insert")
    shutil.copytree(ours, theirs)
    texts = ",".join(f"{name}={value}" for name, value in options.items() if "," not in value)
    hudi.call(f"CALL run_clustering(op => 'scheduleAndExecute', path => '{theirs}', options => '{texts}')")
    (done,) = penstock.cluster(str(ours))
    assert len(serviced_rows(ours, done.instant)) == 3
    for path in (ours, theirs):
        assert hudis_snapshot(hudi, path) == snapshot(path) == [("b", 20), ("d", 40), ("e", 5)]
    hudi.write(ours, COLUMNS, [("d", 6, 41), ("f", 6, 6)], options)
    write(str(ours), rows_of([("D", "b", 7, 20)]))
    assert hudis_snapshot(hudi, ours) == snapshot(ours) == [("d", 41), ("e", 5), ("f", 6)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("version", [9, 6])
def test_spark_cannot_append_rows_without_operations(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    """By default its write would complete, and the rows be lost (golden D_changelog_spark_mor_*)."""
    path = tmp_path / "t"
    create(path, version, "merge_on_read")
    write(str(path), rows_of(HISTORY[0]))
    options = options_of(version, "merge_on_read")
    del options["hoodie.allow.operation.metadata.field"]
    with pytest.raises(RuntimeError):
        hudi.write(path, COLUMNS, [("a", 4, 11), ("e", 4, 5)], options)
    write(str(path), rows_of(HISTORY[1]), sole_writer=True)
    assert hudis_snapshot(hudi, path) == snapshot(path) == [("a", 10), ("c", 3), ("d", 4)]


@pytest.mark.parametrize("version", [pytest.param(9, marks=pytest.mark.exhaustive), 6])
def test_hudi_continues_base_files_with_the_column(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    path = tmp_path / "t"
    create(path, version, "copy_on_write")
    for records in HISTORY[:3]:
        write(str(path), rows_of(records))
    hudi.write(path, COLUMNS, [("a", 4, 11), ("e", 4, 5)], options_of(version, "copy_on_write"))
    expected = [("a", 11), ("d", 40), ("e", 5)]
    assert hudis_snapshot(hudi, path) == snapshot(path) == expected, "upsert by Spark"
    write(str(path), rows_of([("D", "a", 5, 11), ("I", "b", 5, 20)]))
    assert hudis_snapshot(hudi, path) == snapshot(path) == [("b", 20), ("d", 40), ("e", 5)]
    assert all(pq.read_schema(file).names[5] == OPERATION for file in path.rglob("*.parquet"))
