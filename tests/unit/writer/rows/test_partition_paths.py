"""Partition paths of rows, as Hudi's key generators make them, and the ones that are refused."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.proto.errors import SchemaMismatch
from penstock.writer.rows import partition_paths
from penstock.writer.rows.partition_paths import PartitionPaths, escaped


def paths_of(columns: dict[str, Any], *, hive_style: bool = False, url_encode: bool = False) -> list[str]:
    """The path of each row."""
    maker = PartitionPaths(fields=tuple(columns), hive_style=hive_style, url_encode=url_encode)
    found = maker.of_rows(pa.table(columns), "table t")
    assert list(found.paths) == sorted(set(found.paths))
    return [found.paths[number] for number in found.numbers]


def test_values_are_written_as_hudi_writes_them() -> None:
    assert paths_of({"p": ["b", "a", None, ""]}) == ["b", "a", *["__HIVE_DEFAULT_PARTITION__"] * 2]
    assert paths_of({"p": [10, -2]}) == ["10", "-2"]
    assert paths_of({"p": [True, False]}) == ["true", "false"]
    assert paths_of({"p": [datetime.date(2026, 1, 2)]}) == ["2026-01-02"]
    assert paths_of({"p": [Decimal("1.50"), Decimal("0.00")]}) == ["1.50", "0.00"]


def test_columns_are_levels_in_their_order() -> None:
    columns = {"p": ["x", "y", "x", "x"], "q": [2, 1, 1, 2]}
    assert paths_of(columns) == ["x/2", "y/1", "x/1", "x/2"]
    assert paths_of(columns, hive_style=True) == ["p=x/q=2", "p=y/q=1", "p=x/q=1", "p=x/q=2"]


def test_special_characters_are_escaped_on_request() -> None:
    assert paths_of({"p": ["a/b c:d"]}, url_encode=True) == ["a%2Fb c%3Ad"]
    assert paths_of({"p": ["a/b"]}) == ["a/b"], "two levels, as in Hudi"
    assert escaped("\\{[]^\x7f\x01%é &+") == "%5C%7B%5B%5D%5E%7F%01%25é &+"


@pytest.mark.parametrize("value", ["../x", "..", "a//b", "/a", "a/", ".hoodie", ".hoodie/timeline", "a/./b", "x\0y"])
def test_values_that_lead_out_of_the_table_are_refused(value: str) -> None:
    with pytest.raises(SchemaMismatch, match="partition"):
        paths_of({"p": ["good", value]})


def test_metadata_folder_is_only_the_first_level() -> None:
    assert paths_of({"p": ["x"], "q": [".hoodie"]}) == ["x/.hoodie"]
    assert paths_of({"p": [".hoodie"]}, hive_style=True) == ["p=.hoodie"]


def test_combinations_beyond_the_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_paths, "_MAX_COMBINATIONS", 6)
    assert len(paths_of({"p": [1, 2], "q": [1, 2]})) == 2
    with pytest.raises(SchemaMismatch, match="9 combinations"):
        paths_of({"p": [1, 2, 3], "q": [1, 2, 3]})


def test_table_without_partitions_has_one() -> None:
    maker = PartitionPaths(fields=(), hive_style=False, url_encode=False)
    found = maker.of_rows(pa.table({"a": [1, 2]}), "table t")
    assert found.paths == ("",) and found.numbers.tolist() == [0, 0]
