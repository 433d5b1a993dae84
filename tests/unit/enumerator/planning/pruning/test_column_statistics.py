"""Pruning of file groups by column statistics, and unusable statistics."""

from __future__ import annotations

import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.enumerator.planning.pruning.column_statistics import may_hold_rows, with_statistics
from penstock.enumerator.planning.table_state import TableSchema
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CommitTimeOrdering, CustomMerge, Split
from penstock.table.metadata.column_stats import ColumnStats
from penstock.table.predicate.parse import parse_predicate

FIELDS: dict[str, Any] = {
    "n": "long",
    "i": "int",
    "x": "double",
    "s": "string",
    "day": {"type": "int", "logicalType": "date"},
    "us": {"type": "long", "logicalType": "timestamp-micros"},
    "ms": {"type": "long", "logicalType": "timestamp-millis"},
    "d": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    "w": {"type": "fixed", "name": "w", "size": 16, "logicalType": "decimal", "precision": 38, "scale": 10},
    "z": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
}
SCHEMA = TableSchema.parse(
    json.dumps(
        {
            "type": "record",
            "name": "t",
            "fields": [{"name": name, "type": ["null", kind], "default": None} for name, kind in FIELDS.items()],
        }
    ),
    "t",
)
NEW_YEAR_2026_DAY = 20454
NEW_YEAR_2026_US = NEW_YEAR_2026_DAY * 86_400_000_000


def stats(low: Any, high: Any, logical: str = "", **changed: Any) -> ColumnStats:
    fields: dict[str, Any] = {
        "file_name": "f",
        "column": "c",
        "low": low,
        "high": high,
        "logical": logical,
        "value_count": 9,
        "null_count": 1,
        "is_deleted": False,
        "is_tight": True,
    }
    return ColumnStats(**{**fields, **changed})


def may_hold(where: str, **known: ColumnStats | None) -> bool:
    return group_may_hold(where, **{name: [one] for name, one in known.items()})


def group_may_hold(where: str, **known: list[ColumnStats | None]) -> bool:
    types = {field.name: field.type for field in SCHEMA.record.fields}
    judged = {name: types[name] for name in known}
    return may_hold_rows(parse_predicate(where, SCHEMA.arrow), judged)(known)


@pytest.mark.parametrize(
    ("where", "known", "answer"),
    [
        ("n = 5", stats(6, 9), False),
        ("n = 6", stats(6, 9), True),
        ("n = 5 OR i = 1", stats(6, 9), True),
        ("n = 5 AND i = 1", stats(6, 9), False),
        ("n IS NULL", stats(6, 9), True),
        ("n IS NULL", stats(6, 9, null_count=0), True),
        ("n = 5", None, True),
        ("n = 5", stats(None, None), True),
        ("n = 5", stats(6, 9, is_deleted=True), True),
        ("n = 5", stats(6, 9, null_count=None), True),
        ("n = 5", stats(6, 9, value_count=None), True),
        ("n = 5", stats("6", "9"), True),
        ("n = 5", stats(6.0, 9.0), True),
        ("n = 5", stats(True, True), True),
        ("n = 5", stats(6, 9, "timestamp-micros"), True),
    ],
)
def test_whole_numbers(where: str, known: ColumnStats | None, answer: bool) -> None:
    assert may_hold(where, n=known) is answer


def decimals(low: str, high: str, **changed: Any) -> ColumnStats:
    return stats(Decimal(low), Decimal(high), "decimal", **changed)


MANY = "1234567890123456789012345678"


