"""Indexes that find keys in files: Hudi and Penstock write one table in turn, by one index or by related ones."""

from __future__ import annotations

import pathlib
import shutil
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock
from penstock.engine.write import current_table
from penstock.proto.errors import TableError
from tests.interop.mixed.histories import History
from tests.interop.mixed.shapes import Row, Shape, shape_of
from tests.interop.mixed.steps import Write
from tests.interop.mixed.writers import Writers, table_of

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]


def shape(index: str, *, version: int, merge_on_read: bool, by_penstock: bool = True) -> Shape:
    return replace(
        shape_of(0),
        version=version,
        merge_on_read=merge_on_read,
        buckets=0,
        index=index,
        partitioned=True,
        two_keys=False,
        number_key=False,
        ordering="long",
        hive_style=False,
        small_files=True,
        marker=True,
        columns=("name", "price"),
        by_penstock=by_penstock,
    )


FIRST = tuple(Row(key, 10, key, ("oslo", "riga")[key % 2]) for key in range(1, 13))
MOVES = (
    Row(1, 20, 21, "oslo"),  # from riga
    Row(2, 5, 22, "riga"),  # late: it stays in oslo
    Row(3, 20, 23, "new york"),  # into a new partition
    Row(4, 20, 24, "oslo"),  # stays
    Row(5, 20, 25, "oslo", deleted=True),  # is deleted in riga
    Row(6, 5, 26, "riga", deleted=True),  # late delete
    Row(20, 20, 27, "riga"),  # new
    Row(7, 20, 28, "riga"),
    Row(7, 30, 29, "oslo"),  # of two rows of a key the newer one
)
BACK = (Row(1, 30, 31, "riga"), Row(3, 30, 32, "riga"), Row(5, 30, 33, "new york"), Row(2, 30, 34, "riga"))
AGAIN = (Row(1, 40, 41, "oslo"), Row(20, 15, 42, "oslo"), Row(7, 40, 43, "oslo"), Row(4, 40, 44, "riga"))


def stored(path: pathlib.Path) -> list[dict[str, Any]]:
    """The values of a base file, without those of its path."""
    with path.open("rb") as file:
        rows: list[dict[str, Any]] = pq.read_table(file, columns=["qty", "city"]).to_pylist()
        return rows


class ByBoth(History):
    """A table whose steps are given."""

    def step(self, operation: str, rows: tuple[Row, ...], *, by_penstock: bool) -> None:
        """A write; then the rows of both readers are those of the model."""
        step = Write(by_penstock, operation, rows)
        self.steps.append(step)
        self._carry_out(step)
        self._check(step)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("index", "version", "merge_on_read"),
    [
        ("global_bloom", 9, True),
        ("global_simple", 9, False),
        pytest.param("global_simple", 6, True, marks=pytest.mark.long),
        pytest.param("global_bloom", 6, False, marks=pytest.mark.long),
    ],
)
def test_keys_move_between_partitions_by_either_writer(
    hudi: Any, tmp_path: pathlib.Path, index: str, version: int, merge_on_read: bool
) -> None:
    table = shape(index, version=version, merge_on_read=merge_on_read)
    history = ByBoth(hudi, tmp_path / "moves", 0, table, "1.2.0")
    history.writers.create()
    history.step("upsert", FIRST, by_penstock=True)
    history.step("upsert", MOVES, by_penstock=True)
    history.step("upsert", BACK, by_penstock=False)
    history.step("upsert", AGAIN, by_penstock=False)
    history.step("delete", (Row(1, 0, 0, "new york"), Row(8, 0, 0, "riga")), by_penstock=True)
    history.step("upsert", MOVES, by_penstock=True)
    history.check_end()


@pytest.mark.parametrize(
    ("version", "merge_on_read"),
    [(9, False), pytest.param(6, True, marks=pytest.mark.exhaustive)],
)
def test_rows_stay_in_their_partition_by_either_writer(
    hudi: Any, tmp_path: pathlib.Path, version: int, merge_on_read: bool
) -> None:
    """Without moves, a row has the partition path under which its key is stored. Its file has its own value of the
    partition column, and readers return that of the path."""
    table = shape("global_bloom", version=version, merge_on_read=merge_on_read)
    writers = Writers(hudi, tmp_path / "stays", table)
    writers.create()
    writers.by_penstock("upsert", FIRST[:4])
    columns = ["_hoodie_partition_path", "_hoodie_record_key", "qty", "city"]
    seen = []
    for row in (Row(1, 20, 21, "oslo"), Row(2, 20, 22, "riga"), Row(9, 20, 29, "new york")):
        if row.key == 2:
            data = table_of(table, (row,))
            penstock.write(str(writers.path), data, timeline_timezone="UTC", update_partition_path=False)
        else:
            writers.by_hudi("upsert", (row,), **{"hoodie.bloom.index.update.partition.path": "false"})
        penstocks, hudis = writers.read().select(columns), hudi.read(writers.path).select(columns)
        assert sorted(penstocks.to_pylist(), key=str) == sorted(hudis.to_pylist(), key=str)
        seen += [tuple(one.values()) for one in hudis.to_pylist() if one["qty"] == row.value]
    assert seen == [("riga", "k1", 21, "riga"), ("oslo", "k2", 22, "oslo"), ("new york", "k9", 29, "new york")]
    if not merge_on_read:
        files = {row["qty"]: row["city"] for path in writers.path.rglob("*.parquet") for row in stored(path)}
        assert (files[21], files[22]) == ("oslo", "riga")


