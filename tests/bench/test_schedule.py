"""Turns of real readers in processes of their own, over a golden table: equal results are what lets a figure be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench.compared.columns import Column
from bench.compared.contestants import Cast, Contestant, Question
from bench.compared.probes import peaks
from bench.compared.schedule import Turn, played
from bench.compared.tables import BenchTable, MadeTable

pytestmark = [pytest.mark.golden, pytest.mark.interop]

COLUMNS = (Column("id", "string", ""), Column("p", "string", ""), Column("ts", "long", ""), Column("v", "int", ""))
DELETED = Column("_hoodie_is_deleted", "boolean", "")
PEERS = (Contestant.ARROW, Contestant.HUDI_RS_STREAM, Contestant.HUDI_RS)


@pytest.fixture(scope="module")
def table(golden: Any) -> MadeTable:
    shape = BenchTable(name="golden", rows=18, updated_rows=0, columns=(*COLUMNS, DELETED))
    path = golden.table("A_merge_event_long_v8_h102")
    return MadeTable(
        table=shape, path=path, first_requested="", first_completed="", last_requested="", last_completed=""
    )


@pytest.fixture(scope="module")
def cast() -> Iterator[Cast]:
    found = Cast([])
    yield found
    found.stop()


def turn(*contestants: Contestant) -> Turn:
    return Turn(key="k", title="t", table="golden", question=Question(), contestants=contestants, warm=1, rounds=2)


def test_a_turn(cast: Cast, table: MadeTable) -> None:
    told: list[str] = []
    outcome = played(cast, turn(*PEERS), table, told.append)
    assert outcome.rows == 18
    assert all(len(costs) == 3 and all(cost.cpu_s > 0 for cost in costs) for costs in outcome.costs.values())
    assert outcome.costs.keys() == set(PEERS) and len(told) == 4


def test_results_that_differ_are_no_figure(cast: Cast, table: MadeTable) -> None:
    with pytest.raises(AssertionError, match="results differ"):
        played(cast, turn(Contestant.ARROW, Contestant.PYARROW), table, lambda _: None)


def test_peaks_of_fresh_processes(cast: Cast, table: MadeTable) -> None:
    asked = [(Contestant.ARROW, table), (Contestant.HUDI_RS_STREAM, table)]
    found = peaks(cast, asked, Question(), table, 1, lambda _: None)
    assert all(len(one) == 1 and one[0].peak_bytes > 1 << 20 for one in found.values()) and len(found) == 2


def test_a_failure_of_a_reader_is_told(cast: Cast) -> None:
    worker = cast.worker(Contestant.ARROW)
    with pytest.raises(RuntimeError, match="TableNotFound"):
        worker.ask({"path": "nowhere", "columns": []})
    with pytest.raises(RuntimeError, match="columns"):
        worker.ask({"path": "nowhere"})
