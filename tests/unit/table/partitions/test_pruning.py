"""Partitions ruled out by their paths, against the values that rows of them show."""

from __future__ import annotations

import contextlib
import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import PenstockError
from penstock.reader.split.filter import evaluate
from penstock.table.partitions.pruning import PartitionPruning
from penstock.table.partitions.scalars import partition_scalar
from penstock.table.partitions.values import partition_values
from penstock.table.predicate.parse import parse_predicate

SCHEMA = pa.schema([("s", pa.string()), ("n", pa.int32()), ("v", pa.int64())])
SEGMENTS = ["", "0", "1", "2", "01", "a", "ab", "a%2Fb", "%41", "a-", "a0", "__HIVE_DEFAULT_PARTITION__", "é"]
LEAVES = [
    *[f"s {op} '{text}'" for op in ("=", "!=", "<", "<=", ">", ">=") for text in ("", "a", "a/1", "a0", "b", "A")],
    *[f"n {op} {value}" for op in ("=", "!=", "<", ">=") for value in (0, 1, "1.5")],
    "s LIKE 'a%'",
    "s LIKE 'a/%'",
    "s IN ('a', 'a/b', 'zz')",
    "s IS NULL",
    "n IS NULL",
    "v = 1",
    "v IS NULL",
]
FILTERS = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        inner.map(lambda text: f"NOT ({text})"),
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            lambda parts: f"({parts[0]}) {parts[1]} ({parts[2]})"
        ),
    ),
    max_leaves=4,
)


def keeps(partition: str, fields: tuple[str, ...], where: str) -> bool:
    """Whether the filter keeps a row of the partition; a column whose value is in no path may have any of a few."""
    texts = partition_values(partition, fields)
    assert texts is not None
    some: dict[str, list[Any]] = {"s": [None, "", "a"], "n": [None, 0, 1, 2], "v": [None, 1, 2]}
    for name, text in zip(fields, texts, strict=True):
        with contextlib.suppress(PenstockError):  # a text that is no value of the type
            some[name] = [partition_scalar(text, SCHEMA.field(name).type, "w").as_py()]
    rows = [dict(zip(some, values, strict=True)) for values in itertools.product(*some.values())]
    return evaluate(parse_predicate(where, SCHEMA), pa.RecordBatch.from_pylist(rows, SCHEMA)).true_count > 0


@settings(max_examples=150, deadline=None)
@given(FILTERS, st.sampled_from(SEGMENTS), st.sampled_from(SEGMENTS[1:]), st.booleans())
def test_no_partition_with_a_kept_row_is_ruled_out_nor_the_way_to_it(
    where: str, first: str, second: str, hive: bool
) -> None:
    predicate = parse_predicate(where, SCHEMA)
    head = f"s={first}" if hive else first or "x"
    both = PartitionPruning(("s", "n"), SCHEMA, predicate)
    partition = f"{head}/n={second}" if hive else f"{head}/{second}"
    if both.fits([partition]) and keeps(partition, ("s", "n"), where):
        assert not both.drops(partition)
        assert not both.drops_below(partition) and not both.drops_below(head)
    one = PartitionPruning(("s",), SCHEMA, predicate)
    for path in (head, f"{head}/{second}"):
        if keeps(path, ("s",), where):
            assert not one.drops(path)
            assert not one.drops_below(path) and not one.drops_below(head)


NUMBERS = ["NaN", "Infinity", "-Infinity", "-0.0", "1.5", "1.0E300", "__HIVE_DEFAULT_PARTITION__"]
DATES = ["+10000-01-01", "9999-12-31", "0001-01-01", "-0001-12-31", "-5877641-06-23", "__HIVE_DEFAULT_PARTITION__"]
COMPARED = {
    "d": (NUMBERS, ["0", "1", "1.5", "1e308", "-1e308", "1e300"]),
    "f": (NUMBERS, ["0", "1", "1.5", "3e38", "-3e38"]),
    "day": (DATES, ["DATE '9999-12-31'", "DATE '0001-01-01'", "DATE '2026-01-01'"]),
}


@pytest.mark.parametrize("name", COMPARED)
def test_values_at_the_ends_are_ruled_out_only_where_the_filter_keeps_no_row(name: str) -> None:
    """NaN is the greatest number, above infinity; dates outside of years 1 to 9999 compare by their days."""
    schema = pa.schema([("d", pa.float64()), ("f", pa.float32()), ("day", pa.date32())])
    segments, literals = COMPARED[name]
    wheres = [f"{name} {op} {value}" for op in ("=", "<>", "<", "<=", ">", ">=") for value in literals]
    wheres += [f"NOT ({where})" for where in wheres]
    wheres += [f"{name} IS NULL", f"{name} IN ({', '.join(literals)})", f"NOT {name} IN ({literals[0]})"]
    for where, segment in itertools.product(wheres, segments):
        texts = partition_values(segment, (name,))
        assert texts is not None
        value = partition_scalar(texts[0], schema.field(name).type, "w")
        rows = pa.RecordBatch.from_arrays(
            [pa.array([None], field.type) if field.name != name else pa.repeat(value, 1) for field in schema],
            schema=schema,
        )
        predicate = parse_predicate(where, schema)
        remaining = evaluate(predicate, rows).true_count > 0
        pruning = PartitionPruning((name,), schema, predicate)
        if remaining:
            assert not pruning.drops(segment), (where, segment)
            assert not pruning.drops_below(segment), (where, segment)
        elif segment != "NaN":  # which no bound excludes
            assert pruning.drops(segment), (where, segment)
    greatest = PartitionPruning((name,), schema, parse_predicate(f"{name} > {literals[0]}", schema))
    assert not greatest.drops(segments[0])


@pytest.mark.parametrize(
    ("where", "dropped"),
    [("s = 'a'", {"b", "a/b", "c/a"}), ("s > 'b'", {"a", "b", "a/b"}), ("s LIKE 'c%'", {"a", "b", "a/b"})],
)
def test_partitions_without_a_kept_row_are_ruled_out(where: str, dropped: set[str]) -> None:
    pruning = PartitionPruning(("s",), SCHEMA, parse_predicate(where, SCHEMA))
    assert {path for path in ("a", "b", "a/b", "c/a") if pruning.drops(path)} == dropped


def test_folder_is_passed_over_unseen_only_if_nothing_that_does_not_fit_can_be_in_it() -> None:
    pruning = PartitionPruning(("s", "n"), SCHEMA, parse_predicate("s = 'a'", SCHEMA))
    known = ["s=a/n=1", "s=b/n=1", "s=c/n=2"]
    assert not pruning.skipped_folders(None)("s=b")
    assert not pruning.skipped_folders([*known, "s=x"])("s=b")
    skipped = pruning.skipped_folders(known)
    assert [skipped(folder) for folder in ("s=a", "s=b", "s=b/n=1", "s=d", "s=b/n=9")] == [
        False,
        True,
        True,
        False,
        False,
    ]
    alone = PartitionPruning(("s",), SCHEMA, parse_predicate("s = 'a'", SCHEMA)).skipped_folders(None)
    assert [alone(folder) for folder in ("s=a", "s=b", "a", "b", "")] == [False, True, False, True, False]
