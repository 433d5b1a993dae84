"""TPC-H: its tables are loaded and refreshed from Spark, and real Hudi and Penstock return the same answers.

The expected rows are those of the generated Parquet files, to which Arrow applies the refresh functions.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow.parquet as pq
import pytest

import penstock
import penstock.spark
from bench.tpch.data import TABLES, generate, queries, read
from bench.tpch.refresh import REFRESHED, RefreshedTable
from bench.writing.object_rows import write_objects
from penstock.engine.write.create import create_table

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

SCALE: Final = 0.01
ONE_IN: Final = 20
"""One order of so many is copied, one is changed, one is deleted: more than in TPC-H, so that answers change."""
LAYOUTS: Final = {
    "region": ("copy_on_write", "simple", None),
    "nation": ("merge_on_read", "bloom", None),
    "supplier": ("copy_on_write", "bucket", 1),
    "customer": ("merge_on_read", "simple", None),
    "part": ("copy_on_write", "bloom", None),
    "partsupp": ("merge_on_read", "bucket", 2),
    "orders": ("copy_on_write", "simple", None),
    "lineitem": ("merge_on_read", "bucket", 4),
}
"""Table -> its type, index and buckets."""
QUERIES: Final = dict(queries(SCALE))
SHORT: Final = ("Q1", "Q4", "Q18")
"""The queries of `make test-all`. The refresh functions change their answers at this scale."""

Answers = Mapping[str, Sequence[tuple[str, ...]]]


@dataclass(frozen=True)
class Lake:
    """The tables after both refresh functions."""

    spark: Any
    """The session, with a view of each table, through Penstock, and of its expected rows."""
    hudi: Any
    """The process of Hudi, with a view of each table."""
    folder: pathlib.Path
    """The folder of the tables."""

    def expected(self, names: Sequence[str], view: str) -> Answers:
        """The answers over the expected rows. view: `expected` or `generated`, the rows before the refresh."""
        for table in TABLES:
            self.spark.table(f"{view}_{table.name}").createOrReplaceTempView(table.name)
        return {name: texts(self.spark.sql(QUERIES[name]).collect()) for name in names}

    def penstocks(self, names: Sequence[str]) -> Answers:
        """The answers over Penstock's reader."""
        return self.expected(names, "penstock")

    def hudis(self, names: Sequence[str]) -> Answers:
        """The answers over Hudi's reader."""
        return {name: texts(row.values() for row in self.hudi.call(QUERIES[name])) for name in names}


def texts(rows: Any) -> list[tuple[str, ...]]:
    """The values of rows, in any order: several rows may have the same place in the order of a query."""
    return sorted(tuple(str(value) for value in row) for row in rows)


