"""Random histories of a group: order, progress, and a compacted log that gives an equal state."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.rounds import DONE, HELD, PENDING
from penstock.enumerator.core.split_assignment import choose
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import (
    decode_record,
    encode_record,
)
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.proto.errors import PenstockError
from penstock.proto.model.groups import Member
from tests.unit.enumerator.core.groups import KEY, Core, at

READERS = ("one", "two", "three")
rounds = st.tuples(
    st.lists(st.tuples(st.sampled_from("pq"), st.sampled_from("abc")), max_size=4),
    st.frozensets(st.sampled_from("pq"), max_size=1),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("plan"), rounds),
        st.tuples(st.just("request"), st.sampled_from(READERS), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.sampled_from(READERS), st.integers(0, 3), st.booleans()),
        st.tuples(st.just("leave"), st.sampled_from(READERS)),
        st.tuples(st.just("join"), st.sampled_from(READERS)),
        st.tuples(
            st.just("stop"),
        ),
        st.tuples(
            st.just("reset"),
        ),
    ),
    max_size=25,
)

contested = st.lists(
    st.one_of(
        st.tuples(
            st.just("plan"),
            st.tuples(
                st.lists(st.tuples(st.just("p"), st.sampled_from("abc")), min_size=1, max_size=3),
                st.sampled_from([frozenset("p"), frozenset()]),
            ),
        ),
        st.tuples(st.just("request"), st.sampled_from(READERS[:2]), st.just(1)),
        st.tuples(st.just("request"), st.sampled_from(READERS[:2]), st.just(1)),
        st.tuples(st.just("commit"), st.sampled_from(READERS[:2]), st.just(1), st.just(True)),
        st.tuples(st.just("join"), st.sampled_from(READERS[:2])),
    ),
    max_size=12,
)


class History:
    """Runs steps on a core; each reader commits its granted splits in order."""

    def __init__(self) -> None:
        self.core = Core()
        self.members: dict[str, Member] = {}
        self.granted: dict[str, list[tuple[str, int]]] = {}
        self.sequences: dict[str, int] = {}
        self.joins = 0

    def do(self, step: tuple[Any, ...]) -> None:
        """Runs one step; refused steps have no effect."""
        try:
            getattr(self, f"_{step[0]}")(*step[1:])
        except PenstockError:
            self.granted.clear()
            self.members.clear()

    def _plan(self, plan: tuple[list[tuple[str, str]], frozenset[str]]) -> None:
        self.core.plan(*plan[0], reshaped=tuple(plan[1])) if self.core.group.stopped is None else None

    def _join(self, name: str) -> None:
        self.joins += 1
        self.members[name] = self.core.join(name, str(self.joins))
        self.granted[name], self.sequences[name] = [], 0

    def _request(self, name: str, most: int) -> None:
        if name not in self.members:
            self._join(name)
        self.sequences[name] += 1
        answer = self.core.request_splits(self.members[name], self.sequences[name], most)
        self.granted[name] += answer if isinstance(answer, list) else []

    def _commit(self, name: str, most: int, finished: bool) -> None:
        if name in self.members:
            done, self.granted[name] = self.granted[name][:most], self.granted[name][most if finished else 0 :]
            self.core.commit(self.members[name], *((*place, 1) for place in done), finished=finished)

    def _leave(self, name: str) -> None:
        if name in self.members:
            self.core.handle(ev.Leave(self.members.pop(name)))
            self.granted.pop(name)

    def _stop(self) -> None:
        group = self.core.group
        self.core.handle(ev.CannotGoOn(key=KEY, number=group.number, start=group.progress.position, code="X", text="x"))

    def _reset(self) -> None:
        self.core.handle(ev.Reset(KEY, Progress(at(self.core.rounds))))
        self.members.clear()
        self.granted.clear()


@settings(max_examples=150)
@given(steps | contested)
def test_assignments_keep_the_order_of_lanes_and_reshaped_partitions(actions: list[tuple[Any, ...]]) -> None:
    """No split is held while an earlier split of its lane or reshaped partition is open at another reader."""
    history = History()
    for step in actions:
        history.do(step)
        group = history.core.group
        order = list(group.rounds.values())
        for place, one in enumerate(order):
            for index, holder in one.holders.items():
                lane, partition = one.facts.lanes[index], one.facts.partitions[index]
                for before, older in enumerate(order[: place + 1]):
                    moved = any(partition in item.reshaped for item in order[before : place + 1])
                    for other in range(len(older.facts) if older is not one else index):
                        related = (older.facts.lanes[other] == lane and older is not one) or (
                            moved and older.facts.partitions[other] == partition
                        )
                        is_open = older.status[other] == PENDING or (
                            older.status[other] == HELD and older.holders[other] != holder
                        )
                        assert not (related and is_open), (one.plan_id, index, older.plan_id, other)


@settings(max_examples=60)
@given(steps)
def test_group_can_always_progress(actions: list[tuple[Any, ...]]) -> None:
    """A single reader that joins after all others left gets every remaining split."""
    history = History()
    for step in actions:
        history.do(step)
    group = history.core.group
    for reader in list(group.readers.values()):
        history.core.handle(ev.Leave(Member(KEY.table, KEY.group, reader.reader_id, reader.epoch)))
    history.core.join("last")
    chosen = choose(group, group.readers["last"], 1_000)
    assert len(chosen) == sum(int((one.status != DONE).sum()) for one in group.rounds.values())
    assert [place[0] for place in chosen] == sorted((place[0] for place in chosen), key=list(group.rounds).index)


@settings(max_examples=60)
@given(steps)
def test_compacted_log_gives_an_equal_state(actions: list[tuple[Any, ...]]) -> None:
    history = History()
    for step in actions:
        history.do(step)
    state = history.core.state
    fewer = State()
    for record in compacted_records(state):
        apply(fewer, decode_record(encode_record(record)))
    assert durable_facts(fewer) == durable_facts(state)
    assert [encode_record(record) for record in compacted_records(fewer)] == [
        encode_record(record) for record in compacted_records(state)
    ]


def durable_facts(state: State) -> tuple[Any, ...]:
    """The durable part of a state."""
    group = state.groups[KEY]
    return (
        state.last_number,
        (group.number, group.scope, group.limits, group.progress, group.committed, group.stopped, group.ended),
        [
            (
                one.plan_id,
                one.commit_range,
                one.facts,
                one.reshaped,
                one.commits,
                one.status.tolist(),
                one.holders,
                one.ordinals,
                one.done,
                list(one.pending_in_order()),
            )
            for one in group.rounds.values()
        ],
        {
            name: (reader.epoch, reader.request_id, reader.sequence, list(reader.held), list(reader.undelivered))
            for name, reader in group.readers.items()
        },
    )