@pytest.mark.parametrize(
    ("version", "merge_on_read"),
    [(9, False), pytest.param(6, True, marks=pytest.mark.exhaustive)],
)
def test_tables_of_related_indexes_are_written_by_either(
    hudi: Any, tmp_path: pathlib.Path, version: int, merge_on_read: bool
) -> None:
    """Hudi records no index: files of one are searched by the others, without a bootstrap."""
    table = shape("simple", version=version, merge_on_read=merge_on_read, by_penstock=False)
    writers = Writers(hudi, tmp_path / "related", table)
    expected: dict[int, int] = {}

    def wrote(rows: tuple[Row, ...], index: str, *, by_penstock: bool) -> None:
        if by_penstock:
            penstock.write(str(writers.path), table_of(table, rows), index=index, timeline_timezone="UTC")
        else:
            writers.by_hudi("upsert", rows, **{"hoodie.index.type": index.upper()})
        expected.update({row.key: row.value for row in rows})
        for rows_read in (writers.read(), hudi.read(writers.path)):
            assert sorted(rows_read["qty"].to_pylist()) == sorted(expected.values())

    wrote(FIRST, "simple", by_penstock=False)
    with pytest.raises(TableError, match="are none of a bucket index"):
        penstock.write(str(writers.path), table_of(table, FIRST), index="bucket", buckets=4, timeline_timezone="UTC")
    wrote((Row(1, 20, 21, "riga"), Row(30, 20, 30, "oslo")), "bloom", by_penstock=True)
    wrote((Row(1, 30, 31, "riga"), Row(30, 30, 32, "oslo"), Row(31, 30, 33, "riga")), "bloom", by_penstock=False)
    wrote((Row(31, 40, 41, "riga"), Row(2, 40, 42, "oslo")), "simple", by_penstock=True)
    wrote((Row(31, 50, 51, "oslo"), Row(30, 50, 52, "oslo")), "global_bloom", by_penstock=True)
    wrote((Row(31, 60, 61, "riga"), Row(1, 60, 62, "oslo")), "global_simple", by_penstock=False)


def test_table_of_buckets_is_refused_to_other_indexes(hudi: Any, tmp_path: pathlib.Path) -> None:
    table = replace(shape("bucket", version=9, merge_on_read=True, by_penstock=False), buckets=2)
    writers = Writers(hudi, tmp_path / "buckets", table)
    writers.by_hudi("upsert", FIRST[:3])
    for index in ("simple", "bloom", "global_simple", "global_bloom"):
        with pytest.raises(TableError, match=r"file groups are buckets, .* nothing was written; give index='bucket'"):
            penstock.write(str(writers.path), table_of(table, FIRST), index=index, timeline_timezone="UTC")
    assert sorted(writers.read()["qty"].to_pylist()) == [1, 2, 3]


@pytest.mark.parametrize(("version", "index"), [(9, "bloom"), pytest.param(6, "simple", marks=pytest.mark.exhaustive)])
def test_key_that_only_a_log_has_is_found(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, index: str
) -> None:
    """A key that is deleted before a compaction is planned, and written again before it runs."""
    writers = Writers(hudi, tmp_path / "gap", shape(index, version=version, merge_on_read=True))
    writers.create()
    writers.by_penstock("upsert", FIRST[:4])
    writers.by_penstock("delete", (Row(1, 0, 0, "riga"),))
    writers.compact("schedule")
    writers.by_penstock("upsert", (Row(1, 20, 21, "riga"),))
    writers.compact("execute")
    copy = shutil.copytree(writers.path, tmp_path / "copy")
    writers.by_penstock("upsert", (Row(1, 30, 31, "riga"),))
    for rows in (writers.read(), hudi.read(writers.path)):
        assert sorted(rows["qty"].to_pylist()) == [2, 3, 4, 31]
    monkeypatch.setattr(current_table, "logs_may_add_keys", lambda *given: False)
    writers.path = copy
    writers.by_penstock("upsert", (Row(1, 30, 31, "riga"),))
    assert sorted(writers.read()["qty"].to_pylist()) == [2, 3, 4, 21, 31], "negative control"
