"""The table of cases covers all valid pairs."""

from __future__ import annotations

import pytest

from tests.streaming.cases import CASES, SHORT_CASES, factors, name
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


def test_cases_of_make_test_have_every_value() -> None:
    assert {name(case) for case in CASES} > SHORT_CASES
    short = [factors(case) for case in CASES if name(case) in SHORT_CASES]
    every = [factors(case) for case in CASES]
    assert len(short) == len(SHORT_CASES)
    for factor in every[0]:
        assert {case[factor] for case in short} == {case[factor] for case in every}, factor


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_built(operator: str) -> None:
    assert operator in BUILT
    assert (f"{operator}_sql" in BUILT) == (operator in HAS_SQL)
