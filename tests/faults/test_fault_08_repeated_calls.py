"""Fault 8: repeated, late and reordered calls: each counts once."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from penstock.engine.consumer import Consumer
from penstock.enumerator.server.run import serve
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import Fenced, PenstockError, UnknownSplit
from penstock.proto.model.groups import AssignedSplit, GroupAnswer, Joined, Member
from penstock.proto.model.queries import PlanRequest, Snapshot
from tests.faults.group_model import CheckedGroup, assigned_splits, is_end
from tests.faults.served import CASE, check_changes, drain
from tests.unit.enumerator.scripted_service import Script, World, at, spec_of

COMMITS, SPLITS = 5, 3


@dataclass
class Network:
    """Delivers calls at once and again at any later time, or loses the answer, so that the caller repeats the call."""

    chance: random.Random
    late: deque[Callable[[], object]] = field(default_factory=deque)
    faults: int = 0

    def call(self, call: Callable[[], Any]) -> Any:
        """The first answer that arrives."""
        while True:
            self.deliver_some()
            if self.chance.random() < 0.3:
                self.faults += 1
                self.late.append(call)
            if self.chance.random() < 0.15:  # the request is lost
                self.faults += 1
                continue
            answer = call()
            if self.chance.random() < 0.15:  # the answer is lost
                self.faults += 1
                continue
            return answer

    def deliver_some(self) -> None:
        """Delivers old calls in any order and drops their answers."""
        while self.late and self.chance.random() < 0.4:
            place = self.chance.randrange(len(self.late))
            self.late.rotate(place)
            late = self.late.popleft()
            try:
                late()
            except PenstockError as error:
                assert isinstance(error, Fenced | UnknownSplit), error


@dataclass
class Reader:
    """Joins, requests splits and commits over the network; a run of `steps` ends at any call."""

    name: str
    checked: CheckedGroup
    network: Network
    joins: int = 0
    answered: dict[tuple[Member, int], GroupAnswer] = field(default_factory=dict)

    def steps(self) -> Iterator[bool]:
        """Whether the group has ended; repeatable."""
        while True:
            self.joins += 1
            request_id = f"{self.name}-{self.joins}"
            joined: Joined = self.network.call(
                partial(self.checked.world.service.join_group, "g", self.name, self.checked.world.spec, request_id)
            )
            yield False
            try:
                yield from self._work(joined.member)
            except Fenced:  # a late repetition of its join: it has no effect, and the reader starts again
                continue

    def _work(self, member: Member) -> Iterator[bool]:
        sequence = 0
        while True:
            sequence += 1
            answer = self.network.call(partial(self._ask, member, sequence))
            yield is_end(answer)
            splits: tuple[AssignedSplit, ...] = assigned_splits(answer)
            if splits:
                self.network.call(partial(self.checked.finish, member, splits))
                yield False

    def _ask(self, member: Member, sequence: int) -> GroupAnswer:
        answer = self.checked.world.service.request_splits(member, 2, sequence)
        first = self.answered.setdefault((member, sequence), answer)
        later = {one.ref for one in assigned_splits(answer)}
        assert not assigned_splits(first) or later <= {one.ref for one in assigned_splits(first)}, (
            "the same, less what is done"
        )
        return answer


@pytest.mark.parametrize("first_seed", range(0, 300, 50))
def test_fault_08_calls_repeated_lost_and_reordered_count_once(first_seed: int) -> None:
    faults = 0
    for seed in range(first_seed, first_seed + 50):
        chance = random.Random(seed)
        world = World(Script(newest=COMMITS, splits=SPLITS), spec=spec_of(upto=at(COMMITS)))
        world.service.leave_group(world.member)
        checked, network = CheckedGroup(world), Network(chance)
        running = [Reader(f"r{n}", checked, network).steps() for n in range(1, 4)]
        ended: set[int] = set()
        for _ in range(2_000):
            world.service.split_discovery.discover()
            number = chance.randrange(3)
            if next(running[number]):
                ended.add(number)
            checked.check_holders()
            if len(ended) == 3:
                break
        assert len(ended) == 3, f"{ended} {checked.open_splits()} seed {seed}: no end"
        checked.check_end(COMMITS, SPLITS)
        faults += network.faults
    assert faults > 50 * 3


def test_fault_08_repeated_plan_is_one_plan() -> None:
    world = World(Script(newest=3))
    request = PlanRequest(table="t", query=Snapshot(), slots=2)
    once = world.service.open_plan(request, "x")
    world.script.newest = 9
    assert world.service.open_plan(request, "x") == once
    world.restart()
    assert world.service.open_plan(request, "x") == once
    assert world.service.open_plan(request, "y").plan_id != once.plan_id
    [first, again] = [world.service.next_split(once.plan_id, 0, 0) for _ in range(2)]
    assert first == again


class RepeatingEnumerator:
    """An enumerator that sends every call twice with one request id; both answers must be equal."""

    def __init__(self, client: EnumeratorClient) -> None:
        self._client = client
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)

        def twice(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            answer = call(*arguments, **named)
            assert call(*arguments, **named) == answer, name
            return answer

        return twice


@pytest.mark.golden
def test_fault_08_reader_whose_calls_all_arrive_twice_reads_each_row_once(golden: Any) -> None:
    with serve({"t": str(golden.table(CASE))}, "127.0.0.1:0") as server:
        enumerator = RepeatingEnumerator(EnumeratorClient(server.address))
        with Consumer(
            None, "t", group="g", reader_id="r", query="cdc", cdc_format="hudi", max_splits=2, enumerator=enumerator
        ) as reader:  # type: ignore[arg-type]
            check_changes(golden, drain(reader))
        assert enumerator.calls > 20
        server.stop(0)
