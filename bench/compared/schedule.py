"""A turn: compares results, then runs every contestant round by round, and computes ratios of the samples.

Contestants of a round run one after another, so that a slow phase of the machine affects all of them. Each round has a
ratio; reports quote the median of the ratios, the lowest and the highest.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.compared.contestants import ARROW_READERS, Cast, Contestant, Kind, Question, request, values_of
from bench.compared.processes import Cost
from bench.compared.tables import PreparedTable

BASE_FILES = (Contestant.SPARK_PARQUET, Contestant.PYARROW)
"""Readers of base files without logs."""
ENOUGH_ROWS = 400_000
"""In smaller tables footers and buffers hide the bytes that a projection saves, and all rows fit into two batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One comparison."""

    key: str
    """Name of the part, for `--only`."""
    title: str
    """Heading in the report."""
    table: str
    """Name of the table."""
    question: Question
    """The question that every contestant answers."""
    contestants: tuple[Contestant, ...]
    """Penstock first."""
    warm: int = 1
    """Warm-up rounds, not counted."""
    rounds: int = 5
    """Counted rounds."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Ratios of a turn's rounds."""

    median: float
    """Median."""
    low: float
    """Lowest."""
    high: float
    """Highest."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a turn."""

    turn: Turn
    """The turn."""
    rows: int
    """Rows that every contestant returned."""
    costs: dict[Contestant, list[Cost]] = field(default_factory=dict)
    """Cost of each contestant, round by round, warm-up rounds included."""

    def counted(self, contestant: Contestant) -> list[Cost]:
        """Costs of the counted rounds, which are the last ones."""
        return self.costs[contestant][-self.turn.rounds :]

    def ratio(self, above: Contestant, below: Contestant, of: Callable[[Cost], float]) -> Spread:
        """The ratio of two contestants' costs, round by round."""
        pairs = zip(self.counted(above), self.counted(below), strict=True)
        return Spread.of([of(one) / of(other) for one, other in pairs])


def cpu_s(cost: Cost) -> float:
    """CPU seconds."""
    return cost.cpu_s


def wall_s(cost: Cost) -> float:
    """Wall-clock seconds."""
    return cost.wall_s


def check_equal_rows(cast: Cast, turn: Turn, table: PreparedTable) -> int:
    """Checks that contestants return rows of equal fingerprints by the expected code path, and returns the number of
    rows; AssertionError otherwise. Questions that return values are compared in each round instead (`equal`). If there
    are logs, only the number of rows of a reader of base files is compared."""
    if turn.question.ask != "all":
        return table.table.rows
    answers = {}
    for contestant in turn.contestants:
        answer = cast.worker(contestant).ask(request(contestant, turn.question, table, prove=True))
        answers[contestant] = values_of(answer)
        if contestant in BASE_FILES and table.table.updated_rows:
            rows_of_bases = answers.pop(contestant)[0]
            assert rows_of_bases == str(table.table.rows), f"{turn.key}: {rows_of_bases} rows in base files"
        _assert_path(cast, contestant, turn.question, table)
    rows = int(equal(turn.key, answers)[0])
    expected = table.table.rows if turn.question.kind is Kind.SNAPSHOT else table.table.updated_rows
    assert rows == expected, f"{turn.key}: {rows} rows, expected {expected}"
    return rows


def equal(key: str, answers: Mapping[Contestant, tuple[str, ...]]) -> tuple[str, ...]:
    """The common answer of all contestants; AssertionError if they differ."""
    if len(set(answers.values())) != 1:
        reported = "; ".join(f"{name}: {values}" for name, values in answers.items())
        raise AssertionError(f"{key}: the results differ: {reported}")
    return next(iter(answers.values()))


def _assert_path(cast: Cast, contestant: Contestant, question: Question, table: PreparedTable) -> None:
    """Asserts a pushed-down projection and a streaming read, by counters that are conclusive only for large tables."""
    worker = cast.worker(contestant)
    if contestant in ARROW_READERS:
        answer: dict[str, Any] = worker.ask(request(contestant, question, table))
        if table.table.rows < ENOUGH_ROWS:
            return
        if contestant != Contestant.HUDI_RS and question.kind is Kind.SNAPSHOT:
            assert answer["batches"] > 8, (
                f"{contestant}: {answer['rows']} rows in {answer['batches']} batches: no stream"
            )
        if contestant is Contestant.ARROW and question.columns and question.kind is Kind.SNAPSHOT:
            full = worker.ask(request(contestant, Question(), table))
            base_bytes = sum(
                file.stat().st_size for file in table.path.rglob("*.parquet") if ".hoodie" not in file.parts
            )
            saved = full["read_bytes"] - answer["read_bytes"]
            assert answer["read_bytes"] > 0 and saved > 0.4 * base_bytes, (
                f"{contestant}: read {answer['read_bytes']} bytes for {question.columns}, {full['read_bytes']} for all"
            )
    elif question.columns and question.ask == "all":
        reported = request(contestant, question, table) | {"ask": ["select", ["count(1)", "max(struct(*))"]]}
        plan = worker.ask(reported | {"explain": True})["plan"]
        others = {column.name for column in table.table.all_columns} - set(question.columns)
        schema = plan.partition("ReadSchema")[2]
        read = [name for name in others if re.search(rf"\b{name}:", schema) or re.search(rf"\b{name}#", plan)]
        assert not read, f"{contestant}: columns {read} are read too: {plan}"


def play(cast: Cast, turn: Turn, table: PreparedTable, log: Callable[[str], None]) -> Outcome:
    """Compares the results of a turn and measures it."""
    log(f"{turn.key}: comparing results")
    outcome = Outcome(turn, check_equal_rows(cast, turn, table))
    outcome.costs.update({contestant: [] for contestant in turn.contestants})
    for number in range(turn.warm + turn.rounds):
        answers = {}
        for contestant in turn.contestants:
            answer, cost = cast.worker(contestant).costed(request(contestant, turn.question, table))
            if contestant in ARROW_READERS:
                assert answer["rows"] == outcome.rows, f"{turn.key}: {contestant} returned {answer['rows']} rows"
            outcome.costs[contestant].append(cost)
            answers[contestant] = values_of(answer)
        if turn.question.ask != "all":
            equal(turn.key, answers)
        last = ", ".join(f"{name} {costs[-1].cpu_s:.2f}" for name, costs in outcome.costs.items())
        log(f"{turn.key}: round {number + 1} of {turn.warm + turn.rounds}, CPU s: {last}")
    return outcome
