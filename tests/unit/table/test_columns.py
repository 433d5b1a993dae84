"""Names resolve by Spark's rule: exact, else the same but for case."""

from __future__ import annotations

import pytest

from penstock.proto.errors import ConfigurationError
from penstock.table.columns import resolve_column, resolve_columns

NAMES = ("id", "Name", "name", "CITY", "total amount")


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("id", "id"),
        ("ID", "id"),
        ("Name", "Name"),
        ("name", "name"),
        ("city", "CITY"),
        ("Total Amount", "total amount"),
    ],
)
def test_exact_first_then_without_case(value: str, result: str) -> None:
    assert resolve_column(value, NAMES) == result


def test_two_that_differ_by_case_only_must_be_named_exactly() -> None:
    with pytest.raises(ConfigurationError, match=r"'NAME' is ambiguous: the table has Name, name"):
        resolve_column("NAME", NAMES)


@pytest.mark.parametrize(("value", "offered"), [("citi", "did you mean CITY"), ("zzz", "the table has id, Name")])
def test_unknown_name_is_offered_the_nearest(value: str, offered: str) -> None:
    with pytest.raises(ConfigurationError, match=offered):
        resolve_column(value, NAMES)


def test_long_name_is_cut_in_the_error() -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_column("x" * 100_000, NAMES)
    assert len(str(caught.value)) < 500


def test_columns_keep_the_order_asked_for_and_none_means_all() -> None:
    assert resolve_columns(["CITY", "id"], NAMES) == ("CITY", "id")
    assert resolve_columns([], NAMES) == NAMES


def test_column_is_named_once() -> None:
    with pytest.raises(ConfigurationError, match=r"'id' is requested twice \(as 'id' and 'ID'\)"):
        resolve_columns(["id", "ID"], NAMES)


def test_completion_time_names_its_option() -> None:
    with pytest.raises(
        ConfigurationError, match=r"no column '_Completion_Time': only a read with the option completion"
    ):
        resolve_column("_Completion_Time", ["id"])
