"""Which splits a member gets next: those it held already, then pending ones, the oldest round first. Pure.

The order that readers may rely on: a split waits until every split of an earlier round that may hold rows of the same
keys is done, or is with the same reader. Those are the splits of its own file group; and where an instant replaced
file groups of the partition in between, so that rows may have moved, all splits of the partition.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.state import Group, Reader

MAX_CONSIDERED: Final = 5_000
"""Pending splits looked at for one request. The first pending split of the oldest round waits for nothing but readers,
so passing over the rest for now stops nobody for good."""


def choose(group: Group, reader: Reader, most: int) -> tuple[tuple[str, int], ...]:
    """At most `most` splits for the reader, in the order to be read."""
    told = tuple(reader.untold)[:most]
    chosen: dict[str, set[int]] = defaultdict(set)
    found: list[tuple[str, int]] = []
    considered = 0
    rounds = list(group.rounds.values())
    for place, one in enumerate(rounds):
        for index in one.pending_in_order():
            if len(told) + len(found) >= most or considered >= MAX_CONSIDERED:
                return told + tuple(found)
            considered += 1
            if one.contended[index] and _must_wait(rounds[: place + 1], one, index, reader.reader_id, chosen):
                continue
            chosen[one.plan_id].add(index)
            found.append((one.plan_id, index))
    return told + tuple(found)


def _must_wait(rounds: list[Round], one: Round, index: int, reader_id: str, chosen: dict[str, set[int]]) -> bool:
    lane, partition = int(one.facts.lanes[index]), int(one.facts.partitions[index])
    barrier = max((older.number for older in rounds if partition in older.reshaped), default=0)
    for older in rounds[:-1]:
        mine = chosen.get(older.plan_id, set())
        if older.open_in_lane(lane, reader_id, mine):
            return True
        if older.number <= barrier and older.open_in_partition(partition, reader_id, mine):
            return True
    return False
