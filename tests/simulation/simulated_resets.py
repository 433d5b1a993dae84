"""Where a group of a schedule continues: after its range is lost, and after an operator's reset."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.state import Group
from penstock.proto.model.positions import Position
from tests.simulation.simulated_discovery import progress_at
from tests.simulation.simulated_table import instant_time, position

if TYPE_CHECKING:
    from tests.simulation.simulated_world import World


def lost_round(world: World, group: Group) -> ev.RangeLost:
    """A file of an open round is removed; ranges after some position, maybe before the group's, can be answered."""
    view = world.table.view()
    answered = [view.cleaned, *(item.order_key for item in view.instants if item.order_key > view.cleaned)]
    held = min(view.pending, default=2**60) if view.layout == 1 else 2**60
    place = position(world.rng.choice([key for key in answered if key < held] or [view.cleaned]))
    return ev.RangeLost(
        key=group.key,
        number=group.number,
        start=group.progress.position,
        progress=progress_at(view, place),
        plan_id=world.rng.choice(list(group.rounds)),
    )


def place_to_continue(world: World, group: Group, code: str) -> Position:
    """A position from which a group that stopped with the error code can continue."""
    view = world.table.view()
    known = group.progress.consumed
    present = {instant_time(item.requested) for item in view.instants}
    bad = [item.order_key for item in view.instants if item.is_data and instant_time(item.requested) not in known]
    bad += [item.order_key for item in world.table.every if item.is_removed]
    first = min((key for key in bad if position(key, 1) <= group.progress.position), default=0)
    if code == "POSITION_EXPIRED":
        first = 0
    places = [view.cleaned]
    places += [
        item.order_key
        for item in view.instants
        if view.cleaned < item.order_key < first and instant_time(item.requested) in present
    ]
    return position(world.rng.choice(places))
