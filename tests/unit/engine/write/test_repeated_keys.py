"""Keys that inserts repeated: an upsert or delete changes all rows of the key, wherever they are."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from penstock.engine.write import incoming_rows
from penstock.proto.errors import TableError
from tests.unit.engine.write.recorded_storage import Kind, Lake, Row

ROWS: list[Row] = [(f"k{n}", 1, "oslo" if n % 2 else "riga") for n in range(8)]
CASES: list[tuple[Kind, str]] = [
    ((9, "copy_on_write", "simple"), "insert"),
    ((9, "copy_on_write", "simple"), "bulk_insert"),
    ((6, "copy_on_write", "bucket"), "insert"),
    ((9, "merge_on_read", "simple"), "insert"),
    ((6, "merge_on_read", "simple"), "insert"),
    ((6, "merge_on_read", "simple"), "bulk_insert"),
]


def upserted(stored: Sequence[Row], rows: Sequence[Row]) -> list[Row]:
    """Each stored row merged with the row of its key, then the rows of new keys."""
    newer = {(key, city): row for row in rows for key, _, city in [row]}
    merged = [max(newer.get((row[0], row[2]), row), row, key=lambda one: one[1]) for row in stored]
    known = {(key, city) for key, _, city in stored}
    return sorted([*merged, *(row for row in rows if (row[0], row[2]) not in known)])


@pytest.mark.parametrize("held_bytes", [1 << 20, 100])
@pytest.mark.parametrize(("kind", "operation"), CASES, ids=str)
@pytest.mark.sampled(6)
def test_all_rows_of_a_key_are_updated_and_deleted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, operation: str, held_bytes: int
) -> None:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    stored = [(key, seq, city) for seq in (1, 2, 4) for key, _, city in ROWS]
    for seq in (1, 2, 4):
        lake.write([(key, seq, city) for key, _, city in ROWS], operation)
    assert lake.rows() == sorted(stored)
    monkeypatch.setattr(incoming_rows, "HELD_BYTES", held_bytes)
    rows: list[Row] = [("k1", 3, "oslo"), ("k2", 9, "riga"), ("k3", 0, "oslo"), ("new", 1, "riga"), ("k1", 1, "wien")]
    lake.write(rows)
    stored = upserted(stored, rows)
    assert lake.rows() == stored
    gone: list[Row] = [("k5", 0, "oslo"), ("k6", 0, "riga"), ("unknown", 0, "riga")]
    if kind[1] == "merge_on_read" and operation == "bulk_insert":  # the upsert wrote logs
        lake.write(gone, "delete")
    else:
        result = lake.write(gone, "delete")
        assert result.deleted == 6
    assert lake.rows() == [row for row in stored if row[0] not in ("k5", "k6")]


def test_log_that_would_change_one_row_of_a_key_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers merge a record of a log with the first row of its key in the base file."""
    lake = Lake(tmp_path / "t", (9, "merge_on_read", "simple"), monkeypatch)
    lake.write([*ROWS, ("single", 1, "oslo")])
    lake.write(ROWS, "insert")
    lake.write([("single", 2, "oslo")])
    before = lake.rows()
    for held_bytes in (1 << 20, 10):
        monkeypatch.setattr(incoming_rows, "HELD_BYTES", held_bytes)
        with pytest.raises(TableError, match=r"in several rows, .* compact the table"):
            lake.write([("k1", 9, "oslo"), ("k3", 9, "oslo")], "delete")
    assert lake.rows() == before
    lake.write([("single", 3, "oslo"), ("k2", 9, "riga")])
    assert lake.rows() == upserted(before, [("single", 3, "oslo"), ("k2", 9, "riga")])
