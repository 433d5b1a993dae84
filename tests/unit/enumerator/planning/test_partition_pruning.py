"""Pruning of partitions before listing, only if every path has the values of its partition."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable
from typing import Any

import pytest

from penstock.enumerator.planning.plan import plan_request
from penstock.proto.errors import CorruptFile
from penstock.proto.model.positions import InstantTime, Position
from penstock.proto.model.queries import Incremental, PlanRequest, Query, Snapshot
from penstock.proto.model.splits import Plan
from penstock.table.config.properties import load_properties
from penstock.table.hudi_table import HudiTable
from penstock.table.storage.filesystem import open_storage

FIRST, SECOND = "20260101000000000", "20260102000000000"
SCHEMA = {
    "type": "record",
    "name": "t",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "dt", "type": ["null", "string"], "default": None},
        {"name": "hh", "type": ["null", "int"], "default": None},
    ],
}


class Counted:
    """A storage that records the listed data folders."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.inner = open_storage(str(folder))
        self.listed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def list_dir(self, path: str) -> Any:
        if not path.startswith(".hoodie"):
            self.listed.append(path)
        return self.inner.list_dir(path)


class Table:
    """A table of version 6: one empty base file in each partition, all of one commit."""

    def __init__(self, folder: pathlib.Path, fields: str = "dt", keygen: str = "ComplexKeyGenerator") -> None:
        self.folder = folder
        (folder / ".hoodie").mkdir(parents=True)
        (folder / ".hoodie" / "hoodie.properties").write_text(
            "hoodie.table.name=t\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=6\n"
            f"hoodie.timeline.layout.version=1\nhoodie.table.partition.fields={fields}\n"
            f"hoodie.table.recordkey.fields=id\nhoodie.table.keygenerator.class=org.apache.hudi.keygen.{keygen}\n"
        )

    def write(self, partitions: Iterable[str], instant: str = FIRST, *, committed: bool = True) -> None:
        """Writes a base file in each partition and, if `committed`, a commit with them."""
        stats: dict[str, Any] = {}
        for number, partition in enumerate(partitions):
            path = self.folder / partition
            path.mkdir(parents=True, exist_ok=True)
            (path / ".hoodie_partition_metadata").write_text(f"commitTime={instant}\npartitionDepth=1\n")
            name = f"group{number}-0_0-1-1_{instant}.parquet"
            (path / name).write_bytes(b"")
            stat = {"fileId": f"group{number}-0", "path": f"{partition}/{name}", "numWrites": 1, "numInserts": 1}
            stats[partition] = [stat]
        if committed:
            commit = {"partitionToWriteStats": stats, "extraMetadata": {"schema": json.dumps(SCHEMA)}}
            for ending in (".commit.requested", ".inflight"):
                (self.folder / ".hoodie" / f"{instant}{ending}").write_bytes(b"")
            (self.folder / ".hoodie" / f"{instant}.commit").write_text(
                json.dumps({**commit, "operationType": "INSERT", "compacted": False})
            )

    def plan(self, where: str, query: Query | None = None) -> tuple[list[str], list[str], Plan]:
        """(partitions planned, folders listed, the plan)."""
        storage = Counted(self.folder)
        request = PlanRequest(table="t", query=query or Snapshot(), where=where)
        result = plan_request(HudiTable(storage, load_properties(storage.inner)), "t", request)  # type: ignore[arg-type]
        return sorted({split.partition for split in result.splits}), sorted(set(storage.listed)), result


DAYS = [f"dt=2026-{1 + day // 28:02}-{1 + day % 28:02}" for day in range(336)]


