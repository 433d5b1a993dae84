"""What needs fresh processes: peak memory of a read, and the first query of a Spark session. And bytes that Spark's
Python workers send.

Memory is anonymous resident bytes above what the process held when everything was imported and one small table read,
so that libraries and compiled code do not count; the peak itself is kept too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.compared.contestants import SPARK_FORMATS, Cast, Contestant, Question, request
from bench.compared.processes import anonymous_bytes
from bench.compared.schedule import Turn
from bench.compared.tables import MadeTable


@dataclass(frozen=True, slots=True)
class Peak:
    """Of one read in a fresh process: bytes above its baseline, and the highest it held at all."""

    above_bytes: int
    peak_bytes: int


@dataclass(frozen=True, slots=True)
class First:
    """Of one fresh Spark process: seconds until its session was there, and of its first query from load() on."""

    session_s: float
    query_s: float


def peak(cast: Cast, contestant: Contestant, question: Question, table: MadeTable, tiny: MadeTable) -> Peak:
    """Of one read."""
    with cast.fresh(contestant) as worker:
        worker.ask(request(contestant, question, tiny))
        before = anonymous_bytes(worker.pid)
        answer, highest = worker.peak_of(lambda: worker.ask(request(contestant, question, table)))
        assert answer["rows"] == table.table.rows, f"{contestant}: {answer['rows']} rows"
        return Peak(highest - before, highest)


def peaks(
    cast: Cast,
    asked: Sequence[tuple[Contestant, MadeTable]],
    question: Question,
    tiny: MadeTable,
    rounds: int,
    tell: Callable[[str], None],
) -> dict[tuple[Contestant, str], list[Peak]]:
    """Of so many reads of each, in turn."""
    found: dict[tuple[Contestant, str], list[Peak]] = {(who, table.table.name): [] for who, table in asked}
    for _ in range(rounds):
        for who, table in asked:
            one = peak(cast, who, question, table, tiny)
            found[who, table.table.name].append(one)
            asked_for = f"{len(question.columns) or 'all'} columns"
            tell(f"memory: {who}, {table.table.name}, {asked_for}: {one.above_bytes >> 20} MiB")
    return found


def first_queries(
    cast: Cast, table: MadeTable, rounds: int, tell: Callable[[str], None]
) -> dict[Contestant, list[First]]:
    """Of fresh sessions, in turn: every row of the table to a sink that drops it. What Spark takes by itself stands
    beside them: its own scan of the base file, and a Python source that has no table."""
    asked = (Contestant.SPARK, Contestant.HUDI_SPARK, Contestant.SPARK_PARQUET, Contestant.BARE)
    found: dict[Contestant, list[First]] = {who: [] for who in asked}
    for _ in range(rounds):
        for who, firsts in found.items():
            with cast.fresh(who) as worker:
                answer = worker.ask(request(who, Question(), table))
                firsts.append(First(worker.started_s, answer["wall_s"]))
            tell(f"first query: {who}: {firsts[-1].query_s:.1f} s behind {firsts[-1].session_s:.1f} s of start")
    return found


def sent_bytes(cast: Cast, turn: Turn, table: MadeTable) -> dict[Contestant, int]:
    """Bytes that Python workers sent to Spark for a turn's question: how much the second of two queries adds, since
    Spark 4.3 sums this metric over a session's queries of all Python sources."""
    found = {}
    for who in turn.contestants:
        if who in SPARK_FORMATS and who not in (Contestant.HUDI_SPARK, Contestant.SPARK_PARQUET):
            told = request(who, turn.question, table) | {"bytes": True}
            before, after = (int(cast.worker(who).ask(told)["bytes"]) for _ in range(2))
            found[who] = after - before
    return found
