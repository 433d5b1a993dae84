"""A turn: equal results first, then every contestant in turn, round after round; what the samples come to.

Contestants of a round run one after the other, so a machine that is slow for a while is so for all of them. Each round
gives a ratio; quoted are the median of the ratios and how far they spread.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.compared.contestants import ARROW_READERS, Cast, Contestant, Kind, Question, request, values_of
from bench.compared.processes import Cost
from bench.compared.tables import MadeTable

ENOUGH_ROWS = 400_000
"""Below, footers and buffers hide what a projection saves, and all rows come in a batch or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One comparison: a question put to contestants, Penstock first. `rounds` are counted, after `warm` others."""

    key: str
    title: str
    table: str
    question: Question
    contestants: tuple[Contestant, ...]
    warm: int = 1
    rounds: int = 5


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, lowest and highest of the ratios of a turn's rounds."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a turn gave: the rows that all returned, and each contestant's cost, round by round, the warm ones too."""

    turn: Turn
    rows: int
    costs: dict[Contestant, list[Cost]] = field(default_factory=dict)

    def counted(self, contestant: Contestant) -> list[Cost]:
        """Of the rounds that count: the last ones."""
        return self.costs[contestant][-self.turn.rounds :]

    def ratio(self, above: Contestant, below: Contestant, of: Callable[[Cost], float]) -> Spread:
        """How many times as much one costs as another, round by round."""
        pairs = zip(self.counted(above), self.counted(below), strict=True)
        return Spread.of([of(one) / of(other) for one, other in pairs])


def cpu_s(cost: Cost) -> float:
    """Processor seconds."""
    return cost.cpu_s


def wall_s(cost: Cost) -> float:
    """Seconds on the wall."""
    return cost.wall_s


def prove(cast: Cast, turn: Turn, table: MadeTable) -> int:
    """How many rows every contestant returns, equal by fingerprint, each by the path that its name says;
    AssertionError otherwise. Answers that are values prove themselves, in each round (`equal`)."""
    if turn.question.ask != "all":
        return table.table.rows
    found = {}
    for contestant in turn.contestants:
        answer = cast.worker(contestant).ask(request(contestant, turn.question, table, prove=True))
        found[contestant] = values_of(answer)
        _assert_path(cast, contestant, turn.question, table)
    rows = int(equal(turn.key, found)[0])
    expected = table.table.rows if turn.question.kind is Kind.SNAPSHOT else table.table.updated_rows
    assert rows == expected, f"{turn.key}: {rows} rows, expected {expected}"
    return rows


def equal(key: str, found: Mapping[Contestant, tuple[str, ...]]) -> tuple[str, ...]:
    """The one answer that all gave; AssertionError where they differ."""
    if len(set(found.values())) != 1:
        told = "; ".join(f"{name}: {values}" for name, values in found.items())
        raise AssertionError(f"{key}: the results differ: {told}")
    return next(iter(found.values()))


def _assert_path(cast: Cast, contestant: Contestant, question: Question, table: MadeTable) -> None:
    """A projection that was pushed, a stream that was read as one: told by numbers that a small table does not have."""
    worker = cast.worker(contestant)
    if contestant in ARROW_READERS:
        given: dict[str, Any] = worker.ask(request(contestant, question, table))
        if table.table.rows < ENOUGH_ROWS:
            return
        if contestant != Contestant.HUDI_RS and question.kind is Kind.SNAPSHOT:
            assert given["batches"] > 8, f"{contestant}: {given['rows']} rows in {given['batches']} batches: no stream"
        if contestant is Contestant.ARROW and question.columns and question.kind is Kind.SNAPSHOT:
            whole = worker.ask(request(contestant, Question(), table))
            base_bytes = sum(
                file.stat().st_size for file in table.path.rglob("*.parquet") if ".hoodie" not in file.parts
            )
            saved = whole["read_bytes"] - given["read_bytes"]
            assert given["read_bytes"] > 0 and saved > 0.4 * base_bytes, (
                f"{contestant}: read {given['read_bytes']} bytes for {question.columns}, {whole['read_bytes']} for all"
            )
    elif question.columns and question.ask == "all":
        told = request(contestant, question, table) | {"ask": ["select", ["count(1)", "max(struct(*))"]]}
        plan = worker.ask(told | {"explain": True})["plan"]
        others = {column.name for column in table.table.all_columns} - set(question.columns)
        schema = plan.partition("ReadSchema")[2]
        read = [name for name in others if re.search(rf"\b{name}:", schema) or re.search(rf"\b{name}#", plan)]
        assert not read, f"{contestant}: columns {read} are read too: {plan}"


def played(cast: Cast, turn: Turn, table: MadeTable, tell: Callable[[str], None]) -> Outcome:
    """The turn, measured, its results proven equal."""
    tell(f"{turn.key}: comparing results")
    outcome = Outcome(turn, prove(cast, turn, table))
    outcome.costs.update({contestant: [] for contestant in turn.contestants})
    for number in range(turn.warm + turn.rounds):
        found = {}
        for contestant in turn.contestants:
            answer, cost = cast.worker(contestant).costed(request(contestant, turn.question, table))
            if contestant in ARROW_READERS:
                assert answer["rows"] == outcome.rows, f"{turn.key}: {contestant} returned {answer['rows']} rows"
            outcome.costs[contestant].append(cost)
            found[contestant] = values_of(answer)
        if turn.question.ask != "all":
            equal(turn.key, found)
        last = ", ".join(f"{name} {costs[-1].cpu_s:.2f}" for name, costs in outcome.costs.items())
        tell(f"{turn.key}: round {number + 1} of {turn.warm + turn.rounds}, CPU s: {last}")
    return outcome
