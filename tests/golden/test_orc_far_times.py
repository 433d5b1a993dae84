"""Timestamps of ORC files that are decoded in microseconds, because some are out of range for nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import pyarrow as pa
import pytest

from penstock.proto.model.queries import Snapshot
from penstock.reader.base import orc_file
from tests.golden.rows import difference
from tests.golden.test_every_golden_table import ENTRIES, rows_of

NEAR = [
    entry for entry in ENTRIES if entry.query_id == "snapshot" and "_orc_" in entry.case and "_far_" not in entry.case
]


@pytest.mark.parametrize("entry", NEAR, ids=str)
@pytest.mark.sampled(1, rest=0)
def test_near_timestamps_are_the_same_in_microseconds(golden: Any, entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of Hudi for files that are mostly decoded in nanoseconds, as if one of their timestamps was far."""
    calls = []

    def out_of_range(*given: object) -> Iterator[NoReturn]:
        calls.append(given)
        raise orc_file._OutOfRange

    monkeypatch.setattr(orc_file.OrcFile, "_near_batches", out_of_range)
    rows = rows_of(golden.table(entry.case), entry.query)
    assert difference(rows, golden.expected(entry.case, entry.query_id)) == ""
    assert calls


def test_times_before_the_reform_are_those_that_were_written(golden: Any) -> None:
    """The reason why this table's entries are marked WRONG: before 1582-10-15 Hudi returns other times than were
    written, which the column `micros` has too."""
    name = "F_orc_early_v9"
    rows = rows_of(golden.table(name), Snapshot())
    hudi = golden.expected(name, "snapshot")
    assert difference(rows.select(["id", "ts", "micros", "p"]), hudi.select(["id", "ts", "micros", "p"])) == ""
    written = rows.column("micros").to_pylist()
    assert numbers(rows, "at") == written
    nested = rows.column("st").combine_chunks().field("at").cast(pa.int64()).to_pylist()
    assert nested == written
    returned = dict(zip(hudi.column("id").to_pylist(), numbers(hudi, "at"), strict=True))
    stored = dict(zip(rows.column("id").to_pylist(), written, strict=True))
    days = {key: (returned[key] - micros) / 86_400_000_000 for key, micros in stored.items() if micros is not None}
    assert days == {"first": 2, "second": 2, "1000": -5, "1500": -10, "1582": -10, "last": -10, "reform": 0}


def numbers(rows: pa.Table, column: str) -> list[int | None]:
    return list(rows.column(column).combine_chunks().cast(pa.int64()).to_pylist())
