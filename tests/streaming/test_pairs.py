"""The table of cases covers all valid pairs."""

from __future__ import annotations

import pytest

from tests.streaming.cases import CASES, LONG_CASES, name
from tests.streaming.operators import OPERATORS as BUILT
from tests.streaming.pairs import HAS_SQL, OPERATORS, cases, pairs


def test_cases_cover_every_valid_pair() -> None:
    possible = set(cases())
    assert set(CASES) <= possible
    expected = frozenset[object]().union(*(pairs(case) for case in possible))
    assert expected == frozenset[object]().union(*(pairs(case) for case in CASES))


def test_cases_are_distinct_and_necessary() -> None:
    assert len({name(case) for case in CASES}) == len(CASES)
    covered = [pairs(case) for case in CASES]
    for number, own in enumerate(covered):
        others = frozenset[object]().union(*(other for at, other in enumerate(covered) if at != number))
        assert own - others, CASES[number]


def test_cases_of_test_all_cover_almost_every_pair() -> None:
    assert {name(case) for case in CASES} > LONG_CASES
    every = frozenset[object]().union(*(pairs(case) for case in CASES))
    covered = frozenset[object]().union(*(pairs(case) for case in CASES if name(case) not in LONG_CASES))
    assert len(covered) >= 0.95 * len(every)
    assert {value for pair in covered for value in pair} == {value for pair in every for value in pair}  # type: ignore[attr-defined]


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_built(operator: str) -> None:
    assert operator in BUILT
    assert (f"{operator}_sql" in BUILT) == (operator in HAS_SQL)
