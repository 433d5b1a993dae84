"""Turns of real readers in separate processes, over a golden table: figures require equal results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench.compared.columns import Column
from bench.compared.contestants import Cast, Contestant, Question
from bench.compared.probes import peaks
from bench.compared.schedule import Turn, play
from bench.compared.tables import BenchTable, PreparedTable

pytestmark = [pytest.mark.golden, pytest.mark.interop]

COLUMNS = (Column("id", "string", ""), Column("p", "string", ""), Column("ts", "long", ""), Column("v", "int", ""))
DELETED = Column("_hoodie_is_deleted", "boolean", "")
PEERS = (Contestant.ARROW, Contestant.HUDI_RS_STREAM, Contestant.HUDI_RS)


@pytest.fixture(scope="module")
def table(golden: Any) -> PreparedTable:
    shape = BenchTable(name="golden", rows=18, updated_rows=0, columns=(*COLUMNS, DELETED))
    path = golden.table("A_merge_event_long_v8_h102")
    return PreparedTable(
        table=shape, path=path, first_requested="", first_completed="", last_requested="", last_completed=""
    )


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    started = Cast([])
    yield started
    started.stop()


def turn(*contestants: Contestant) -> Turn:
    return Turn(key="k", title="t", table="golden", question=Question(), contestants=contestants, warm=1, rounds=2)


def test_turns_measure_every_contestant_in_every_round(cast: Cast, table: PreparedTable) -> None:
    lines: list[str] = []
    outcome = play(cast, turn(*PEERS), table, lines.append)
    assert outcome.rows == 18
    assert all(len(costs) == 3 and all(cost.cpu_s > 0 for cost in costs) for costs in outcome.costs.values())
    assert outcome.costs.keys() == set(PEERS) and len(lines) == 4


def test_turns_with_different_results_fail(cast: Cast, table: PreparedTable) -> None:
    with pytest.raises(AssertionError, match="results differ"):
        play(cast, turn(Contestant.ARROW, Contestant.PYARROW), table, lambda _: None)


def test_peaks_of_fresh_processes(cast: Cast, table: PreparedTable) -> None:
    readers = [(Contestant.ARROW, table), (Contestant.HUDI_RS_STREAM, table)]
    samples = peaks(cast, readers, Question(), table, 1, lambda _: None)
    assert all(len(values) == 1 and values[0].peak_bytes > 1 << 20 for values in samples.values()) and len(samples) == 2


def test_reader_failures_raise_their_error(cast: Cast) -> None:
    worker = cast.worker(Contestant.ARROW)
    with pytest.raises(RuntimeError, match="TableNotFound"):
        worker.ask({"path": "nowhere", "columns": []})
    with pytest.raises(RuntimeError, match="columns"):
        worker.ask({"path": "nowhere"})
