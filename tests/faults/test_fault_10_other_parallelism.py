"""Fault 10: after a restart the number of readers differs: each pending split has one owner and keeps its order."""

from __future__ import annotations

import random

import pytest

from penstock.proto.model.groups import AssignedSplit, Member
from tests.faults.group_model import CheckedGroup, assigned_splits, is_end
from tests.unit.enumerator.scripted_service import Script, World, at, spec_of

COMMITS, SPLITS = 6, 4


@pytest.mark.parametrize(("before", "after"), [(1, 5), (5, 1), (2, 3), (4, 4)])
@pytest.mark.parametrize("gone", ["left", "expired"])
def test_fault_10_pending_splits_are_read_by_another_number_of_readers(before: int, after: int, gone: str) -> None:
    for seed in range(15):
        chance = random.Random(seed)
        world = World(Script(newest=COMMITS, splits=SPLITS), spec=spec_of(upto=at(COMMITS)))
        world.service.leave_group(world.member)
        checked = CheckedGroup(world)
        first = joined(world, [f"old{n}" for n in range(before)])
        read(checked, first, chance, calls=chance.randrange(12))
        world.restart()
        if gone == "left":
            for member in first:
                world.service.leave_group(member)
        second = joined(world, [f"new{n}" for n in range(after)])
        for _ in range(12):  # the previous readers are silent
            world.clock.now_ms += 5_000
            world.service.coordinator.tick()
            for member in second:
                world.service.heartbeat(member)
        assert set(checked.group.readers) == {member.reader_id for member in second}
        read(checked, second, chance, calls=500)
        checked.check_end(COMMITS, SPLITS)


def joined(world: World, reader_ids: list[str]) -> list[Member]:
    return [
        world.service.join_group("g", reader_id, world.spec, f"{reader_id} joins").member for reader_id in reader_ids
    ]


def read(checked: CheckedGroup, members: list[Member], chance: random.Random, calls: int) -> None:
    """This number of calls of readers, each a request or a commit of held splits, until the group ends."""
    held: dict[Member, list[AssignedSplit]] = {member: [] for member in members}
    sequences = dict.fromkeys(members, 0)
    for _ in range(calls):
        checked.world.service.split_discovery.discover()
        member = chance.choice(members)
        if held[member] and chance.random() < 0.6:
            some = chance.randint(1, len(held[member]))
            checked.finish(member, tuple(held[member][:some]))
            del held[member][:some]
        else:
            sequences[member] += 1
            answer = checked.world.service.request_splits(member, chance.randint(1, 3), sequences[member])
            if is_end(answer):
                return
            held[member] += assigned_splits(answer)
        checked.check_holders()
