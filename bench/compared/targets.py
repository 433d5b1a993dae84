"""Targets of the comparison with other readers, and the verdicts on a run's figures.

A target has a goal and a floor; a figure below the floor counts as not done. Both are ratios within one run, or
figures of one process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bench.compared.contestants import Contestant
from bench.compared.probes import First, Peak
from bench.compared.schedule import Outcome, Spread, cpu_s

ARROW, SPARK = Contestant.ARROW, Contestant.SPARK
STREAM, BUNDLE = Contestant.HUDI_RS_STREAM, Contestant.HUDI_SPARK


@dataclass(slots=True)
class Figures:
    """The measurements of a run."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Outcomes by key of the turn."""
    peaks: dict[tuple[Contestant, str, str], list[Peak]] = field(default_factory=dict)
    """Peak memory by (contestant, table, 'all' or 'two' columns)."""
    firsts: dict[Contestant, list[First]] = field(default_factory=dict)
    """First queries of fresh Spark sessions."""
    sent: dict[tuple[str, Contestant], int] = field(default_factory=dict)
    """Bytes that Python workers sent, by (turn, contestant)."""
    decode_records_s: list[float] = field(default_factory=list)
    """Decoded records of 25 columns per second, by round."""
    idle: tuple[float, float] | None = None
    """(p50 ms, file operations) of an idle poll."""
    failed: dict[str, str] = field(default_factory=dict)
    """Error texts of parts that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One line of the table of targets."""

    what: str
    """What is compared."""
    goal: float
    """The target is met from this value on."""
    floor: float
    """Beyond this value the work counts as not done."""
    unit: str = "x"
    """Unit of the figure; `x` is a ratio."""
    at_least: bool = True
    """Whether higher values are better."""
    measure: Callable[[Figures], Spread | None]
    """Computes the figure; None if the run has no such measurement."""

    def verdict(self, spread: Spread | None) -> str:
        """The verdict on the median (of a rate: the best round)."""
        if spread is None:
            return "not measured"
        value, goal, floor = (spread.median, self.goal, self.floor)
        if not self.at_least:
            value, goal, floor = -value, -goal, -floor
        return "met" if value >= goal else "missed" if value >= floor else "NOT DONE"

    def text(self, value: float) -> str:
        """Text of a figure with its unit."""
        sign = "" if self.at_least else "≤ "
        number = f"{value:g}" if value < 1e6 else three_digits(value)
        return f"{sign}{number} {self.unit}".replace(" x", "x").strip()


def three_digits(value: float) -> str:
    """Text of a value with three significant digits."""
    if value >= 1_000_000:
        return f"{value / 1_000_000:.2f} M"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _cpu(turn: str, above: Contestant, below: Contestant) -> Callable[[Figures], Spread | None]:
    """Ratio of the CPU times of two contestants."""

    def measure(figures: Figures) -> Spread | None:
        outcome = figures.outcomes.get(turn)
        if outcome is None or not {above, below} <= outcome.costs.keys():
            return None
        return outcome.ratio(above, below, cpu_s)

    return measure


def _memory(mine: Contestant, theirs: Contestant, columns: str) -> Callable[[Figures], Spread | None]:
    def measure(figures: Figures) -> Spread | None:
        pair = [figures.peaks.get((who, "plain", columns)) for who in (mine, theirs)]
        return (
            _ratios([one.above_bytes for one in pair[0]], [one.above_bytes for one in pair[1]]) if all(pair) else None
        )

    return measure


def _ratios(above: list[float] | list[int], below: list[float] | list[int]) -> Spread:
    return Spread.of([one / other for one, other in zip(above, below, strict=True)])


def _growth(figures: Figures) -> Spread | None:
    """Difference between the peaks over the big and the small base file, in percent."""
    small, big = (figures.peaks.get((ARROW, name, "all")) for name in ("plain", "big"))
    if not small or not big:
        return None
    values = [abs(b.above_bytes / s.above_bytes - 1) * 100 for b, s in zip(big, small, strict=True)]
    return Spread.of(values)


def _first(above: Contestant, below: Contestant) -> Callable[[Figures], Spread | None]:
    """Ratio of the wall times of two contestants' first queries."""

    def measure(figures: Figures) -> Spread | None:
        if not {above, below} <= figures.firsts.keys():
            return None
        return _ratios([one.query_s for one in figures.firsts[above]], [one.query_s for one in figures.firsts[below]])

    return measure


