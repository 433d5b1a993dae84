"""A plan that reads some partitions decodes their write stats only, and is the plan of the whole commit metadata."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import penstock
from penstock.enumerator.planning import discovery
from penstock.enumerator.planning.plan import plan_request
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import Plan
from penstock.table.files.partitioned_stats import PartitionedStats
from penstock.table.hudi_table import HudiTable, open_table

SCHEMA = pa.schema([("id", pa.string()), ("seq", pa.int64()), ("p", pa.string())])
PARTITIONS = ("a", "b", "c", "d")


@pytest.fixture(scope="module", params=[6, 9])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Seven writes into one to four partitions, a compaction and a deleted partition."""
    table = str(tmp_path_factory.mktemp("narrow") / "table")
    version = request.param
    penstock.create_table(
        table, SCHEMA, record_key="id", ordering="seq", partition_by="p", table_version=version, buckets=1
    )
    for seq in range(7):
        partitions = PARTITIONS[: seq % 4 + 1]
        rows = [{"id": f"{p}{n}", "seq": seq, "p": p} for p in partitions for n in range(seq, seq + 3)]
        penstock.write(table, pa.Table.from_pylist(rows, schema=SCHEMA))
        if seq == 4 and version > 6:
            penstock.compact(table)
    penstock.write(table, pa.Table.from_pylist([{"id": "", "seq": 9, "p": "b"}], schema=SCHEMA), "delete_partition")
    return table


def queries(table: HudiTable) -> Iterator[tuple[Query, str]]:
    times = [item.requested_time for item in table.timeline().completed_writes]
    keys = [table.timeline().order_key(item) for item in table.timeline().writes_in_order]
    for where in ("p = 'a'", "p = 'b'", "p in ('c', 'd') and seq > 3", "p = 'none'", ""):
        yield Snapshot(), where
        yield ReadOptimized(), where
        for time in times:
            yield SnapshotAsOf(InstantTime(time)), where
        for first in range(-1, len(keys)):
            after = EARLIEST if first < 0 else Position(InstantTime(keys[first]))
            yield Incremental(after), where
            for upto in keys[first + 1 :: 2]:
                yield Incremental(after, Position(InstantTime(upto))), where


def plans(path: str) -> dict[tuple[Query, str], Plan]:
    """The plan of each query, of a table that is opened for it."""
    result = {}
    for query, where in queries(open_table(path)):
        result[query, where] = plan_request(open_table(path), "t", PlanRequest(table="t", query=query, where=where))
    return result


def test_plans_are_those_of_the_whole_metadata(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = plans(path)
    monkeypatch.setattr(discovery, "_within_partitions", lambda facts, *_: facts)
    assert plans(path) == narrow
    assert len(narrow) > 100


def test_plans_without_a_partition_differ(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    narrow, real = plans(path), discovery._within_partitions
    monkeypatch.setattr(
        discovery, "_within_partitions", lambda facts, some, names: real(facts, some, set(names) - {"p=a", "a"})
    )
    assert plans(path) != narrow


def test_only_the_stats_of_the_partition_are_decoded(path: str) -> None:
    table = open_table(path)
    plan_request(table, "t", PlanRequest(table="t", query=Snapshot(), where="p = 'c'"))
    decoded = set()
    for item in table.timeline().completed_writes[:6]:  # of the newest write, all: they say which file has the schema
        stats = table.commit_lazily(item).stats
        if isinstance(stats, PartitionedStats):
            raw = set(stats.raw(0))
            decoded |= {stat.partition.removeprefix("p=") for stat in stats if stat.path not in raw}
    assert decoded == {"c"}
