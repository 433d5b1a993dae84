"""The table of cases covers what it says."""

from __future__ import annotations

import pytest

from tests.streaming.cases import CASES, name
from tests.streaming.operators import OPERATORS as BUILT
from tests.streaming.pairs import HAS_SQL, OPERATORS, cases, pairs


def test_every_pair_that_can_be_is_in_a_case() -> None:
    possible = set(cases())
    assert set(CASES) <= possible
    expected = frozenset[object]().union(*(pairs(case) for case in possible))
    assert expected == frozenset[object]().union(*(pairs(case) for case in CASES))


def test_no_case_is_there_twice_and_none_could_be_left_out() -> None:
    assert len({name(case) for case in CASES}) == len(CASES)
    covered = [pairs(case) for case in CASES]
    for number, own in enumerate(covered):
        others = frozenset[object]().union(*(other for at, other in enumerate(covered) if at != number))
        assert own - others, CASES[number]


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_built(operator: str) -> None:
    assert operator in BUILT
    assert (f"{operator}_sql" in BUILT) == (operator in HAS_SQL)
