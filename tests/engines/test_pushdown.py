"""Columns, conditions and limits reach the plan: fewer splits, row groups and bytes are read, and reads end early."""

from __future__ import annotations

import contextlib
import gc
import pathlib

import pytest

from penstock.reader.base import checked_file
from tests.engines.frames import DuckDB, Engine, Polars
from tests.engines.queries import Both, Compare, Either, IsNull, OneOf, Query, Remainder
from tests.engines.reads import Reads
from tests.engines.written_table import DAY, PARTITIONS, VALUES

COUNTRY = Compare(("country",), "=", "NO")
LATER = Compare(("day",), ">", VALUES["day"][1])


def test_columns_of_query_are_read(
    engine: Engine, values_table: pathlib.Path, reads: Reads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked_file, "WHOLE_FILE_BYTES", 0)  # a small file is read by one read
    frame = engine.table(values_table)
    narrow = Query(None, ("ts", "n"))
    engine.run(frame, narrow)  # what is read once for a process does not count
    assert set(reads.options[-1].columns) == {"ts", "n"}
    before = _bytes_read()
    engine.run(frame, narrow)
    between = _bytes_read()
    engine.all_rows(frame)
    assert 0 < between - before < 0.75 * (_bytes_read() - between)  # planning reads the same for both


def test_number_of_rows_reads_one_column(engine: Engine, values_table: pathlib.Path, reads: Reads) -> None:
    result = engine.run(engine.table(values_table), Query(None, ("id",)))
    reads.clear()
    frame = engine.table(values_table)
    match engine:
        case Polars():
            import polars as pl

            count = frame.select(pl.len()).collect().item()
        case DuckDB():
            count = frame.aggregate("count(*)").fetchall()[0][0]
        case _:
            count = frame.count_rows()
    assert count == result.num_rows
    assert len(reads.options[-1].columns) == 1


def test_condition_on_partition_leaves_splits_out(engine: Engine, values_table: pathlib.Path, reads: Reads) -> None:
    frame = engine.table(values_table)
    reads.clear()
    for condition in (COUNTRY, Both(COUNTRY, Remainder(("i",), 2)), OneOf(("country",), ("NO", "other"))):
        engine.run(frame, Query(condition, ("id",)))
        assert len(reads.started) == 1, condition
        reads.clear()
    engine.run(frame, Query(Either(COUNTRY, Remainder(("i",), 2)), ("id",)))
    assert len(reads.started) == len(PARTITIONS)


@pytest.mark.parametrize(
    "condition",
    [LATER, Compare(("day",), "=", DAY), Both(IsNull(("note",)), LATER)],
    ids=["after", "equal", "with another"],
)
def test_condition_on_column_leaves_row_groups_out(
    engine: Engine, values_table: pathlib.Path, reads: Reads, condition: Compare | Both
) -> None:
    frame = engine.table(values_table)
    result = engine.run(frame, Query(condition, ("id", "day", "note")))
    assert result.num_rows
    assert reads.pruned_rows >= 20 * len(PARTITIONS)


def test_condition_of_option_is_joined_with_that_of_query(
    engine: Engine, values_table: pathlib.Path, reads: Reads
) -> None:
    frame = engine.table(values_table, where="ok OR n = 0", columns=["id", "ok", "n", "country"])
    result = engine.run(frame, Query(COUNTRY, ("id", "ok", "n", "country")))
    rows = result.to_pylist()
    assert rows and all((row["ok"] or row["n"] == 0) and row["country"] == "NO" for row in rows)
    assert len(reads.started) == 1


def test_first_rows_open_one_split(values_table: pathlib.Path, reads: Reads) -> None:
    frame = Polars().table(values_table)
    assert frame.head(3).collect().height == 3
    assert len(reads.started) == 1
    assert reads.options[-1].limit == 3


def test_abandoned_reader_of_duckdb_closes_files(values_table: pathlib.Path, reads: Reads) -> None:
    before = _open_files(values_table)
    reader = DuckDB().table(values_table, batch_rows=1).to_arrow_reader(1)
    assert reader.read_next_batch().num_rows
    del reader
    gc.collect()
    assert _open_files(values_table) == before == set()


def _bytes_read() -> int:
    """The bytes that this process has read from files."""
    counts = dict(line.split(": ") for line in pathlib.Path("/proc/self/io").read_text().splitlines())
    return int(counts["rchar"])


def _open_files(table: pathlib.Path) -> set[str]:
    """The files of the table that this process holds open."""
    names = set()
    for link in pathlib.Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            names.add(str(link.readlink()))
    return {name for name in names if name.startswith(str(table))}
