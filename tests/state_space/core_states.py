"""States of the core as values: copies, and canonical forms that are equal if no later decision can tell two states
apart."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from penstock.enumerator.core import group_lifecycle
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.rounds import Round
from penstock.enumerator.core.state import Group, Reader, State


def copy_of(state: State) -> State:
    """A state that shares nothing that `apply` changes. It has no plans."""
    result = State(last_number=state.last_number, turns=state.turns)
    for key, group in state.groups.items():
        copied = copy.copy(group)
        copied.readers = {name: _copy_of_reader(reader) for name, reader in group.readers.items()}
        copied.rounds = {plan_id: _copy_of_round(each) for plan_id, each in group.rounds.items()}
        result.groups[key] = copied
        result.names.add(copied)
    return result


def _copy_of_reader(reader: Reader) -> Reader:
    copied = copy.copy(reader)
    copied.held, copied.undelivered = dict(reader.held), dict(reader.undelivered)
    return copied


def _copy_of_round(each: Round) -> Round:
    copied = copy.copy(each)
    copied.status = each.status.copy()
    copied.skipped, copied.holders, copied.ordinals = list(each.skipped), dict(each.holders), dict(each.ordinals)
    return copied


def durable_form(state: State) -> tuple[Any, ...]:
    """What the durable records determine. Not: leases, requests that were answered without splits, and the counters
    of one process."""
    return (state.last_number, tuple(_durable_form_of(group) for group in state.groups.values()))


def canonical_form(state: State) -> tuple[Any, ...]:
    """The durable form, and what a process knows beside it. Not: whether a group is caught up, which only answers
    contain. The clock stands still, so leases are all equal."""
    return (
        durable_form(state),
        tuple(
            (
                tuple((reader.heard, reader.until_ms) for reader in _by_name(group)),
                contended_form(group),
            )
            for group in state.groups.values()
        ),
    )


def contended_form(group: Group) -> tuple[bytes, ...]:
    """Which splits of rounds may wait for others. Not for the oldest round, unless it replaces file groups: its splits
    wait for none, and its flags say only which rounds were open when it was planned."""
    rounds = enumerate(group.rounds.values())
    return tuple(each.contended.tobytes() for number, each in rounds if number or each.reshaped)


def _by_name(group: Group) -> list[Reader]:
    return [group.readers[name] for name in sorted(group.readers)]


def _durable_form_of(group: Group) -> tuple[Any, ...]:
    readers = tuple(
        (
            reader.reader_id,
            reader.epoch,
            reader.request_id,
            reader.sequence,
            tuple(item for item in reader.answered if item in reader.held),
            tuple(reader.held),
            tuple(reader.undelivered),
        )
        for reader in _by_name(group)
    )
    rounds = tuple(
        (
            each.plan_id,
            each.status.tobytes(),
            tuple(sorted(each.holders.items())),
            tuple(sorted(each.ordinals.items())),
            tuple(each.pending_in_order()),
        )
        for each in group.rounds.values()
    )
    return (
        group.key,
        group.number,
        group.progress.position,
        group.progress.consumed,
        group.committed,
        group.stopped,
        group.ended,
        group.watermark,
        group.coming,
        readers,
        rounds,
    )


@dataclass(frozen=True, slots=True)
class Names:
    """New names for numbers and ids that the core only compares: the same for all states of a search that refer to each
    other. The order of numbers stays the same."""

    numbers: tuple[tuple[int, int], ...]
    """Epochs and generations, old and new."""
    requests: tuple[tuple[str, int, int], ...]
    """Numbers of requests by reader, old and new."""
    joins: tuple[tuple[str, str, str], ...]
    """Ids of joins by reader, old and new."""


def renamed(state: State, key: GroupKey, names: Names) -> State:
    """The state of one group under other names."""
    numbers = dict(names.numbers)
    requests = {(name, old): new for name, old, new in names.requests}
    joins = {(name, old): new for name, old, new in names.joins}
    result = copy_of(state)
    result.last_number = numbers[state.last_number]
    group = result.groups[key]
    group.number = numbers[group.number]
    ids = {
        plan_id: group_lifecycle.round_id(key, group.number, one.commit_range) for plan_id, one in group.rounds.items()
    }
    group.rounds = {ids[plan_id]: each for plan_id, each in group.rounds.items()}
    for plan_id, each in group.rounds.items():
        each.plan_id = plan_id
    for reader in group.readers.values():
        name = reader.reader_id
        reader.epoch = numbers[reader.epoch]
        reader.request_id = joins[name, reader.request_id]
        reader.sequence, reader.heard = requests[name, reader.sequence], requests[name, reader.heard]
        reader.answered = tuple((ids[place[0]], place[1]) for place in reader.answered if place in reader.held)
        reader.held = {(ids[plan_id], index): None for plan_id, index in reader.held}
        reader.undelivered = {(ids[plan_id], index): None for plan_id, index in reader.undelivered}
    return result


def swapped(state: State, key: GroupKey, names: dict[str, str]) -> State:
    """The state with other names of readers."""
    result = copy_of(state)
    group = result.groups[key]
    for reader in group.readers.values():
        reader.reader_id = names[reader.reader_id]
    group.readers = {reader.reader_id: reader for reader in group.readers.values()}
    for each in group.rounds.values():
        each.holders = {index: names[holder] for index, holder in each.holders.items()}
    return result