@pytest.mark.parametrize(
    ("where", "column", "known", "answer"),
    [
        ("d = 1.24", "d", decimals("-9.99", "1.23"), False),
        ("d = 1.23", "d", decimals("-9.99", "1.23"), True),
        ("d = 1.23", "d", decimals("-9.990000000000000", "1.230000000000000"), True),
        ("d = 1.24", "d", decimals("-9.990000000000000", "1.230000000000000"), False),
        ("d < -9.99", "d", decimals("-9.99", "1.23"), False),
        ("d <= -9.99", "d", decimals("-9.99", "1.23"), True),
        ("d > 1.23D", "d", decimals("-9.99", "1.23"), False),
        ("d IN (-10, 5, 1.24)", "d", decimals("-9.99", "1.23"), False),
        ("d IS NULL", "d", decimals("-9.99", "1.23", null_count=0), True),
        (f"w = {MANY}.0000000001", "w", decimals(f"{MANY}.0000000002", f"{MANY}.0000000003"), False),
        (f"w = {MANY}.0000000002", "w", decimals(f"{MANY}.0000000002", f"{MANY}.0000000003"), True),
        ("z = 7", "z", decimals("-99999999999999999999999999999999999999", "6"), False),
        ("z = 6", "z", decimals("-99999999999999999999999999999999999999", "6"), True),
    ],
)
def test_decimals(where: str, column: str, known: ColumnStats, answer: bool) -> None:
    assert may_hold(where, **{column: known}) is answer


@pytest.mark.parametrize(
    "known",
    [
        decimals("1.230000000000001", "1.23000000000001"),
        decimals("0.001", "1.23"),
        decimals("1", "1000"),
        decimals("-1000", "1"),
        stats(Decimal(1), Decimal(2)),
        stats(1, 2, "decimal"),
        stats(1.0, 2.0, "decimal"),
        stats("1", "2", "decimal"),
        decimals("1", "2", is_deleted=True),
        decimals("1", "2", null_count=None),
        stats(None, None, "decimal"),
    ],
)
def test_decimals_that_the_column_cannot_hold_are_no_bounds(known: ColumnStats) -> None:
    assert may_hold("d = 500", d=known)


@pytest.mark.parametrize(
    ("where", "column", "known", "answer"),
    [
        ("day < DATE '2026-01-01'", "day", stats(NEW_YEAR_2026_DAY, 20460, "date"), False),
        ("day <= DATE '2026-01-01'", "day", stats(NEW_YEAR_2026_DAY, 20460, "date"), True),
        ("day < DATE '2026-01-01'", "day", stats(NEW_YEAR_2026_DAY, 20460), True),
        ("us < '2026-01-01'", "us", stats(NEW_YEAR_2026_US, NEW_YEAR_2026_US + 9, "timestamp-micros"), False),
        ("us <= '2026-01-01'", "us", stats(NEW_YEAR_2026_US, NEW_YEAR_2026_US + 9, "timestamp-micros"), True),
        ("us < '2026-01-01'", "us", stats(NEW_YEAR_2026_US, NEW_YEAR_2026_US + 9), False),
        ("us > '2026-01-01'", "us", stats(1767225600000, 1767225600000, "timestamp-micros"), True),
        ("ms < '2026-01-01'", "ms", stats(1767225600000, 1767225600001, "timestamp-millis"), False),
        ("ms < '2026-01-01'", "ms", stats(1767225600000, 1767225600001, "timestamp-micros"), True),
    ],
)
def test_times_are_used_only_with_a_certain_unit(where: str, column: str, known: ColumnStats, answer: bool) -> None:
    assert may_hold(where, **{column: known}) is answer


@pytest.mark.parametrize(
    ("where", "known", "answer"),
    [
        ("day = DATE '1500-03-01'", {"day": stats(-171595, -171595, "date")}, True),
        ("day < DATE '1500-01-01'", {"day": stats(-171595, -171595, "date")}, False),
        ("day > DATE '1950-01-01'", {"day": stats(-171595, -171595, "date")}, False),
        ("day = DATE '1899-12-20'", {"day": stats(-25567, 5, "date")}, False),
        ("us = TIMESTAMP '1500-03-01 12:00:00'", {"us": stats(-14825764800000000, -14825764800000000)}, True),
        ("us > TIMESTAMP '1950-01-01 00:00:00'", {"us": stats(-14825764800000000, -14825764800000000)}, False),
    ],
)
def test_times_before_1900_may_be_of_the_legacy_calendar(
    where: str, known: dict[str, ColumnStats], answer: bool
) -> None:
    """Hybrid 1500-03-01 is stored, and recorded, as day -171595; rows show -171605."""
    assert may_hold(where, **known) is answer


