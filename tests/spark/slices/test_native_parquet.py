"""Base files without logs, read by Spark's own Parquet reader: the rows are those of Penstock's reader, whatever the
files and the session are. The oracle is Penstock's own reader (proven against Hudi elsewhere), and Hudi's rows."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.spark.slices import divide, frame, layout
from tests.spark.slices import column_types
from tests.spark.slices.crafted_table import CraftedTable, native_files

Frames = Callable[..., DataFrame]
Exact = Callable[[DataFrame], Counter[str]]

HUDI_TABLES = {
    "A_types_v9_h120": 0,
    "A_types_bulk_millis_v9_h120": 1,
    "A_drop_part_cols_v9_h120": 1,
    "A_nonpart_nometa_v9_h120": 0,
    "A_part_special_v6_h0150": 1,
    "A_evo_add_column_v9_h120": 1,
    "A_evo_widen_v6_h0150": 0,
    "D_evolved_on_read_cow_v9": 0,
    "A_replace_ops_v9_h120": 1,
    "A_savepoint_restore_v9_h120": 0,
    "D_changelog_spark_cow_v9": 1,
    "A_clustering_done_v9_h120": 1,
}
"""Golden tables, with 1 where Spark must read at least one file of the snapshot or of the base files."""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", HUDI_TABLES)
def test_golden_tables_have_hudis_rows(
    case: str, golden: Any, table: Frames, penstock_reads: Frames, rows_of: Any, exact: Exact
) -> None:
    path = golden.table(case)
    snapshot = table(path)
    assert snapshot.schema == penstock_reads(path).schema
    assert rows_of(snapshot) == rows_of(golden.expected(case, "snapshot"))
    bases = table(path, query="read_optimized")
    assert exact(bases) == exact(penstock_reads(path, query="read_optimized"))
    files = len(native_files(snapshot)) + len(native_files(bases))
    assert min(files, 1) >= HUDI_TABLES[case]


@pytest.mark.parametrize("unit", ["micros", "millis"])
def test_every_type_and_filter(
    unit: str,
    spark: SparkSession,
    tmp_path: pathlib.Path,
    table: Frames,
    penstock_reads: Frames,
    exact: Exact,
    setting: Any,
) -> None:
    """Files with one dictionary page of zeros, and files with ranges that a filter rules out."""
    setting("spark.sql.parquet.outputTimestampType", f"TIMESTAMP_{unit.upper()}")
    crafted = CraftedTable(tmp_path / "t", column_types.fields(unit))
    rows = column_types.rows(spark, 900, below_millis=7 if unit == "micros" else 0)
    zeros = rows.where("x = 0 OR isnan(x)").withColumn("tm", F.timestamp_millis(F.lit(0)))
    crafted.commit(("", rows.where("id < 'k5'")), ("", rows.where("id >= 'k5'")), ("", zeros))
    native, own = table(crafted.path), penstock_reads(crafted.path)
    assert len(native_files(native)) == 3
    assert native.schema == own.schema
    assert exact(native) == exact(own)
    pushed = table(crafted.path, [name for name in column_types.fields() if name != "st"])
    conditions = [text for text in column_types.CONDITIONS if unit == "micros" or "tm" in text]
    filtered = [(native if "st." in text else pushed).where(text).select("id") for text in conditions]
    assert filtered_fingerprints(filtered) == fingerprints(own, conditions)


def test_sparks_own_pushdown_would_lose_rows(
    spark: SparkSession, tmp_path: pathlib.Path, table: Frames, penstock_reads: Frames, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the filters above: without the protection of floating columns, Spark 4.3 leaves out -0.0."""
    crafted = CraftedTable(tmp_path / "t", column_types.fields())
    crafted.commit(("", column_types.rows(spark, 300).where("x = 0").withColumn("x", F.lit(-0.0))))
    expected = penstock_reads(crafted.path).where("x = 0.0D").count()
    assert table(crafted.path, ["id", "x"]).where("x = 0.0D").count() == expected > 0
    monkeypatch.setattr(divide, "spark_reading", lambda *_: layout.SparkReading())
    assert table(crafted.path, ["id", "x"]).where("x = 0.0D").count() < expected


def fingerprints(frame: DataFrame, conditions: Sequence[str]) -> list[tuple[int, int | None]]:
    """For each condition the number of rows, and a checksum of their keys. Nothing is pushed down."""
    parts = [
        part
        for text in conditions
        for part in (F.count_if(F.expr(text)), F.bit_xor(F.when(F.expr(text), F.xxhash64("id"))))
    ]
    values = list(frame.agg(*parts).collect()[0])
    return list(zip(values[::2], values[1::2], strict=True))


