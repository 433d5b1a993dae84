"""Random conditions, columns and limits: an engine returns the same rows from Penstock as from a frame in memory.

The frame in memory has the rows of `penstock.read`, and the engine applies everything to it itself. So a condition that
is pushed with another meaning than the engine's, a column in a wrong place, or a limit before a condition is seen.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.adapters import source
from tests.engines.frames import Engine, Polars, rows_of
from tests.engines.queries import Query, queries
from tests.engines.reads import Reads

QUERIES = 14
"""Queries of one seed."""


def differences(engine: Engine, table: pathlib.Path, seed: int) -> Iterator[Query]:
    """The queries of the seed whose rows differ, as they are run."""
    frame = engine.table(table)
    memory = engine.memory(penstock.read(table).read_all())
    ordered = isinstance(engine, Polars)
    for query in queries(seed, QUERIES, heads=ordered):
        if not _same(engine.run(frame, query), engine.run(memory, query), query, ordered=ordered):
            yield query


def _same(result: pa.Table, expected: pa.Table, query: Query, *, ordered: bool) -> bool:
    if ordered or query.limit is None:
        return result.schema == expected.schema and rows_of(result) == rows_of(expected)
    return result.num_rows == expected.num_rows


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 3, *(pytest.param(seed, marks=pytest.mark.long) for seed in (0, 2))])
def test_rows_equal_those_of_frame_in_memory(
    engine: Engine, values_table: pathlib.Path, seed: int, reads: Reads
) -> None:
    assert list(differences(engine, values_table, seed)) == []
    assert sum(bool(options.where) for options in reads.options) >= QUERIES // 3


def test_pushed_condition_with_too_few_rows_is_seen(
    engine: Engine, values_table: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed_where = source.pushed_where

    def wrong(given: str, condition: Any, schema: pa.Schema) -> str:
        return pushed_where("ok", condition, schema)

    monkeypatch.setattr(source, "pushed_where", wrong)
    assert any(differences(engine, values_table, 0))
