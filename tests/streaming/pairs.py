"""The table of cases: operators × conditions, so that every pair of values that can go together is in one of them.

`python pairs.py` prints the table that `cases.py` keeps. Greedy: each case is the one that covers most of what is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from written import TABLES

OPERATORS = ("tumbling", "sliding", "session", "window_join", "interval_inner", "interval_left", "deduplicated")
HAS_SQL = ("tumbling", "window_join")

FACTORS: dict[str, tuple[str, ...]] = {
    "operator": OPERATORS,
    "form": ("frame", "sql"),
    "table": tuple(TABLES),
    "fallback": ("scan", "hold", "commitTime"),
    "start": ("earliest", "snapshot"),
    "idle": ("never", "idle"),
    "restart": ("none", "stopped", "failed"),
    "limit": ("none", "inside"),
    "road": ("embedded", "server"),
}
Case = tuple[str, ...]
Pair = tuple[tuple[str, str], tuple[str, str]]


def cases() -> Iterator[Case]:
    """Everything that can go together."""
    for case in itertools.product(*FACTORS.values()):
        told = dict(zip(FACTORS, case, strict=True))
        if told["form"] == "sql" and told["operator"] not in HAS_SQL:
            continue
        has_statistics = TABLES[told["table"]].kind == "cow"
        if told["fallback"] != "scan" and has_statistics:
            continue
        # without statistics the order of a snapshot's splits is that of their names, which the model does not know
        if told["fallback"] != "scan" and told["start"] == "snapshot" and told["limit"] == "inside":
            continue
        yield case


def conditions(case: Case) -> dict[str, str]:
    """The values of a case that count: of a table its conditions."""
    told = dict(zip(FACTORS, case, strict=True))
    table = TABLES[told.pop("table")]
    return told | {
        "kind": f"{table.kind}{table.version}",
        "order": "out of order" if table.out_of_order else "in order",
        "updates": "late" if table.late else "in time",
        "event times": "some null" if table.nulls else "all there",
    }


def pairs(case: Case) -> frozenset[Pair]:
    """What a case covers."""
    return frozenset(itertools.combinations(sorted(conditions(case).items()), 2))


def table_of_cases() -> list[Case]:
    """Cases that cover all pairs."""
    covers: Mapping[Case, frozenset[Pair]] = {case: pairs(case) for case in cases()}
    left = frozenset[Pair]().union(*covers.values())
    chosen: list[Case] = []
    while left:
        best = max(covers, key=lambda case: len(covers[case] & left))
        chosen.append(best)
        left -= covers[best]
    for case in list(chosen):  # what the ones behind it made needless
        others = frozenset[Pair]().union(*(covers[other] for other in chosen if other != case))
        if covers[case] <= others:
            chosen.remove(case)
    return chosen


if __name__ == "__main__":
    for case in table_of_cases():
        print(f"    {case!r},")
