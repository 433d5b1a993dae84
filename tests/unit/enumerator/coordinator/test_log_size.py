"""The log of the state and the memory of the service do not grow with the number of rounds or of restarts."""

from __future__ import annotations

import gc
import itertools
import types
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.coordinator.log_size import COMPACTED_FROM_BYTES, FACTOR, ROW_BYTES, LogSize
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.stored.codec import encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.store.protocol import StoredRecord
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import Overloaded
from penstock.proto.model.groups import Assignments
from tests.memory_store import DirectJournal, MemoryStore
from tests.unit.enumerator.scripted_service import Clock, World

ROUNDS = 900
"""Rounds of a test, about 0.6 KB of records each."""


def bytes_of(store: MemoryStore) -> int:
    """The size of the log in a store."""
    return sum(len(record.payload) + ROW_BYTES for record in store.records())


def run_round(world: World) -> None:
    """The next commit of the table becomes a round, whose splits are finished; then a tick."""
    world.script.newest += 1
    world.clock.now_ms += 1_000
    assert world.service.split_discovery.discover() == 1
    answer = world.request_splits()
    assert isinstance(answer, Assignments)
    world.finish(answer)
    world.service.coordinator.tick()


@pytest.mark.parametrize("rounds_of_a_process", [ROUNDS, 20])
def test_log_does_not_grow_with_rounds(rounds_of_a_process: int) -> None:
    world = World()
    world.script.newest = 0
    sizes: list[int] = []
    for number in range(ROUNDS):
        if number % rounds_of_a_process == 0:
            world.restart()
        run_round(world)
        if number % 30 == 29:
            sizes.append(bytes_of(world.store))
    state = world.service.coordinator.peek(lambda state: [encode_record(record) for record in compacted_records(state)])
    assert max(sizes) < COMPACTED_FROM_BYTES, "a tick compacts a log that is long enough"
    assert any(after < before for before, after in itertools.pairwise(sizes))
    assert sum(len(record.payload) for record in state) < 2_000, "the state is that of one group without open rounds"
    world.restart()
    assert world.summary() == f"running {ROUNDS} {ROUNDS}"


def test_service_keeps_no_objects_of_finished_rounds() -> None:
    world = World()
    world.script.newest = 0
    counted = []
    for number in range(120):
        run_round(world)
        if number in (39, 119):
            counted.append(reachable_objects(world.service))
    first, last = counted
    assert sum(first.values()) > 100 and last - first == Counter(), (last - first).most_common(10)
    kept = world.service.coordinator.__dict__["rounds"] = [object() for _ in range(5)]
    assert sum((reachable_objects(world.service) - last).values()) > len(kept), "an object for each round is counted"


def reachable_objects(root: object) -> Counter[str]:
    """Objects by type that the root refers to, directly or not; no modules, types and functions, and no
    store, nor what they have."""
    seen, todo, counts = {id(root)}, [root], Counter[str]()
    while todo:
        for found in gc.get_referents(todo.pop()):
            is_code = isinstance(found, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType)
            if id(found) not in seen and not is_code and not isinstance(found, MemoryStore):
                seen.add(id(found))
                todo.append(found)
                counts[type(found).__qualname__] += 1
    return counts


def records_of(count: int, size_bytes: int) -> list[StoredRecord]:
    return [StoredRecord("k", 1, bytes(size_bytes - ROW_BYTES)) for _ in range(count)]


def test_short_log_is_not_compacted() -> None:
    log = LogSize()
    log.add(records_of(1, COMPACTED_FROM_BYTES - 1))
    assert not log.is_due
    log.add(records_of(1, ROW_BYTES))
    assert log.is_due and log.size_bytes == COMPACTED_FROM_BYTES - 1 + ROW_BYTES


def test_large_state_is_compacted_when_the_log_is_several_times_as_large() -> None:
    log, state = LogSize(), records_of(10, COMPACTED_FROM_BYTES)
    log.add(state)
    assert log.is_due and not log.replaces(state)
    computed = 0
    for _ in range(29):
        log.add(records_of(1, COMPACTED_FROM_BYTES))
        computed += log.is_due
    assert not computed, "a large state is not encoded again and again"
    log.add(records_of(1, COMPACTED_FROM_BYTES))
    assert log.is_due and log.size_bytes == FACTOR * 10 * COMPACTED_FROM_BYTES and log.replaces(state)
    log.replaced(state)
    assert log.size_bytes == 10 * COMPACTED_FROM_BYTES and not log.is_due


def test_log_that_cannot_be_replaced_now_is_replaced_later() -> None:
    class Busy(DirectJournal):
        is_full = True

        def rewrite(self, records: Sequence[StoredRecord]) -> object:  # type: ignore[override]
            if self.is_full:
                raise Overloaded("full")
            return super().rewrite(records)

    store = MemoryStore()
    log = LogSize(COMPACTED_FROM_BYTES)
    journal = Busy(store)
    coordinator = Coordinator(clock_ms=Clock(), settings=CoordinatorSettings(), journal=journal, log=log)
    with pytest.raises(Overloaded):
        coordinator.tick()
    assert log.is_due and log.size_bytes == COMPACTED_FROM_BYTES
    journal.is_full = False
    coordinator.tick()
    assert not log.is_due and log.size_bytes == bytes_of(store) < 100


def test_compacted_log_uses_the_pages_of_the_old_one(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path)
    try:
        for _ in range(6):
            store.append(records_of(100, 2_000))
            store.rewrite(records_of(1, 2_000))
    finally:
        store.close()
    assert (tmp_path / "penstock.db").stat().st_size < 3 * 100 * 2_000
    store = open_sqlite(tmp_path)
    try:
        assert list(store.records()) == records_of(1, 2_000)
    finally:
        store.close()
