"""What a split waits for where an instant of its round, or of an earlier one, replaced file groups."""

from __future__ import annotations

from penstock.enumerator.core.choosing import choose
from penstock.enumerator.core.facts import facts_of, hash_of
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.state import Group, Reader
from penstock.enumerator.watch.values import Progress
from penstock.proto.groups import GroupScope
from penstock.proto.positions import EARLIEST, CommitRange
from penstock.proto.queries import NO_LIMITS, Incremental, PlanRequest

KEY = GroupKey("t", "g")


def group_of(*rounds: tuple[list[tuple[str, str]], set[str]]) -> Group:
    """Rounds of splits (partition, file group) and of partitions in which groups were replaced."""
    scope = GroupScope(request=PlanRequest(table="t", query=Incremental()))
    group = Group(KEY, 1, scope, NO_LIMITS, Progress(EARLIEST), EARLIEST)
    for number, (splits, reshaped) in enumerate(rounds, 1):
        facts = facts_of((1, *split) for split in splits)
        names = frozenset(map(hash_of, reshaped))
        earlier = tuple(group.rounds.values())
        made = Round.of(number, f"r{number}", CommitRange(EARLIEST, EARLIEST), facts, names, 1, earlier)
        group.rounds[made.plan_id] = made
    return group


def chosen(group: Group, reader_id: str) -> list[tuple[str, int]]:
    return list(choose(group, Reader(reader_id, 1, ""), 10))


def test_a_later_round_waits_for_all_of_the_partition_in_the_round_that_replaced_groups() -> None:
    """The old groups' splits of that very round hold what came before the replacement."""
    group = group_of(([("p", "old"), ("q", "old")], {"p"}), ([("p", "new"), ("q", "new")], set()))
    group.rounds["r1"].assign(0, "a")
    group.rounds["r1"].assign(1, "a")
    assert chosen(group, "b") == [("r2", 1)]
    group.rounds["r1"].finish(0)
    assert chosen(group, "b") == [("r2", 0), ("r2", 1)]


def test_the_same_reader_need_not_wait() -> None:
    group = group_of(([("p", "old")], {"p"}), ([("p", "new")], set()))
    group.rounds["r1"].assign(0, "a")
    assert chosen(group, "a") == [("r2", 0)]


def test_splits_of_one_round_do_not_wait_for_each_other() -> None:
    group = group_of(([("p", "old"), ("p", "new")], {"p"}))
    assert chosen(group, "a") == [("r1", 0), ("r1", 1)]
