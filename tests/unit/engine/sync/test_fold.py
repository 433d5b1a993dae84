"""The fold of changes, against a fold of one row at a time."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.fold import Folded, last_changes
from tests.unit.engine.sync.scripted import random_history

Row = dict[str, Any]


def changes_of(rows: list[tuple[str, str, Row]], types: dict[str, pa.DataType]) -> pa.Table:
    schema = pa.schema([("_change_type", pa.string()), ("_change_seq", pa.string()), *types.items()])
    return pa.Table.from_pylist([{"_change_type": kind, "_change_seq": seq, **row} for kind, seq, row in rows], schema)


def rows_of(folded: Folded) -> list[Row]:
    return [row for batch in folded.rows for row in batch.to_pylist()]


def text(values: Any) -> str:
    """Equal for equal keys: NaN is equal to itself, -0.0 to 0.0."""
    return str([value + 0.0 if isinstance(value, float) else value for value in values])


def applied(state: list[Row], changes: pa.Table, key: list[str]) -> dict[str, Row]:
    """The rows after the changes, one change after the other."""
    rows = {text(row[name] for name in key): row for row in state}
    for change in sorted(changes.to_pylist(), key=lambda change: change["_change_seq"]):
        row = {name: value for name, value in change.items() if not name.startswith("_change")}
        if change["_change_type"] in ("-U", "-D"):
            rows.pop(text(row[name] for name in key), None)
        else:
            rows[text(row[name] for name in key)] = row
    return rows


def folded(state: list[Row], changes: pa.Table, key: list[str]) -> dict[str, Row]:
    columns = [name for name in changes.column_names if not name.startswith("_change")]
    result = last_changes(changes.to_batches(max_chunksize=3), key, columns)
    if result is None:
        assert not changes.num_rows
        return {text(row[name] for name in key): row for row in state}
    removed = [text(row.values()) for row in result.keys.to_pylist()]
    assert len(removed) == len(set(removed))
    left = {text(row[name] for name in key): row for row in state}
    left = {at: row for at, row in left.items() if at not in removed}
    for row in rows_of(result):
        at = text(row[name] for name in key)
        assert at in removed and at not in left
        left[at] = row
    return left


@pytest.mark.parametrize("seed", range(60))
def test_fold_equals_changes_applied_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    feed, _ = random_history(rng)
    rows = [
        (kind, f"{number:03}-{place:03}", dict(image))
        for number, commit in enumerate(feed.commits)
        for place, (kind, image) in enumerate(commit)
    ]
    rng.shuffle(rows)
    state = [dict(image) for part in feed.parts for image in part]
    changes = changes_of(rows, {"id": pa.int64(), "p": pa.string(), "v": pa.int64()})
    key = ["id", "p"]
    assert text_rows(folded(state, changes, key)) == text_rows(applied(state, changes, key))


def text_rows(rows: dict[str, Row]) -> list[str]:
    return sorted(str(row) for row in rows.values())


KEYS = [
    (pa.bool_(), [True, False, None]),
    (pa.int32(), [1, -1, None]),
    (pa.float64(), [1.5, float("nan"), float("inf"), None]),
    (pa.string(), ["", "a", "é", None]),
    (pa.binary(), [b"", b"\x00", b"\xff", None]),
    (pa.decimal128(10, 2), [Decimal("1.00"), Decimal("-1.00"), None]),
    (pa.date32(), [datetime.date(1, 1, 1), datetime.date(2026, 1, 1), None]),
    (pa.time64("us"), [datetime.time(0, 0), datetime.time(1, 2, 3, 4), None]),
    (pa.timestamp("us"), [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC).replace(tzinfo=None), None]),
    (pa.timestamp("us", "UTC"), [datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), None]),
]


@pytest.mark.parametrize(("key_type", "values"), KEYS, ids=[str(key_type) for key_type, _ in KEYS])
def test_keys_of_each_type(key_type: pa.DataType, values: list[Any]) -> None:
    """Several changes of each key, nulls and NaN among them, in any order."""
    rng = random.Random(1)
    rows = [
        (rng.choice(["+I", "+U", "-U", "-D"]), f"{number:03}", {"k": rng.choice(values), "v": number})
        for number in range(40)
    ]
    rng.shuffle(rows)
    changes = changes_of(rows, {"k": key_type, "v": pa.int64()})
    assert text_rows(folded([], changes, ["k"])) == text_rows(applied([], changes, ["k"]))


def test_row_whose_key_columns_change_is_removed_under_its_old_key() -> None:
    old, new = {"id": 1, "p": "a", "v": 1}, {"id": 1, "p": "b", "v": 1}
    changes = changes_of([("-U", "1", old), ("+U", "2", new)], {"id": pa.int64(), "p": pa.string(), "v": pa.int64()})
    result = last_changes(changes.to_batches(), ["id", "p"], ["id", "p", "v"])
    assert result is not None
    assert result.keys.to_pylist() == [{"id": 1, "p": "a"}, {"id": 1, "p": "b"}]
    assert rows_of(result) == [new]


def test_no_changes() -> None:
    assert last_changes([], ["id"], ["id"]) is None
    empty = pa.RecordBatch.from_pylist([], changes_of([], {"id": pa.int64()}).schema)
    result = last_changes([empty], ["id"], ["id"])
    assert result is not None
    assert result.keys.num_rows == len(rows_of(result)) == 0


def test_nested_columns_are_kept() -> None:
    types = {"id": pa.int64(), "s": pa.struct([("a", pa.list_(pa.int32()))]), "m": pa.map_(pa.string(), pa.int32())}
    row = {"id": 1, "s": {"a": [1, None]}, "m": [("x", 1)]}
    changes = pa.concat_tables([changes_of([("+I", str(n), row)], types) for n in range(3)])
    result = last_changes(changes.to_batches(), ["id"], list(types))
    assert result is not None
    assert rows_of(result) == [row]
    assert rows_of(result) == [], "each batch is released"
