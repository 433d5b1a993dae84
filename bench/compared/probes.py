"""Measurements that need fresh processes: peak memory of a read, and the first query of a Spark session. Also the bytes
that Spark's Python workers send.

Memory is counted in anonymous resident bytes above the baseline after all imports, the loading of kernels and the read
of one small table, so that libraries and compiled code do not count. The absolute peak is recorded too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.compared.contestants import SPARK_FORMATS, Cast, Contestant, Question, request
from bench.compared.processes import anonymous_bytes
from bench.compared.schedule import Turn
from bench.compared.tables import PreparedTable


@dataclass(frozen=True, slots=True)
class Peak:
    """Peak memory of one read in a fresh process."""

    above_bytes: int
    """Bytes above the baseline."""
    peak_bytes: int
    """Absolute peak in bytes."""


@dataclass(frozen=True, slots=True)
class First:
    """Times of a fresh Spark process."""

    session_s: float
    """Seconds until the session was ready."""
    query_s: float
    """Seconds of the first query, from load() on."""


def peak(cast: Cast, contestant: Contestant, question: Question, table: PreparedTable, tiny: PreparedTable) -> Peak:
    """Peak memory of one read in a fresh process."""
    with cast.fresh(contestant) as worker:
        worker.ask(request(contestant, question, tiny))
        before = anonymous_bytes(worker.pid)
        answer, highest = worker.peak_of(lambda: worker.ask(request(contestant, question, table)))
        assert answer["rows"] == table.table.rows, f"{contestant}: {answer['rows']} rows"
        return Peak(highest - before, highest)


def peaks(
    cast: Cast,
    readers: Sequence[tuple[Contestant, PreparedTable]],
    question: Question,
    tiny: PreparedTable,
    rounds: int,
    log: Callable[[str], None],
) -> dict[tuple[Contestant, str], list[Peak]]:
    """Peak memory of each (contestant, table), in `rounds` rounds."""
    samples: dict[tuple[Contestant, str], list[Peak]] = {(who, table.table.name): [] for who, table in readers}
    for _ in range(rounds):
        for who, table in readers:
            sample = peak(cast, who, question, table, tiny)
            samples[who, table.table.name].append(sample)
            columns = f"{len(question.columns) or 'all'} columns"
            log(f"memory: {who}, {table.table.name}, {columns}: {sample.above_bytes >> 20} MiB")
    return samples


def first_queries(
    cast: Cast, table: PreparedTable, rounds: int, log: Callable[[str], None]
) -> dict[Contestant, list[First]]:
    """First queries of fresh sessions, in `rounds` rounds: every row of the table to the `noop` sink. Spark's own scan
    of the base file and a Python source without a table show Spark's share."""
    readers = (Contestant.SPARK, Contestant.HUDI_SPARK, Contestant.SPARK_PARQUET, Contestant.BARE)
    samples: dict[Contestant, list[First]] = {who: [] for who in readers}
    for _ in range(rounds):
        for who, firsts in samples.items():
            with cast.fresh(who) as worker:
                answer = worker.ask(request(who, Question(), table))
                firsts.append(First(worker.started_s, answer["wall_s"]))
            log(f"first query: {who}: {firsts[-1].query_s:.1f} s after {firsts[-1].session_s:.1f} s of start")
    return samples


def sent_bytes(cast: Cast, turn: Turn, table: PreparedTable) -> dict[Contestant, int]:
    """Bytes that Python workers sent to Spark for a turn's question: the increment of the second of two queries,
    because Spark 4.3 sums this metric over all Python sources and queries of a session."""
    added = {}
    for who in turn.contestants:
        if who in SPARK_FORMATS and who not in (Contestant.HUDI_SPARK, Contestant.SPARK_PARQUET):
            query = request(who, turn.question, table) | {"bytes": True}
            before, after = (int(cast.worker(who).ask(query)["bytes"]) for _ in range(2))
            added[who] = after - before
    return added
