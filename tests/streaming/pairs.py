"""The table of cases: operators × conditions, so that a case covers each valid pair of values.

`python pairs.py` prints the table of `cases.py`. It adds the case that covers most remaining pairs, one by one; then it
replaces randomly chosen cases as long as the table does not grow.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterable, Iterator, Mapping

from tests.streaming.written import TABLES

OPERATORS = ("tumbling", "sliding", "session", "window_join", "interval_inner", "interval_left", "deduplicated")
HAS_SQL = ("tumbling", "window_join")
TWO_SOURCES = ("window_join", "interval_inner", "interval_left")

FACTORS: dict[str, tuple[str, ...]] = {
    "operator": OPERATORS,
    "form": ("frame", "sql"),
    "table": tuple(TABLES),
    "fallback": ("scan", "hold", "commitTime"),
    "start": ("earliest", "snapshot"),
    "idle": ("never", "idle"),
    "restart": ("none", "stopped", "failed"),
    "limit": ("none", "inside"),
    "deployment": ("embedded", "server"),
}
Case = tuple[str, ...]
Pair = tuple[tuple[str, str], tuple[str, str]]


def cases() -> Iterator[Case]:
    """All valid combinations."""
    for case in itertools.product(*FACTORS.values()):
        factors = dict(zip(FACTORS, case, strict=True))
        if factors["form"] == "sql" and factors["operator"] not in HAS_SQL:
            continue
        has_statistics = TABLES[factors["table"]].kind == "cow"
        if factors["fallback"] != "scan" and has_statistics:
            continue
        # without statistics the splits of a snapshot are ordered by their names, which the model does not have
        if factors["fallback"] != "scan" and factors["start"] == "snapshot" and factors["limit"] == "inside":
            continue
        yield case


def drops(factors: Mapping[str, str]) -> bool:
    """Whether a case certainly has rows that are dropped as late (with times of completion there are few)."""
    is_read_whole = factors["start"] == "earliest" and factors["fallback"] != "commitTime"
    return TABLES[factors["table"]].late and is_read_whole


def conditions(case: Case) -> dict[str, str]:
    """The values of a case; of a table, its conditions."""
    factors = dict(zip(FACTORS, case, strict=True))
    table = TABLES[factors.pop("table")]
    return factors | {
        "kind": f"{table.kind}{table.version}",
        "order": "out of order" if table.out_of_order else "in order",
        "updates": "dropped" if drops(factors | {"table": table.name()}) else "late" if table.late else "in time",
        "event times": "some null" if table.nulls else "all there",
    }


def pairs(case: Case) -> frozenset[Pair]:
    """The pairs that a case covers."""
    return frozenset(itertools.combinations(sorted(conditions(case).items()), 2))


def table_of_cases(trials: int = 1000) -> list[Case]:
    """A small set of cases that covers all pairs, few of them with two sources; deterministic."""
    numbers: dict[Pair, int] = {}
    covers = {
        case: sum(1 << numbers.setdefault(pair, len(numbers)) for pair in sorted(pairs(case))) for case in cases()
    }
    rng = random.Random(1)
    chosen = _completed([], covers, rng)
    for _ in range(trials):
        start = rng.sample(chosen, len(chosen) - rng.randrange(2, 9))
        chosen = min(_completed(start, covers, rng), chosen, key=_cost)
    return sorted(chosen, key=list(covers).index)


def _completed(start: list[Case], covers: Mapping[Case, int], rng: random.Random) -> list[Case]:
    """These cases, extended until all pairs (bits) are covered, without redundant ones."""
    everything = _union(covers.values())
    left, chosen = everything & ~_union(covers[case] for case in start), list(start)
    while left:
        gains = {case: (own & left).bit_count() for case, own in covers.items()}
        most = max(gains.values())
        best = rng.choice([case for case, gain in gains.items() if gain == most])
        chosen.append(best)
        left &= ~covers[best]
    for case in rng.sample(chosen, len(chosen)):
        if _union(covers[other] for other in chosen if other != case) == everything:
            chosen.remove(case)
    return chosen


def _union(sets: Iterable[int]) -> int:
    return functools.reduce(int.__or__, sets, 0)


def _cost(chosen: list[Case]) -> tuple[int, int]:
    return len(chosen), sum(case[0] in TWO_SOURCES for case in chosen)


if __name__ == "__main__":
    for case in table_of_cases():
        print(f"    {case!r},")
