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
    assert paths_of({"p": [Decimal("0E-10")]}) == ["0E-10"], "as Java's BigDecimal.toString"


@pytest.mark.parametrize("value", ["x", 1, True, datetime.date(2026, 1, 2), Decimal("1.50")])
@pytest.mark.parametrize("chunks", [0, 1, 2])
def test_column_in_chunks(value: object, chunks: int) -> None:
    kind = pa.array([value]).type
    column = pa.chunked_array([pa.array([value], kind)] * chunks, kind)
    assert len(set(paths_of({"p": column}))) == min(chunks, 1)


def test_columns_are_levels_in_their_order() -> None:
    columns = {"p": ["x", "y", "x", "x"], "q": [2, 1, 1, 2]}
    assert paths_of(columns) == ["x/2", "y/1", "x/1", "x/2"]
    assert paths_of(columns, hive_style=True) == ["p=x/q=2", "p=y/q=1", "p=x/q=1", "p=x/q=2"]


def test_special_characters_are_escaped_on_request() -> None:
    assert paths_of({"p": ["a/b c:d"]}, url_encode=True) == ["a%2Fb c%3Ad"]
    assert paths_of({"p": ["a/b"]}) == ["a/b"], "two levels, as in Hudi"
    assert escaped("\\{[]^\x7f\x01%é &+") == "%5C%7B%5B%5D%5E%7F%01%25é &+"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        *(
            (value, "an empty part, '.' or '..'")
            for value in ("../x", "..", "a//b", "/a", "a/", "a/./b", ".", "s3://b")
        ),
        *((value, "a folder .hoodie, ") for value in (".hoodie", ".hoodie/timeline", "a/.hoodie", "a/.hoodie/b")),
        *((value, "no path of a folder") for value in ("x\0y", "/".join(["é" * 127] * 17))),
        ("é" * 128, "a folder name of 256 bytes, at most 255 fit"),
        ("/".join("x" * 33), "33 folders, at most 32 are read"),
    ],
)
def test_values_that_make_no_folder_of_the_table_are_refused(value: str, words: str) -> None:
    with pytest.raises(
        SchemaMismatch, match=f"make the partition path .*, which (has|is) {words}.*nothing was written"
    ):
        paths_of({"p": ["good", value]})


def test_names_at_the_limits_are_folders() -> None:
    values = ["é" * 127, "/".join("x" * 32), ".hidden", "...", "_x", "a/.hoodie2"]
    assert paths_of({"p": values}) == values
    assert paths_of({"p": [".hoodie"]}, hive_style=True) == ["p=.hoodie"]
    with pytest.raises(SchemaMismatch, match=r"a folder \.hoodie"):
        paths_of({"p": ["x"], "q": [".hoodie"]})


@pytest.mark.parametrize(
    ("written", "existing", "below", "above"),
    [
        (["a", "a/b"], [], "a/b", "a"),
        (["a/b"], ["a"], "a/b", "a"),
        (["a"], ["a/b"], "a/b", "a"),
        (["c/d/e"], ["b", "c"], "c/d/e", "c"),
        (["c"], ["b", "c/d/e"], "c/d/e", "c"),
    ],
)
def test_partition_below_another_is_refused(written: list[str], existing: list[str], below: str, above: str) -> None:
    maker = PartitionPaths(fields=("p",), hive_style=False, url_encode=False)
    with pytest.raises(SchemaMismatch, match=f"partition '{below}' would be below partition '{above}'"):
        maker.check_nesting(written, existing, "table t")


def test_partitions_beside_each_other_are_written() -> None:
    maker = PartitionPaths(fields=("p",), hive_style=False, url_encode=False)
    maker.check_nesting(["a", "ab", "b/c", "b/d"], ["a", "abc/d", "b/e", "x/y", "x/y/z"], "table t")
    maker.check_nesting([""], [""], "table t")


def test_combinations_beyond_the_numbers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_paths, "_MAX_COMBINATIONS", 6)
    assert len(paths_of({"p": [1, 2], "q": [1, 2]})) == 2
    with pytest.raises(SchemaMismatch, match="9 combinations"):
        paths_of({"p": [1, 2, 3], "q": [1, 2, 3]})


def test_table_without_partitions_has_one() -> None:
    maker = PartitionPaths(fields=(), hive_style=False, url_encode=False)
    found = maker.of_rows(pa.table({"a": [1, 2]}), "table t")
    assert found.paths == ("",) and found.numbers.tolist() == [0, 0]
