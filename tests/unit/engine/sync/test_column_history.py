"""Columns that are gone, renamed, or dropped and added again."""

from __future__ import annotations

import json

import pytest

from penstock.engine.sync.column_history import KnownColumns, check_kept, known_columns, parsed_columns
from penstock.proto.errors import ConfigurationError, SchemaMismatch
from penstock.table.schema.history import HistoryField, SchemaHistory, Version


def history(*versions: dict[str, int | tuple[int, dict[str, int]]]) -> SchemaHistory:
    """The newest version first; a column with fields is (id, fields)."""
    return SchemaHistory(tuple(Version(9 - number, _fields(one)) for number, one in enumerate(versions)))


def _fields(columns: dict[str, int | tuple[int, dict[str, int]]]) -> tuple[HistoryField, ...]:
    meta = HistoryField(0, "_hoodie_record_key")
    return meta, *(
        HistoryField(one, name)
        if isinstance(one, int)
        else HistoryField(one[0], name, tuple(HistoryField(id_, inner) for inner, id_ in one[1].items()))
        for name, one in columns.items()
    )


BEFORE = history({"a": 1, "b": 2, "s": (3, {"x": 4, "y": 5})})
NAMES = ("_hoodie_record_key", "a", "b", "s")


def check(names: tuple[str, ...], now: SchemaHistory | None, before: SchemaHistory | None = BEFORE) -> None:
    check_kept("t", known_columns(NAMES, before), known_columns(names, now), now)


def test_added_columns_and_equal_histories_are_kept() -> None:
    check(NAMES, BEFORE)
    check((*NAMES, "c"), history({"a": 1, "c": 9, "b": 2, "s": (3, {"x": 4, "z": 8, "y": 5})}))
    check((*NAMES, "c"), None, None)
    check(NAMES, None)


CHANGES: list[tuple[dict[str, int | tuple[int, dict[str, int]]], str]] = [
    ({"a": 1, "b": 6, "s": (3, {"x": 4, "y": 5})}, "column b is another column than before"),
    ({"b": 1, "a": 2, "s": (3, {"x": 4, "y": 5})}, "column a is another column than before"),
    ({"a": 1, "c": 2, "s": (3, {"x": 4, "y": 5})}, "no longer has column b: its name is now c"),
    ({"a": 1, "s": (3, {"x": 4, "y": 5})}, "no longer has column b: load"),
    ({"a": 1, "b": 2, "s": (3, {"x": 5, "y": 4})}, "column s.x is another column than before"),
    ({"a": 1, "b": 2, "s": (3, {"x": 4, "z": 5})}, "no longer has column s.y: its name is now s.z"),
]


@pytest.mark.parametrize(("columns", "text"), CHANGES, ids=[text for _, text in CHANGES])
@pytest.mark.parametrize("began", [False, True], ids=["with a history before", "with a new history"])
def test_other_columns_stop(columns: dict[str, int | tuple[int, dict[str, int]]], text: str, began: bool) -> None:
    """The history may begin between the two looks: its first version then has the columns of before."""
    now = SchemaHistory((*history(columns).versions, *BEFORE.versions))
    with pytest.raises(SchemaMismatch, match=f"table t: .*{text}.*"):
        check(("_hoodie_record_key", *columns), now, None if began else BEFORE)


def test_column_is_gone_without_a_history() -> None:
    with pytest.raises(SchemaMismatch, match="no longer has column b: load the table again"):
        check(("a", "s"), None, None)


def test_history_that_ends_stops_after_a_rename_only() -> None:
    renamed = history({"a": 1, "b": 2, "s": (3, {})}, {"a": 1, "z": 2, "s": (3, {})})
    with pytest.raises(SchemaMismatch, match="a writer without schema-on-read has ended its schema history"):
        check(NAMES, None, renamed)
    check(NAMES, None, history({"a": 1, "b": 2, "s": (3, {})}, {"a": 1}))
    again = history({"a": 1, "b": 7}, {"a": 1, "b": 2})
    assert known_columns(("a", "b"), again).is_renamed


def test_stored_form() -> None:
    known = known_columns(NAMES, BEFORE)
    assert parsed_columns(json.loads(json.dumps(known.as_json()))) == known
    assert known == KnownColumns({"a": 1, "b": 2, "s": 3, "s.x": 4, "s.y": 5})
    assert parsed_columns(None) is None
    for odd in (1, {}, {"ids": {"a": True}, "is_renamed": False}, {"ids": {}, "is_renamed": 1}, {"ids": {"a": "1"}}):
        with pytest.raises(ConfigurationError, match="columns of a position"):
            parsed_columns(odd)