def filtered_fingerprints(frames: Sequence[DataFrame]) -> list[tuple[int, int | None]]:
    """The fingerprint of each frame of keys, each with its own scan, by one job."""
    tagged = [frame.select("id", F.lit(number).alias("number")) for number, frame in enumerate(frames)]
    counted = reduce(DataFrame.union, tagged).groupBy("number").agg(F.count("id"), F.bit_xor(F.xxhash64("id")))
    found = {number: (rows, keys) for number, rows, keys in counted.collect()}
    return [found.get(number, (0, None)) for number in range(len(frames))]


def small(spark: SparkSession, select: str, rows: int = 20) -> DataFrame:
    """Rows with the meta columns and those of the SELECT."""
    meta = ", ".join(f"'m' {name}" for name in column_types.META)
    return spark.sql(f"SELECT {meta}, {select} FROM range({rows})")


def of_two_files(spark: SparkSession, folder: pathlib.Path) -> pathlib.Path:
    """A table of two base files with texts and bytes."""
    crafted = CraftedTable(folder / "t", {"id": "string", "b": "bytes"})
    rows = small(spark, "concat('k', id) id, encode('b', 'utf-8') b")
    crafted.commit(("", rows), ("", rows))
    return crafted.path


def test_partition_values_come_from_the_path(
    spark: SparkSession, tmp_path: pathlib.Path, table: Frames, penstock_reads: Frames, exact: Exact, monkeypatch: Any
) -> None:
    """Of one partition the file has the path's value, of others another value, null, or no such column."""
    monkeypatch.setattr(divide, "BRANCH_BYTES", 0)
    fields = {"id": "string", "p": "string", "n": "int", "day": {"type": "int", "logicalType": "date"}}
    crafted = CraftedTable(tmp_path / "t", fields, partition_fields=("p", "n", "day"))
    same = "concat('k', id) id, 'a b/c' p, 7 n, date'2026-01-02' day"
    crafted.commit(
        ("p=a b%2Fc/n=7/day=2026-01-02", small(spark, same)),
        ("p=other/n=8/day=2026-01-03", small(spark, same)),
        ("p=__HIVE_DEFAULT_PARTITION__/n=9/day=2026-01-02", small(spark, same)),
        ("p=é=%25/n=-1/day=1500-01-01", small(spark, "concat('k', id) id")),
    )
    native, own = table(crafted.path), penstock_reads(crafted.path)
    assert len(native_files(native)) == 4
    assert native.schema == own.schema
    assert exact(native) == exact(own)
    assert exact(native.where("p = 'other' AND n > 7")) == exact(own.where("p = 'other' AND n > 7"))
    only_paths = table(crafted.path, ["n", "p"])
    assert exact(only_paths) == exact(own.select("n", "p"))
    monkeypatch.undo()
    assert len(native_files(table(crafted.path))) == 1, "small partitions are no branches of their own"
    assert exact(table(crafted.path)) == exact(own)