def _idle(part: int) -> Callable[[Figures], Spread | None]:
    return lambda figures: Spread.of([figures.idle[part]]) if figures.idle else None


def _decode(figures: Figures) -> Spread | None:
    """The best round: unlike a ratio, a rate is not corrected by another contestant of the same round."""
    rates = figures.decode_records_s
    return Spread(max(rates), min(rates), max(rates)) if rates else None


def _target(what: str, goal: float, floor: float, measure: Callable[[Figures], Spread | None]) -> Target:
    return Target(what=what, goal=goal, floor=floor, measure=measure)


def _at_most(
    what: str, goal: float, floor: float, measure: Callable[[Figures], Spread | None], unit: str = "x"
) -> Target:
    return Target(what=what, goal=goal, floor=floor, unit=unit, at_least=False, measure=measure)


TARGETS = (
    _target("snapshot to Arrow against hudi-rs stream, all columns: CPU", 2.5, 2, _cpu("snapshot", STREAM, ARROW)),
    _at_most("… peak memory", 0.5, 0.6, _memory(ARROW, STREAM, "all")),
    _target("… two columns: CPU", 4, 3, _cpu("two-columns", STREAM, ARROW)),
    _target("snapshot in Spark against Hudi's bundle, all columns: warm CPU", 3, 2.5, _cpu("snapshot", BUNDLE, SPARK)),
    _target("… one-column sum: warm CPU", 4, 3, _cpu("sum", BUNDLE, SPARK)),
    _target("first query of a fresh process in Spark against the bundle: wall", 5, 4, _first(BUNDLE, SPARK)),
    _at_most("… against Spark's own scan of the base file: wall", 1.3, 1.5, _first(SPARK, Contestant.SPARK_PARQUET)),
    _target("incremental against the bundle, to Arrow: warm CPU", 4, 2.5, _cpu("incremental", BUNDLE, ARROW)),
    _target("… in Spark: warm CPU", 2.5, 2, _cpu("incremental", BUNDLE, SPARK)),
    _target("change data against the bundle, to Arrow: warm CPU", 20, 15, _cpu("cdc", BUNDLE, ARROW)),
    _target("… in Spark: warm CPU", 14, 11, _cpu("cdc", BUNDLE, SPARK)),
    _at_most("log-free slice to Arrow against pyarrow: CPU", 1.2, 1.4, _cpu("log-free", ARROW, Contestant.PYARROW)),
    _at_most("… in Spark against its own scan: warm CPU", 1.5, 1.9, _cpu("log-free", SPARK, Contestant.SPARK_PARQUET)),
    _at_most(
        "… penstock.spark.table against it: warm CPU",
        1.1,
        1.3,
        _cpu("log-free", Contestant.SPARK_TABLE, Contestant.SPARK_PARQUET),
    ),
    _at_most(
        "… the same of a table with a log in 5 % of its file groups",
        1.5,
        2,
        _cpu("few-logs", Contestant.SPARK_TABLE, Contestant.SPARK_PARQUET),
    ),
    _target(
        "TPC-H Q6 by penstock.spark.sql: CPU of the same SQL over load()",
        3,
        2,
        _cpu("sql-q6", SPARK, Contestant.SPARK_SQL),
    ),
    Target(what="Avro decode, 25 columns, checked", goal=1.6e6, floor=1.3e6, unit="records/s", measure=_decode),
    _at_most("peak memory over a base of 20 times the rows: difference", 10, 25, _growth, "%"),
    _target("log of 0.5 % against hudi-rs stream: CPU", 1.3, 1.05, _cpu("small-log", STREAM, ARROW)),
    _at_most("idle poll at 10k instants, 1M files: p50", 10, 20, _idle(0), "ms"),
    _at_most("… file operations", 3, 3, _idle(1), ""),
)


def judge(figures: Figures) -> list[tuple[Target, Spread | None, str]]:
    """Every target with its figure and verdict."""
    results = []
    for target in TARGETS:
        value = target.measure(figures)
        results.append((target, value, target.verdict(value)))
    return results


def verdicts(figures: Figures) -> Mapping[str, int]:
    """Number of targets by verdict."""
    counts: dict[str, int] = {}
    for _, _, verdict in judge(figures):
        counts[verdict] = counts.get(verdict, 0) + 1
    return counts