def test_only_matching_partitions_are_listed(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t")
    table.write(DAYS)
    assert table.plan("dt = '2026-03-05'")[:2] == (["dt=2026-03-05"], ["", "dt=2026-03-05"])
    month = [day for day in DAYS if day.startswith("dt=2026-04")]
    for where in ("dt LIKE '2026-04%'", "dt >= '2026-04' AND dt < '2026-05'", "dt LIKE '2026-04-%' AND id = 'x'"):
        assert table.plan(where)[:2] == (month, ["", *month])
    everything = table.plan("id = 'x'")
    assert everything[0] == DAYS and len(everything[1]) == 337
    assert table.plan("dt = '2026-03-05' OR id = 'x'")[:2] == everything[:2]
    assert table.plan("dt IS NULL")[:2] == ([], [""])
    assert table.plan("")[2].splits == everything[2].splits, "what is left out changes no split that stays"


def test_range_lists_no_pruned_partition(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t")
    table.write(DAYS)
    table.write(DAYS[:3], SECOND)
    incremental = Incremental(after=Position(InstantTime(FIRST)))
    assert table.plan("", incremental)[:2] == (DAYS[:3], DAYS[:3])
    assert table.plan("dt = '2026-01-02'", incremental)[:2] == (DAYS[1:2], DAYS[1:2])
    assert table.plan("dt = '2026-03-05'", incremental)[:2] == ([], [])


def test_several_fields_prune_intermediate_folders(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t", "dt,hh")
    table.write([f"{day}/hh={hour:02}" for day in DAYS[:9] for hour in range(4)])
    day = "dt=2026-01-03"
    assert table.plan("dt = '2026-01-03' AND hh = 2")[:2] == ([f"{day}/hh=02"], ["", day, f"{day}/hh=02"])
    planned, listed, plan = table.plan("hh = 3")
    assert planned == [f"{day}/hh=03" for day in DAYS[:9]] and len(listed) == 1 + 9 + 9
    assert plan.scan.partition_fields == ("dt", "hh")


def test_partition_that_does_not_fit_takes_all_values_from_files(tmp_path: pathlib.Path) -> None:
    """No partition is pruned: only the file has the value of dt for `dt=2026/01/05`."""
    table = Table(tmp_path / "t", "dt,hh")
    table.write(["dt=2026-01-03/hh=1", "dt=2026-01-04/hh=2", "dt=2026/01/05/hh=3"])
    planned, _, plan = table.plan("dt = '2026-01-03'")
    assert len(planned) == 3 and plan.scan.partition_fields == ()


def test_unnamed_partition_that_does_not_fit_disables_pruning(tmp_path: pathlib.Path) -> None:
    """Its instant is older than the timeline, so it counts as committed, and no metadata refers to it."""
    table = Table(tmp_path / "t", "dt,hh")
    table.write(["dt=2026-01-03/hh=1", "dt=2026-01-04/hh=2"])
    table.write(["dt=2025/12/31/hh=3"], "20251231000000000", committed=False)
    planned, _, plan = table.plan("dt = '2026-01-03'")
    assert len(planned) == 3 and plan.scan.partition_fields == ()
    assert table.plan("")[0] == planned


def test_one_field_may_have_slashes_in_its_values(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t")
    table.write([f"2026/{month:02}/{day:02}" for month in (1, 2, 12) for day in (1, 2)] + ["2027/01/01"])
    folders = ["", "2026", "2026/02", "2026/02/01"]
    assert table.plan("dt = '2026/02/01'")[:2] == (["2026/02/01"], folders)
    assert table.plan("dt > '2026/12/01'")[0] == ["2026/12/02", "2027/01/01"]
    assert table.plan("dt LIKE '2026/1%'")[:2] == (
        ["2026/12/01", "2026/12/02"],
        ["", "2026", "2026/12", "2026/12/01", "2026/12/02"],
    )


def test_null_and_escaped_partitions(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t")
    table.write(["dt=__HIVE_DEFAULT_PARTITION__", "dt=a%2Fb", "dt=50%25", "dt=a"])
    assert table.plan("dt IS NULL")[0] == ["dt=__HIVE_DEFAULT_PARTITION__"]
    assert table.plan("dt = 'a/b'")[0] == ["dt=a%2Fb"]
    assert table.plan("dt = '50%'")[0] == ["dt=50%25"]
    assert table.plan("dt != 'a'")[0] == ["dt=50%25", "dt=a%2Fb"]
    assert table.plan("NOT (dt = 'a')")[0] == ["dt=50%25", "dt=a%2Fb"]
    assert table.plan("dt LIKE 'a%'")[0] == ["dt=a", "dt=a%2Fb"]


def test_value_of_another_type_is_left_to_the_reader(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t", "hh")
    table.write(["hh=1", "hh=02", "hh=noon"])
    assert table.plan("hh = 2")[0] == ["hh=02", "hh=noon"]


def test_values_from_files_prune_no_partition(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t", keygen="TimestampBasedKeyGenerator")
    table.write(DAYS[:9])
    assert table.plan("dt = '2026-01-02'")[0] == DAYS[:9]


def test_missing_file_is_an_error_only_in_unpruned_partitions(tmp_path: pathlib.Path) -> None:
    table = Table(tmp_path / "t")
    table.write(DAYS[:4])
    next((tmp_path / "t" / DAYS[1]).glob("*.parquet")).unlink()
    assert table.plan("dt = '2026-01-01'")[0] == DAYS[:1]
    for where in ("", "dt = '2026-01-02'", "dt <= '2026-01-02'"):
        with pytest.raises(CorruptFile, match="is missing"):
            table.plan(where)
