"""A consumer group in memory with a fake clock, and splits whose rows are numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.proto.model.splits import Split
from tests.unit.engine.consumer_factory import ConsumerFactory
from tests.unit.engine.fake_group import FakeClock, FakeGroup, FakeReading, split_of


@pytest.fixture
def clock() -> FakeClock:
    """A fake clock."""
    return FakeClock()


@pytest.fixture
def group(clock: FakeClock) -> FakeGroup:
    """One round: splits a (25 rows), b (0 rows), c (10 rows)."""
    return FakeGroup(clock, {"plan-1": (split_of("a", 25), split_of("b", 0), split_of("c", 10))})


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> FakeReading:
    """Replaces `read_split` in readers of groups."""
    fake = FakeReading()
    monkeypatch.setattr("penstock.engine.group.split_work.read_split", fake.read)
    return fake


@pytest.fixture
def new_split() -> Callable[..., Split]:
    """Creates splits."""
    return lambda name, rows, day=1: replace(split_of(name, rows, day))


@pytest.fixture
def new_consumer(group: FakeGroup, clock: FakeClock, reading: FakeReading) -> ConsumerFactory:
    """Creates consumers of the group."""
    return ConsumerFactory(group, clock)
