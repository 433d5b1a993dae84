"""A live table: Hudi commits, Penstock reads after each commit, Hudi returns the expected rows."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine.demo.comparison import compare_rows

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

COLUMNS = (
    ("id", "c0"),
    ("seq", "c1"),
    ("name", "concat('n', c2)"),
    ("qty", "cast(c2 AS int)"),
    ("price", "cast(c2 + 0.25 AS decimal(10, 2))"),
    ("at", "timestamp_micros(1700000000000000 + c1 * 1000000 + 123)"),
    ("day", "date_add(date'2023-11-14', cast(c2 AS int))"),
    ("city", "c3"),
)


@dataclass(frozen=True)
class Commit:
    """One write of (id, seq, value, city). `seq` is the ordering value: a value below the stored one is late."""

    operation: str
    rows: tuple[tuple[str, int, int, str], ...]
    has_late_rows: bool = False


COMMITS = (
    Commit("insert", (*((f"k{n}", 10, n, "oslo" if n % 2 else "riga") for n in range(1, 9)),)),
    Commit("upsert", (("k1", 20, 21, "oslo"), ("k2", 20, 22, "riga"), ("k9", 20, 29, "oslo"))),
    Commit("upsert", (("k1", 5, 31, "oslo"), ("k4", 30, 34, "riga"), ("k10", 5, 40, "bern")), has_late_rows=True),
    Commit("delete", (("k5", 40, 0, "oslo"), ("k6", 40, 0, "riga"))),
    Commit("upsert", (("k1", 50, 51, "oslo"), ("k5", 50, 55, "oslo"), ("k10", 50, 60, "bern"))),
)


def write_options(table_version: int) -> dict[str, str]:
    """Merge-on-read, event-time ordering by `seq`, small parallelism, no services."""
    return {
        "hoodie.table.name": "trip",
        "hoodie.write.table.version": str(table_version),
        "hoodie.write.auto.upgrade": "false",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "seq",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
        **{f"hoodie.{step}.shuffle.parallelism": "1" for step in ("insert", "upsert", "delete", "bulkinsert")},
    }


def rows_of(table: pa.Table, requested_time: str) -> pa.Table:
    """The rows last written by that instant."""
    return table.filter(pc.equal(table["_hoodie_commit_time"], requested_time))


def assert_same_rows(actual: pa.RecordBatchReader, expected: pa.Table, what: str) -> None:
    difference = compare_rows(actual.read_all(), expected)
    assert difference.is_empty, f"{what}: {difference.text()}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("table_version", [9, 6])
def test_every_commit_reads_as_hudi_reads_it(hudi: Any, tmp_path: pathlib.Path, table_version: int) -> None:
    """Five commits. After each, the snapshot and the range of the commit equal Hudi's, with deletes and late rows."""
    table, after = tmp_path / "trip", "000"
    for number, commit in enumerate(COMMITS, 1):
        options = write_options(table_version) | {"hoodie.datasource.write.operation": commit.operation}
        ((requested, completion, action),) = hudi.write(table, COLUMNS, commit.rows, options)
        assert action == "deltacommit"
        order_key = completion or requested
        assert (completion is None) == (table_version == 6)

        snapshot = hudi.read(table)
        assert snapshot.num_rows > 0
        assert_same_rows(penstock.read(str(table)), snapshot, f"snapshot after commit {number}")

        expected = rows_of(snapshot, requested)
        begin = "earliest" if after == "000" else after
        actual = penstock.read(str(table), query="incremental", after=begin, upto=order_key)
        assert_same_rows(actual, expected, f"rows of commit {number}")

        hudis = hudi.incremental(table, after, order_key)
        if commit.has_late_rows:  # Hudi's merge-on-read range also returns rows that lost the merge
            assert hudis.num_rows > expected.num_rows
        else:
            assert compare_rows(hudis, expected).is_empty
        after = order_key

    whole = penstock.read(str(table), query="incremental", after="earliest", upto=after)
    assert_same_rows(whole, snapshot, "all commits as one range")
    assert_completion_times(hudi, table, known=table_version == 9)


@pytest.mark.parametrize("case", ["B_v9_arch_mor", "A_archive_v9_h120", "A_clustering_done_v9_h120"])
def test_completion_times_are_those_of_hudis_view(hudi: Any, golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    """Commits of the active timeline and of the history, after compaction and clustering."""
    assert_completion_times(hudi, golden.copy(case, tmp_path), known=True)


def assert_completion_times(hudi: Any, table: pathlib.Path, *, known: bool) -> None:
    """`_completion_time` of each row is what Hudi's own view has for its commit; null on layout 1."""
    rows = penstock.read(str(table), completion_time=True, timeline_timezone="UTC").read_all()
    by_commit = rows.group_by(["_hoodie_commit_time", "_completion_time"]).aggregate([]).to_pylist()
    commits = [row["_hoodie_commit_time"] for row in by_commit]
    assert commits and len(set(commits)) == len(commits)
    if not known:
        assert rows["_completion_time"].null_count == rows.num_rows
        return
    hudis = hudi.completion_times(table, commits)
    ours = [row["_completion_time"].strftime("%Y%m%d%H%M%S%f")[:17] for row in by_commit]
    assert ours == hudis
    assert hudi.completion_times(table, [str(int(commits[0]) + 1)]) == [None]
