"""The reference model against examples computed by hand; times in seconds."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.streaming.reference_model import (
    END_OF_TIME_US,
    Micro,
    Planned,
    Row,
    Slice,
    deduplicated,
    engine,
    interval_join,
    sessions,
    watermarks,
    window_join,
    windows,
)

S = 1_000_000


def bounded(low: float, high: float) -> Slice:
    return Slice(int(low * S), int(high * S))


def undelivered(low: float, high: float, completed: float) -> Slice:
    return Slice(int(low * S), int(high * S), False, int(completed * S))


def row(key: str, at: float | None, n: int, g: int = 0) -> Row:
    return Row(key, None if at is None else int(at * S), g, n)


def one(*micros: tuple[list[Row], float | None]) -> list[Micro]:
    """Micro-batches of one source: rows and their watermark."""
    return [Micro((rows,), (None if at is None else int(at * S),)) for rows, at in micros]


def test_watermark_is_the_highest_bound_minus_the_allowed_lateness() -> None:
    assert watermarks([Planned([bounded(1, 10)]), Planned([bounded(1, 10), bounded(4, 12)])], 5 * S) == [5 * S, 7 * S]


def test_watermark_is_held_back_by_undelivered_slices() -> None:
    first, second, third = bounded(1, 10), bounded(8, 30), bounded(20, 25)
    marks = watermarks(
        [Planned([first], [second, third]), Planned([first, second], [third]), Planned([first, second, third])], 5 * S
    )
    assert marks == [8 * S - 1, 20 * S - 1, 25 * S]


def test_watermark_never_decreases() -> None:
    first, late = bounded(1, 50), bounded(3, 4)
    assert watermarks([Planned([first]), Planned([first], [late]), Planned([first, late])], 5 * S) == [45 * S] * 3


def test_watermark_is_none_without_event_times() -> None:
    none = Slice(None, None)
    assert watermarks([Planned([none]), Planned([none, bounded(1, 9)])], S) == [None, 8 * S]


def test_watermark_advances_by_idle_timeouts_and_at_the_end() -> None:
    first = [bounded(1, 10)]
    marks = watermarks(
        [Planned(first), Planned(first, idle=2), Planned(first), Planned(first, is_end=True)], 5 * S, idle_timeout=3 * S
    )
    assert marks == [5 * S, 11 * S, 11 * S, END_OF_TIME_US]
    assert watermarks([Planned(first, is_end=True)], 5 * S, beyond_end=30 * S) == [40 * S]


@pytest.mark.parametrize(
    ("fallback", "marks"),
    [
        # 2..6 are the rows' own times: below 2 while they are undelivered, then 10 - 1
        ("scan", [2 * S - 1, 9 * S]),
        # the watermark does not advance while they are undelivered; they never count
        ("hold", [None, 9 * S]),
        # they are assumed to be in 100-1..100
        ("commitTime", [99 * S - 1, 99 * S]),
    ],
)
def test_watermark_with_a_slice_without_statistics(fallback: str, marks: list[int | None]) -> None:
    first, second = bounded(1, 10), undelivered(2, 6, completed=100)
    assert watermarks([Planned([first], [second]), Planned([first, second])], S, fallback=fallback) == marks


def test_engine_evicts_by_the_watermark_before_and_drops_by_the_one_before_that() -> None:
    steps = engine(one(([], 5), ([], None), ([], 3), ([], 9.0005)))
    assert [(step.late // S, step.evict // S) for step in steps] == [(0, 0), (0, 5), (5, 5), (5, 5)]
    assert engine(one(([], 9.0005), ([], None)))[1].evict == 9 * S


def test_engine_uses_the_minimum_watermark_and_a_restart_forgets_its_source() -> None:
    def micro(left: float | None, right: float | None, *, restarted: bool = False) -> Micro:
        brought = tuple(None if at is None else int(at * S) for at in (left, right))
        return Micro(([], []), brought, restarted)

    steps = engine([micro(9, None), micro(None, 4), micro(None, 7), micro(None, None)])
    assert [step.evict // S for step in steps] == [0, 0, 4, 7]
    steps = engine([micro(9, 4), micro(None, 7, restarted=True), micro(9, None), micro(None, None)])
    assert [step.evict // S for step in steps] == [0, 4, 4, 7]


def test_tumbling_windows() -> None:
    steps = engine(
        one(
            ([row("a", 1, 1), row("b", 9, 2), row("c", 12, 3), row("d", None, 4)], 10),
            ([row("e", 10, 5), row("f", 3, 6)], 19.9),  # its late watermark is 0: 3 is still in its window
            ([row("g", 2, 7), row("h", 8, 8), row("i", 19.95, 9)], 20),  # drops by 10: [0, 10) once
            ([], None),
        )
    )
    assert windows(steps, 10 * S, 10 * S) == [
        (Counter(), 0),
        (Counter({(0, 0, (1, 2, 6)): 1}), 0),
        (Counter(), 1),
        (Counter({(10 * S, 0, (3, 5, 9)): 1}), 0),
    ]


def test_sliding_windows_drop_a_row_only_from_closed_windows() -> None:
    steps = engine(one(([row("a", 7, 1)], 11), ([], None), ([row("b", 8, 2)], None)))
    # the row at 8 s is in [0, 10), which is closed, and in [5, 15)
    assert windows(steps, 10 * S, 5 * S) == [(Counter(), 0), (Counter({(0, 0, (1,)): 1}), 0), (Counter(), 1)]
    assert windows(engine([*one(([row("a", 7, 1)], 11), ([row("b", 8, 2)], 15), ([], None))]), 10 * S, 5 * S)[2] == (
        Counter({(5 * S, 0, (1, 2)): 1}),
        0,
    )


def test_sessions_grow_merge_and_close() -> None:
    steps = engine(
        one(
            ([row("a", 1, 1), row("b", 20, 2)], 4),
            ([row("c", 4, 3), row("d", 15, 4, g=1)], 9),
            ([row("e", 2, 5)], 30),
            ([], None),
        )
    )
    # 1 and 4 touch by their gap of 5 s: [1, 9); the row at 2 arrives after the watermark 9 and is late
    assert sessions(steps, 5 * S) == [
        (Counter(), 0),
        (Counter(), 0),
        (Counter({(1 * S, 9 * S, 0, (1, 3, 5)): 1}), 0),
        (Counter({(20 * S, 25 * S, 0, (2,)): 1, (15 * S, 20 * S, 1, (4,)): 1}), 0),
    ]


def test_windows_of_two_tables_close_together() -> None:
    micros = [
        Micro(([row("a", 1, 1), row("b", 12, 2)], [row("x", 5, 7)]), (10 * S, 3 * S)),
        Micro(([], [row("y", 15, 8)]), (None, 10 * S)),
        Micro(([], []), (None, None)),
    ]
    assert window_join(engine(micros), 10 * S) == [
        (Counter(), 0),
        (Counter(), 0),
        (Counter({(0, 0, (1,), (7,)): 1}), 0),
    ]


def test_interval_joins() -> None:
    micros = [
        Micro(([row("a", 10, 1), row("b", 11, 2, g=1)], [row("x", 8, 7), row("y", 4, 8)]), (12 * S, 15 * S)),
        Micro(([], [row("z", 13, 9)]), (16 * S, 16 * S)),  # its late watermark is 0, it evicts by 12
        Micro(([row("c", 11.5, 3)], [row("w", 12, 10)]), (None, None)),  # drops both, because they are at or below 12
    ]
    pairs = Counter({(1, 7): 1})
    later = Counter({(1, 9): 1})
    assert interval_join(engine(micros), 5 * S, 5 * S, outer=False) == [(pairs, 0), (later, 0), (Counter(), 2)]
    assert interval_join(engine(micros), 5 * S, 5 * S, outer=True)[2] == (Counter({(2, None): 1}), 2)


def test_duplicates_within_the_watermark() -> None:
    steps = engine(
        one(
            ([row("a", 1, 1), row("b", 2, 2), row("d", None, 9)], 4),
            ([row("a", 3, 3), row("d", 5, 8)], 12),  # both keys are still in the state: 1 + 10, 0 + 10 > 4
            ([row("a", 5, 4), row("b", 4, 5)], 12),  # drops by 4, evicts by 12
            ([row("b", 13, 6)], None),
        )
    )
    assert deduplicated(steps, 10 * S) == [
        (Counter({1: 1, 2: 1, 9: 1}), 0),
        (Counter(), 0),
        (Counter(), 1),
        (Counter({6: 1}), 0),
    ]
