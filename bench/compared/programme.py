"""The turns of a run: key, question, table and contestants.

The first contestant of a turn is Penstock. Turns with Spark have warm-up rounds before the counted ones, because the
JVM compiles while it runs.
"""

from __future__ import annotations

from dataclasses import replace

from bench.compared.columns import LINEITEM
from bench.compared.contestants import Contestant, Kind, Question
from bench.compared.schedule import Turn

ARROW, SPARK = Contestant.ARROW, Contestant.SPARK
STREAM, EAGER, BUNDLE = Contestant.HUDI_RS_STREAM, Contestant.HUDI_RS, Contestant.HUDI_SPARK
EVERYONE = (ARROW, STREAM, EAGER, SPARK, BUNDLE)
DECODED = Contestant.PYARROW
"""Decodes the base file and does nothing else: what a reader costs at least that decodes by Arrow."""
MERGED = (ARROW, STREAM, SPARK, BUNDLE)
TWO = ("key", "n")

Q1 = """
SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount),
       count(*)
FROM t WHERE l_shipdate <= date_sub(date'1998-12-01', 90)
GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus
"""
Q6 = """
SELECT sum(l_extendedprice * l_discount) FROM t
WHERE l_shipdate >= date'1994-01-01' AND l_shipdate < date'1995-01-01'
  AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24
"""
Q1_COLUMNS = ("l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_returnflag", "l_linestatus", "l_shipdate")
Q6_COLUMNS = ("l_quantity", "l_extendedprice", "l_discount", "l_shipdate")


def turns(rounds: int, *, has_crate: bool = False) -> tuple[Turn, ...]:
    """The comparisons of a run, in order; with hudi-rs's newest crate beside its wheel if it is built (`has_crate`)."""
    comparisons = _turns(rounds)
    return tuple(map(_with_crate, comparisons)) if has_crate else comparisons


def _with_crate(turn: Turn) -> Turn:
    """The turn with the crate after the wheel's stream, if it has that."""
    if STREAM not in turn.contestants:
        return turn
    after = turn.contestants.index(STREAM) + 1
    contestants = (*turn.contestants[:after], Contestant.HUDI_RS_CRATE, *turn.contestants[after:])
    return replace(turn, contestants=contestants)


def _turns(rounds: int) -> tuple[Turn, ...]:
    """Turns with Spark are adjacent, so that its JVMs stay warm."""
    warm = rounds
    few = {"warm": 1, "rounds": rounds}
    spark = {"warm": warm, "rounds": rounds}
    return (
        _turn("snapshot", "snapshot, all columns", "plain", Question(), (*EVERYONE, DECODED), **spark),
        _turn("two-columns", "snapshot, two columns", "plain", Question(columns=TWO), EVERYONE, **spark),
        _turn(
            "sum", "snapshot, sum of one column", "plain", Question(columns=("n",), ask="sum"), (SPARK, BUNDLE), **spark
        ),
        _turn("count", "snapshot, count", "plain", Question(columns=("k",), ask="count"), (SPARK, BUNDLE), **spark),
        _turn(
            "incremental",
            "incremental, the tenth that was upserted",
            "plain",
            Question(kind=Kind.INCREMENTAL),
            (ARROW, EAGER, SPARK, BUNDLE),
            **spark,
        ),
        _turn("cdc", "change data of the upsert", "plain", Question(kind=Kind.CDC), (ARROW, SPARK, BUNDLE), **spark),
        _turn("narrow", "snapshot, 10 columns", "narrow", Question(), MERGED, **few),
        _turn("wide", "snapshot, 25 columns", "wide", Question(), MERGED, **few),
        _turn("parquet-log", "snapshot, Parquet log blocks", "parquet-log", Question(), MERGED, **few),
        _turn("groups-4", "snapshot, 4 file groups", "groups-4", Question(), MERGED, **few),
        _turn("groups-64", "snapshot, 64 file groups", "groups-64", Question(), MERGED, **few),
        _turn("small-log", "snapshot, log of 0.5 %", "small-log", Question(), (*MERGED, DECODED), **few),
        _turn(
            "log-free",
            "snapshot, no log",
            "log-free",
            Question(),
            (ARROW, Contestant.PYARROW, STREAM, SPARK, Contestant.SPARK_TABLE, Contestant.SPARK_PARQUET, BUNDLE),
            **few,
        ),
        _turn(
            "few-logs",
            "snapshot, a log in 5 % of the file groups",
            "few-logs",
            Question(),
            (SPARK, Contestant.SPARK_TABLE, Contestant.SPARK_PARQUET, BUNDLE),
            **few,
        ),
        *_lineitem(rounds),
        *_pushed(rounds),
    )


def _pushed(rounds: int) -> list[Turn]:
    """The same SQL by `penstock.spark.sql`, over a view of a plain load(), and over a view of Hudi's bundle."""
    middle = "SELECT n, name FROM t WHERE key = 'key-000000000500'"
    itself = "SELECT count(*), sum(a.n) FROM t a JOIN t b ON a.key = b.key WHERE a.k = 7 AND b.n >= 0"
    queries = (
        ("sql-q1", "TPC-H Q1", "lineitem", Q1),
        ("sql-q6", "TPC-H Q6", "lineitem", Q6),
        ("sql-row", "one row of a table without logs", "log-free", middle),
        ("sql-self-join", "a join of a table with itself", "plain", itself),
    )
    contestants = (Contestant.SPARK_SQL, SPARK, BUNDLE)
    return [
        _turn(key, f"SQL as it is written: {title}", table, Question(ask="sql", sql=text), contestants, 2, rounds)
        for key, title, table, text in queries
    ]


def _turn(
    key: str, title: str, table: str, question: Question, contestants: tuple[Contestant, ...], warm: int, rounds: int
) -> Turn:
    return Turn(key=key, title=title, table=table, question=question, contestants=contestants, warm=warm, rounds=rounds)


def _lineitem(rounds: int) -> list[Turn]:
    """TPC-H's queries over all columns, with and without Hudi's meta columns: batches compared with records. And over
    only the columns that a query needs, compared with Hudi's bundle, whose scan is projected by Spark."""
    comparisons = []
    data = tuple(column.name for column in LINEITEM)
    for name, text, needed in (("Q1", Q1, Q1_COLUMNS), ("Q6", Q6, Q6_COLUMNS)):
        every_row = Question(ask="sql", sql=text)
        parts = (
            (f"{name}, all columns", "meta", every_row),
            (f"{name}, no meta columns", "data", _with_columns(every_row, data)),
        )
        for title, ending, question in parts:
            both = (SPARK, Contestant.PER_RECORD)
            comparisons.append(_turn(f"{name.lower()}-{ending}", f"TPC-H {title}", "lineitem", question, both, 1, 2))
        only = _with_columns(every_row, needed)
        title = f"TPC-H {name}, the columns it needs"
        comparisons.append(_turn(f"{name.lower()}-needed", title, "lineitem", only, (SPARK, BUNDLE), 2, rounds))
    return comparisons


def _with_columns(question: Question, columns: tuple[str, ...]) -> Question:
    return Question(kind=question.kind, columns=columns, ask=question.ask, sql=question.sql)