def test_files_that_differ_from_the_table_are_penstocks(
    spark: SparkSession, tmp_path: pathlib.Path, table: Frames, penstock_reads: Frames, exact: Exact, setting: Any
) -> None:
    """One file of Spark for each way in which Spark would read other values, or might."""
    setting("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    fields = {"id": "string", "n": "long", "Name": "string", "ts": {"type": "long", "logicalType": "timestamp-micros"}}
    crafted = CraftedTable(tmp_path / "t", {**fields, "li": {"type": "array", "items": ["null", "int"]}})
    whole = "concat('k', id) id, id n, 'x' Name, timestamp_micros(-62135596800000000 + id) ts, array(1) li"
    as_is = small(spark, whole)
    (plain,) = crafted.commit(("", as_is))
    (added,) = crafted.commit(("", as_is.drop("n", "li")))
    crafted.commit(("", as_is.withColumn("n", F.col("n").cast("int"))))
    crafted.commit(("", as_is.withColumnRenamed("Name", "name")))
    crafted.commit(("", as_is.withColumn("name2", F.lit(1)).withColumnRenamed("name2", "NAMES").drop("Name")))
    crafted.commit(("", as_is.select("*", F.lit("y").alias("extra"))))
    crafted.commit(("", as_is.toArrow().cast(pa.schema([*as_is.toArrow().schema]))))
    setting("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY")
    crafted.commit(("", as_is))
    setting("spark.sql.parquet.outputTimestampType", "INT96")
    crafted.commit(("", as_is))
    setting("spark.sql.parquet.writeLegacyFormat", "true")
    crafted.commit(("", as_is.withColumn("ts", F.lit(None).cast("timestamp_ntz").cast("timestamp"))))
    native, own = table(crafted.path), penstock_reads(crafted.path)
    expected = exact(own)
    assert {plain, added} < set(native_files(native))
    assert len(native_files(native)) == 4, "also those with another column, and without one"
    for sensitive in ("true", "false"):
        setting("spark.sql.caseSensitive", sensitive)
        assert exact(table(crafted.path)) == expected
        assert exact(native) == expected


def test_settings_that_change_rows_switch_it_off(
    tmp_path: pathlib.Path, table: Frames, exact: Exact, setting: Any, spark: SparkSession
) -> None:
    path = of_two_files(spark, tmp_path)
    native = table(path)
    expected = exact(native)
    assert native_files(native)
    assert not native_files(table(path, nativeParquet="off"))
    for name, value in (
        ("spark.sql.parquet.enableVectorizedReader", "false"),
        ("spark.sql.parquet.binaryAsString", "true"),
        ("spark.sql.sources.useV1SourceList", ""),
    ):
        before = spark.conf.get(name)
        setting(name, value)
        off = table(path)
        assert not native_files(off), name
        assert exact(off) == exact(native) == expected, name
        setting(name, str(before))


def test_removed_file_is_an_error_that_names_it(
    tmp_path: pathlib.Path, table: Frames, setting: Any, spark: SparkSession
) -> None:
    """Also after REFRESH TABLE, which makes Spark forget such files of its own tables."""
    path = of_two_files(spark, tmp_path)
    frame = table(path)
    frame.createOrReplaceTempView("slices_v")
    gone = native_files(frame)[0]
    next(path.rglob(gone)).unlink()
    setting("spark.sql.files.ignoreMissingFiles", "true")
    setting("spark.sql.files.ignoreCorruptFiles", "true")
    for _ in range(2):
        with pytest.raises((PySparkException, Py4JError), match=gone.replace(".", r"\.")):
            frame.toArrow()
        spark.catalog.refreshTable("slices_v")
    spark.catalog.dropTempView("slices_v")


def test_logged_slices_and_repeated_actions(either: Any, golden: Any, rows_of: Any) -> None:
    """Both parts come from one plan, embedded or of a server."""
    from penstock import spark as penstock_spark

    server = either.options.get("server")
    expected = rows_of(golden.expected(either.case, "snapshot"))
    whole = penstock_spark.table(either.spark, either.target, server=server)
    assert rows_of(whole) == expected
    assert whole.count() == whole.count() == expected.total()
    assert rows_of(whole.union(whole)) == expected + expected
    assert rows_of(whole.orderBy("_hoodie_record_key")) == expected
    assert len(whole.take(1)) == 1
    bases = penstock_spark.table(either.spark, either.target, server=server, query="read_optimized")
    assert native_files(bases)
    assert rows_of(bases) == rows_of(either.read(query="read_optimized"))


def test_plan_keeps_its_state(golden: Any, tmp_path: pathlib.Path, table: Frames, exact: Exact, spark: Any) -> None:
    crafted = CraftedTable(tmp_path / "odd {a,b}*[1]?#%20 é", {"id": "string"})
    crafted.commit(("", small(spark, "concat('k', id) id")))
    first = table(crafted.path)
    crafted.commit(("", small(spark, "concat('m', id) id")))
    second = table(crafted.path)
    assert (first.count(), second.count(), first.union(second).count()) == (20, 40, 60)
    assert (len(native_files(first)), len(native_files(second))) == (1, 2)
    assert exact(table(crafted.path, asOf="20261122000001000")) == exact(first)
    assert table(crafted.path, limit=1).count() == 2


def test_storage_that_spark_does_not_reach(
    tmp_path: pathlib.Path,
    table: Frames,
    exact: Exact,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spark: SparkSession,
) -> None:
    path = of_two_files(spark, tmp_path)
    expected = exact(table(path))
    monkeypatch.setattr(frame, "spark_folder", lambda _: "nosuch://bucket/table")
    unreached = table(path)
    assert not native_files(unreached)
    assert exact(unreached) == expected
    assert "Spark's Parquet reader is not used" in caplog.text