DELETES = stats(None, None, value_count=0, null_count=0)


@pytest.mark.parametrize(
    ("known", "answer"),
    [
        ([stats(0, 3), stats(8, 9)], True),
        ([stats(0, 3), stats(4, 4)], False),
        ([stats(6, 9), stats(7, 8)], False),
        ([stats(8, 9), stats(5, 7)], True),
        ([stats(0, 3), None], True),
        ([None, stats(0, 3)], True),
        ([stats(0, 3), stats(4, 4, is_deleted=True)], True),
        ([stats(0, 3), stats(0, 0, null_count=9)], False),
        ([stats(0, 3), stats(None, None, null_count=9)], True),
        ([stats(0, 3), DELETES], False),
        ([DELETES, stats(4, 5)], True),
        ([DELETES], True),
        ([], True),
    ],
)
def test_bounds_of_a_group_are_those_of_all_its_files(known: list[ColumnStats | None], answer: bool) -> None:
    """A log with only deletes has no values. A log with only nulls may be one of partial updates."""
    assert group_may_hold("n = 5", n=known) is answer
    assert group_may_hold("n = 5", n=[*known, None]), "the negative control"


def test_units_may_differ_between_the_files_of_a_group() -> None:
    known = [stats(1767225600000, 1767225600001, "timestamp-millis"), stats(1767225500000, 1767225500001)]
    assert group_may_hold("ms < '2026-01-01'", ms=known)
    assert not group_may_hold("ms < '2026-01-01'", ms=known[:1])


def state_and_plan(created: str, merge: Any) -> tuple[Any, Any]:
    def split(group: str, base: FileRef | None, logs: int) -> Split:
        files = tuple(FileRef(f"p/.{group}_2.log.{number}_1", 1) for number in range(logs))
        return Split(
            split_id=group,
            partition="p",
            partition_values=(),
            file_group=group,
            order_key=InstantTime("1"),
            base=base,
            logs=files,
        )

    splits = (
        split("plain", FileRef("p/plain_1_1.parquet", 9), 0),
        split("logged", FileRef("p/logged_1_1.parquet", 9), 2),
        split("logs", None, 1),
        split("external", FileRef("p/external", 9), 1),
        split("skeleton", FileRef("p/skeleton_1_1.parquet", 9, source=FileRef("p/f.parquet", 9)), 1),
        split("changes", None, 0),
    )
    plan = SimpleNamespace(scan=SimpleNamespace(merge=merge), splits=splits)
    return SimpleNamespace(properties=SimpleNamespace(raw={"hoodie.table.initial.version": created})), plan


@pytest.mark.parametrize(
    ("created", "merge", "groups"),
    [
        ("8", CommitTimeOrdering(), ["plain", "logged", "logs"]),
        (" 10 ", CommitTimeOrdering(), ["plain", "logged", "logs"]),
        ("6", CommitTimeOrdering(), ["plain"]),
        ("", CommitTimeOrdering(), ["plain"]),
        ("eight", CommitTimeOrdering(), ["plain"]),
        ("9", CustomMerge(name="c", of_payload=True, ordering_fields=()), ["plain"]),
    ],
)
def test_groups_that_statistics_can_exclude(created: str, merge: Any, groups: list[str]) -> None:
    """A table that was upgraded may have logs of version 6, to which several instants appended."""
    state, plan = state_and_plan(created, merge)
    assert [split.file_group for split in with_statistics(state, plan)] == groups
