"""Changelogs that Penstock writes (`_hoodie_operation`): real Hudi reads the same rows, compacts them with their
operations, and goes on with them by its Java client, the only writer beside Flink's that gives rows operations."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.write.write import write
from penstock.table.hudi_table import open_table
from penstock.table.schema.avro import OPERATION
from tests.interop.hudi_options import hudis_options, service_call
from tests.unit.engine.write.test_stored_operations import HISTORY, SNAPSHOT, Record, create, rows_of, snapshot

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
