"""The ledger excuses keys of a range of latest-state rows only if an excused instant inside the range wrote them."""

from __future__ import annotations

import random

import pytest

from tests.simulation.checkers import CheckFailed, Generation, Ledger
from tests.simulation.simulated_table import Instant, Row, Stat, Table, position


def instant(order_key: int, *keys: int, is_excused: bool = False) -> Instant:
    """A commit of one file group that inserts the keys."""
    stats = (Stat(("p", f"f{order_key}"), tuple((key, "i") for key in keys)),)
    commit = Instant(order_key, "commit", stats, (), {}, frozenset(), order_key, order_key)
    commit.is_removed = is_excused
    return commit


def check(output: list[Row], *instants: Instant, upto: int = 20) -> None:
    """A finished round (10, upto] that gave these rows."""
    table = Table(random.Random(0), 2)
    table.every = list(instants)
    one = Generation(1, position(10), position(upto), position(upto))
    one.ranges = {"round": (position(10), position(upto))}
    one.output = [("round", row) for row in output]
    ledger = Ledger(table, is_changes=False)
    ledger.generations = [one]
    ledger.check_output()


ROWS: list[Row] = [(1, 15, "i"), (2, 15, "i")]
PLAIN = instant(15, 1, 2)


@pytest.mark.parametrize("order_key", [5, 10, 30])
def test_excused_instant_outside_of_the_range_excuses_nothing(order_key: int) -> None:
    excused = instant(order_key, 1, is_excused=True)
    check(ROWS, PLAIN, excused)
    for wrong in (ROWS[:1], [*ROWS, (9, 15, "i")], [*ROWS, ROWS[0]]):
        with pytest.raises(CheckFailed, match="exactly once"):
            check(wrong, PLAIN, excused)


def test_excused_instant_inside_the_range_excuses_the_keys_it_wrote() -> None:
    excused = instant(17, 1, is_excused=True)
    check(ROWS, PLAIN, excused)
    check([(1, 17, "i"), (2, 15, "i")], PLAIN, excused)
    check(ROWS[1:], PLAIN, excused)
    with pytest.raises(CheckFailed, match="exactly once"):
        check(ROWS[:1], PLAIN, excused)


def test_instant_at_the_end_of_the_range_is_inside() -> None:
    check(ROWS, PLAIN, instant(20, 3, is_excused=True))
    check([*ROWS, (3, 20, "i")], PLAIN, instant(20, 3, is_excused=True))
