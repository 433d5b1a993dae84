"""Changes are upserted in their order, however the data frame is: the rows are those of the source of the changes."""

from __future__ import annotations

import pathlib
import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import penstock
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from tests.spark.write.tables import SCHEMA, Row, create, rows_of

Change = tuple[str | None, str | None, str, int, str]
"""_change_type, _change_seq, id, seq, city."""


NAMES = ["_change_type", "_change_seq", "id", "seq", "city"]


def changes_frame(spark: SparkSession, changes: list[Change]) -> DataFrame:
    types = [pa.string(), pa.string(), *SCHEMA.types[:3]]
    columns = [pa.array(values, kind) for values, kind in zip(zip(*changes, strict=True), types, strict=True)]
    return spark.createDataFrame(pa.table(columns, names=NAMES)).repartition(3)


def random_changes(rng: random.Random, rows: dict[str, Row], count: int, first: int) -> list[Change]:
    """Changes of few keys in random order; `rows` is changed too. An update moves some keys to another partition."""
    changes: list[Change] = []
    for number in range(first, first + count):
        key = f"k{rng.randrange(6)}"
        old = rows.pop(key, None)
        new = (key, number, rng.choice(("oslo", "bern"))) if old is None or rng.random() < 0.6 else None
        if old is not None:
            changes.append(("-D" if new is None else "-U", f"{number:05}a", *old))
        if new is not None:
            rows[key] = new
            changes.append(("+I" if old is None else "+U", f"{number:05}b", *new))
    rng.shuffle(changes)
    return changes


@pytest.mark.parametrize(("kind", "index"), [("merge_on_read", "bucket"), ("copy_on_write", "simple")])
def test_last_change_of_each_key_counts(spark: SparkSession, tmp_path: pathlib.Path, kind: str, index: str) -> None:
    path = create(tmp_path / "t", kind, index, ordering=())
    rng, rows = random.Random(index), dict[str, Row]()
    for first in (0, 40):
        changes = random_changes(rng, rows, 40, first)
        assert penstock.spark.write(changes_frame(spark, changes), path).rows == len(changes)
        assert rows_of(path) == sorted(rows.values())
    assert [name for name in penstock.read(path).schema.names if name.startswith("_change")] == []


def test_partition_of_an_hour_has_the_last_change_of_its_key(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """The times of both rows are of one partition."""
    path = create(
        tmp_path / "t",
        ordering=(),
        partition_by="seq",
        key_generator="TIMESTAMP",
        time_partitions={"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyyMMddHH"},
    )
    changes: list[Change] = [("+U", "4", "a", 30, "x"), ("-U", "3", "a", 10, "x"), ("+I", "1", "a", 10, "x")]
    penstock.spark.write(changes_frame(spark, changes), path)
    assert [row["city"] for row in penstock.read(path).read_all().to_pylist()] == ["x"]


def test_the_new_row_of_an_update_counts_if_both_have_one_sequence(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    path = create(tmp_path / "t", ordering=())
    old, new = ("-U", "2", "a", 1, "oslo"), ("+U", "2", "a", 2, "oslo")
    for changes in ([old, new], [new, old]):
        penstock.spark.write(changes_frame(spark, [("+I", "1", "a", 1, "oslo"), *changes]), path)
        assert [row["seq"] for row in penstock.read(path).read_all().to_pylist()] == [2]


def test_changes_that_cannot_be_ordered_are_refused(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    ordered, path = create(tmp_path / "ordered"), create(tmp_path / "t", ordering=())
    change: Any = ("+I", "1", "a", 1, "oslo")
    frame = changes_frame(spark, [change])
    with pytest.raises(ConfigurationError, match="the table orders rows by seq: a stored row could win"):
        penstock.spark.write(frame, ordered)
    with pytest.raises(ConfigurationError, match="would delete the rows of all of them"):
        penstock.spark.write(frame, path, "delete")
    with pytest.raises(SchemaMismatch, match="_change_seq"):
        penstock.spark.write(frame.drop("_change_seq"), path)
    for kind, sequence, text in (("u", "2", "_change_type u "), (None, "2", "null"), ("+I", None, "_change_seq null")):
        with pytest.raises(SchemaMismatch, match=f"{text}.*expected one of"):
            penstock.spark.write(changes_frame(spark, [change, (kind, sequence, "b", 1, "oslo")]), path)
    assert rows_of(path) == []
    penstock.spark.write(frame, path)
    assert rows_of(path) == [change[2:]], "the control"


def test_table_of_changes_keeps_their_columns(spark: SparkSession, tmp_path: pathlib.Path) -> None:
    """An insert stores changes as rows; so does an upsert into a table with the column."""
    path = create(tmp_path / "t", "copy_on_write", "simple", ordering=())
    penstock.spark.write(changes_frame(spark, [("-D", "1", "a", 1, "oslo")]), path, "insert")
    penstock.spark.write(changes_frame(spark, [("-D", "2", "b", 1, "oslo")]), path)
    assert penstock.read(path).read_all().sort_by("id")["_change_type"].to_pylist() == ["-D", "-D"]