@pytest.fixture(scope="module")
def lake(spark: Any, hudi: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Loads the eight tables by bulk inserts, upserts RF1, and deletes RF2."""
    folder = tmp_path_factory.mktemp("tpch")
    generate(folder / "generated", SCALE)
    for name in ("expected", "upserted", "deleted"):
        (folder / name).mkdir()
    for table in TABLES:
        path, file = folder / table.name, f"{table.name}.parquet"
        (kind, index, buckets), generated = LAYOUTS[table.name], spark.read.parquet(str(folder / "generated" / file))
        schema = generated.limit(0).toArrow().schema
        create_table(str(path), schema, record_key=table.key, table_type=kind, index=index, buckets=buckets)
        assert penstock.spark.write(generated, str(path), "bulk_insert").inserted > 0
        expected = "generated"
        for refresh in (refresh for refresh in REFRESHED if refresh.name == table.name):
            refresh_table(spark, refresh, table.key, folder)
            expected = "expected"
        generated.createOrReplaceTempView(f"generated_{table.name}")
        spark.read.parquet(str(folder / expected / file)).createOrReplaceTempView(f"expected_{table.name}")
        spark.read.format("penstock").load(str(path)).createOrReplaceTempView(f"penstock_{table.name}")
        hudi.call(f"CREATE OR REPLACE TEMPORARY VIEW {table.name} USING hudi OPTIONS (path '{path}')")
    yield Lake(spark, hudi, folder)
    for table in TABLES:
        hudi.call(f"DROP VIEW {table.name}")
        for prefix in ("", "generated_", "expected_", "penstock_"):
            spark.catalog.dropTempView(f"{prefix}{table.name}")


def refresh_table(spark: Any, refresh: RefreshedTable, key: Sequence[str], folder: pathlib.Path) -> None:
    """Upserts RF1 and deletes RF2, and writes the expected rows as Parquet."""
    path, file = str(folder / refresh.name), f"{refresh.name}.parquet"
    generated = read(folder / "generated" / file)
    upserted, deleted = refresh.rf1(generated, ONE_IN), refresh.rf2(generated, ONE_IN)
    pq.write_table(refresh.refreshed(generated, ONE_IN), folder / "expected" / file)
    pq.write_table(upserted, folder / "upserted" / file)
    pq.write_table(deleted.select(key), folder / "deleted" / file)
    result = penstock.spark.write(spark.read.parquet(str(folder / "upserted" / file)), path, "upsert")
    assert result.rows == upserted.num_rows
    result = penstock.spark.write(spark.read.parquet(str(folder / "deleted" / file)), path, "delete")
    assert result.rows == deleted.num_rows > 0


@pytest.mark.long
@pytest.mark.parametrize("name", [refresh.name for refresh in REFRESHED])
def test_refreshed_tables_have_the_expected_rows(lake: Lake, name: str) -> None:
    expected = lake.spark.table(f"expected_{name}").toArrow()
    key = next(table.key for table in TABLES if table.name == name)
    by_key = expected.sort_by([(column, "ascending") for column in key])
    for rows in (lake.spark.table(f"penstock_{name}").toArrow(), lake.hudi.read(lake.folder / name)):
        data = rows.select(expected.column_names).sort_by([(column, "ascending") for column in key])
        assert data.cast(expected.schema).equals(by_key)


def test_queries_have_the_answers_of_the_expected_rows(lake: Lake) -> None:
    expected = lake.expected(SHORT, "expected")
    assert lake.penstocks(SHORT) == expected
    assert lake.hudis(SHORT) == expected
    before = lake.expected(SHORT, "generated")
    same = [name for name in SHORT if before[name] == expected[name]]
    assert not same, "the control: answers without the refresh functions differ"


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in QUERIES if name not in SHORT])
def test_every_query_has_the_answer_of_the_expected_rows(lake: Lake, name: str) -> None:
    expected = lake.expected([name], "expected")
    assert expected[name], "a query without rows compares nothing"
    assert lake.penstocks([name]) == expected
    assert lake.hudis([name]) == expected


@pytest.mark.long
def test_one_object_per_record_writes_the_same_rows(spark: Any, tmp_path: pathlib.Path) -> None:
    """The contestant of `bench.spark_writes`."""
    generate(tmp_path / "generated", SCALE, "supplier")
    rows = spark.read.parquet(str(tmp_path / "generated" / "supplier.parquet"))
    schema = rows.limit(0).toArrow().schema
    for name, write in {"rows": penstock.spark.write, "objects": write_objects}.items():
        create_table(str(tmp_path / name), schema, record_key="s_suppkey", index="bucket", buckets=2)
        assert write(rows, str(tmp_path / name), "upsert").inserted == 100
        changed = rows.where("s_suppkey > 90").withColumn("s_name", rows.s_address)
        assert write(changed, str(tmp_path / name), "upsert").updated == 10
    ours, objects = (penstock.read(str(tmp_path / name), meta=False).read_all() for name in ("rows", "objects"))
    assert objects.sort_by("s_suppkey").equals(ours.sort_by("s_suppkey"))
    names, addresses = objects["s_name"].to_pylist(), objects["s_address"].to_pylist()
    assert sum(name == address for name, address in zip(names, addresses, strict=True)) == 10
