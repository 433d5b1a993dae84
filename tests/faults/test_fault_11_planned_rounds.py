"""Fault 11 at a group: the cleaner deletes files of a planned round; the group follows `onLostRange`.

Hudi wrote the table: five commits, with cleaning after each. The test deletes the files that a cleaner which retains
one commit less would have deleted.
"""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from penstock.engine.arrow import read
from penstock.engine.consumer import Consumer
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.service import EnumeratorService
from penstock.proto.errors import CorruptFile, PositionExpired
from tests.scripted_timeline import ScriptedTimeline
from tests.unit.enumerator.scripted_service import Clock

pytestmark = pytest.mark.golden

CASE = "B_up_cow_cdc_v9"


def consumed(reader: Consumer) -> list[Any]:
    """The rows that the reader gets until no split is left."""
    rows = []
    while (consumed := reader.poll(0)) is not None:
        rows += consumed.batch.to_pylist()
        reader.commit(consumed)
    return rows


def texts(rows: list[Any]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.parametrize(
    ("query", "policy"), [("incremental", "earliest"), ("incremental", "snapshot"), ("cdc", "earliest")]
)
def test_fault_11_group_with_a_cleaned_round_follows_on_lost_range(
    golden: Any, tmp_path: pathlib.Path, query: str, policy: str
) -> None:
    """Rows: every row that can still be read, including the rows of the lost round in their newest state. Changes:
    those of the commits after the lost ones. The group never assigns the same split forever."""
    path = golden.copy(CASE, tmp_path)
    script = ScriptedTimeline(path, tmp_path / "aside")
    begin, lost, later = script.data[-4], script.data[-3], script.data[-2]
    script.remove_after(lost)
    clock = Clock()
    service = EnumeratorService(
        {"t": str(path)},
        clock_ms=clock,
        coordinator=Coordinator(clock_ms=clock, settings=CoordinatorSettings()),
        poll_ms=None,
    )
    options = {"query": query, "after": script.keys[begin], "on_lost_range": policy, "max_splits": 1}

    def reader() -> Consumer:
        return Consumer(None, "t", group="g", reader_id="r", enumerator=service, **options)

    with reader() as first:
        service.split_discovery.discover()
        assert service.list_groups()[0].planned.order_key == script.keys[lost]
        for file in path.rglob(f"*{lost}*"):
            if ".hoodie" not in file.parts:
                file.unlink()
        script.give(*{name.name[:17] for name in script.aside.iterdir()})
        service.split_discovery.discover()
        with pytest.raises((PositionExpired, CorruptFile)):
            first.poll(0)
        clock.now_ms += CoordinatorSettings().lease_ms
        service.split_discovery.discover()
        assert service.list_groups()[0].state == "running"
    with reader() as second:
        received = []
        for _ in range(5):
            service.split_discovery.discover()
            received += consumed(second)
    begins = {"incremental": script.keys[begin], "cdc": script.keys[lost]}
    after = "earliest" if policy == "snapshot" else begins[query]
    expected = read(str(path), query=query, after=after).read_all().to_pylist()
    assert texts(received) == texts(expected) and len(received) > 2
    assert service.list_groups()[0].committed.order_key == script.keys[script.data[-1]] > script.keys[later]
