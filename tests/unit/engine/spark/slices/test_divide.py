"""Every split of a plan is in one part, and only files with proven facts are Spark's."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.spark.slices.divide import Division, divided
from penstock.engine.spark.slices.footers import FileFacts
from penstock.engine.spark.slices.layout import FileLayout, Leaf
from penstock.engine.spark.slices.parquet_frame import spark_folder
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    Exclusions,
    RowGroupRun,
    RowLineage,
    RowsOf,
    Scan,
    Split,
    VisibleInstants,
)
from tests.oracle.slice_writer import table_schema

SCAN = Scan(
    table="t",
    base_path="/lake/t",
    table_version=9,
    schema_json=json.dumps(table_schema({"id": "string", "p": "string"}, with_meta=False)),
    columns=("id", "p"),
    merge=CommitTimeOrdering(),
    visible=VisibleInstants(frozenset()),
)
LAYOUT = FileLayout(
    pa.schema([("id", pa.string()), ("p", pa.string())]),
    (Leaf("id", "BYTE_ARRAY", "STRING", ""), Leaf("p", "BYTE_ARRAY", "STRING", "")),
)
FACTS = FileFacts(size_bytes=10, row_groups=4, layout=LAYOUT, writer="parquet-mr version 1.13.1", legacy_calendar=False)
LOG = FileRef(path=".f.log.1", size_bytes=1)


def a_split(name: str, **changed: Any) -> Split:
    base = FileRef(path=f"p/{name}.parquet", size_bytes=10)
    split = Split(
        split_id=name,
        partition="p",
        partition_values=(),
        file_group=name,
        order_key=InstantTime("20260101000000000"),
        base=base,
    )
    return dataclasses.replace(split, **changed)


def parts(splits: Sequence[Split], scan: Scan = SCAN, **facts: Any) -> Division:
    known = dataclasses.replace(FACTS, **facts)
    return divided(scan, tuple(splits), lambda files, columns: [known] * len(files), branch_bytes=0)


def paths(division: Division) -> list[str]:
    return sorted(file.path for part in division.spark for file in part.files)


def test_log_free_slices_are_sparks_and_the_others_stay_in_order() -> None:
    plan = [a_split("a"), a_split("b", logs=(LOG,)), a_split("c"), a_split("d", base=None, logs=(LOG,))]
    division = parts(plan)
    assert paths(division) == ["p/a.parquet", "p/c.parquet"]
    assert [split.split_id for split in division.rest] == ["b", "d"]


@pytest.mark.parametrize(
    "changed",
    [
        {"ancestry": RowLineage()},
        {"left_out": Exclusions()},
        {"base": FileRef(path="p/_hidden.parquet", size_bytes=1)},
        {"base": FileRef(path="p/.hidden.parquet", size_bytes=1)},
        {"part": RowGroupRun(0, 3)},
        {"part": RowGroupRun(1, 4)},
    ],
)
def test_splits_that_are_more_or_less_than_a_file_are_penstocks(changed: dict[str, Any]) -> None:
    division = parts([a_split("a", **changed)])
    assert (paths(division), len(division.rest)) == ([], 1)


def test_runs_of_row_groups_count_if_they_are_the_whole_file() -> None:
    whole = [a_split("a", split_id="a1", part=RowGroupRun(0, 2)), a_split("a", split_id="a2", part=RowGroupRun(2, 4))]
    assert (paths(parts(whole)), parts(whole).rest) == (["p/a.parquet"], ())
    twice = [*whole, a_split("a", split_id="a3", part=RowGroupRun(1, 2))]
    assert (paths(parts(twice)), len(parts(twice).rest)) == ([], 3)


@pytest.mark.parametrize(
    "facts", [{"writer": "parquet-cpp-arrow version 21"}, {"writer": ""}, {"legacy_calendar": True}]
)
def test_facts_that_prove_nothing_leave_the_file_to_penstock(facts: dict[str, Any]) -> None:
    assert paths(parts([a_split("a")], **facts)) == []


def test_unknown_facts_and_ranges_are_penstocks() -> None:
    splits = (a_split("a"),)
    assert divided(SCAN, splits, lambda files, columns: [None]).rest == splits
    ranged = dataclasses.replace(SCAN, rows=RowsOf(frozenset()))
    assert parts(splits, ranged).rest == splits


def test_path_values_are_constants_unless_the_file_is_proven_to_have_them() -> None:
    scan = dataclasses.replace(SCAN, partition_fields=("p",))
    splits = [a_split("a", partition_values=("x",)), a_split("b", partition_values=("y",))]
    by_constant = {
        tuple((name, value.as_py()) for name, value in part.constants): [file.path for file in part.files]
        for part in parts(splits, scan, single_values={"p": "x"}).spark
    }
    assert by_constant == {(): ["p/a.parquet"], (("p", "y"),): ["p/b.parquet"]}


def test_small_partitions_are_no_branches_of_their_own() -> None:
    scan = dataclasses.replace(SCAN, partition_fields=("p",))
    splits = tuple(a_split(name, partition_values=(name,)) for name in "abc")
    division = divided(scan, splits, lambda files, columns: [FACTS] * len(files), branch_bytes=11)
    assert (len(paths(division)), len(division.rest)) == (1, 2)
    assert sum(files for _, files in division.reasons) == 2


@pytest.mark.parametrize(
    ("base_path", "folder"),
    [
        ("/lake/a b%20{c}", "file:///lake/a%20b%2520%7Bc%7D"),
        ("file:///lake/t", "file:///lake/t"),
        ("s3://bucket/lake/t/", "s3a://bucket/lake/t"),
        ("s3a://bucket/lake/t", "s3a://bucket/lake/t"),
        ("s3://bucket/t?region=eu-north-1", ""),
        ("s3://key:secret@bucket/t", ""),
        ("ftp://host/t", ""),
    ],
)
def test_folder_of_sparks_file_system(base_path: str, folder: str) -> None:
    assert spark_folder(base_path) == folder
