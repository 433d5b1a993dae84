"""Looking for what is new behind a group's progress: the simulation's own model of `enumerator.watch`, pure.

Limits are counted in the order in which positions move; on layout 1 pending writes hold back what was requested later.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.split_facts import facts_of, hash_of
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import RoundLimits
from tests.simulation.simulated_table import DATA, Group, Instant, Row, View, instant_time, position

Splits = list[tuple[Group, list[Row]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is looked for. `is_out_of_sight`: this look misses a file of the range, which is there."""

    key: GroupKey
    number: int
    progress: Progress
    limits: RoundLimits
    upto: Position | None
    on_lost: OnLostRange
    is_changes: bool
    is_out_of_sight: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What was found, with the splits of a round."""

    event: ev.Discovered | ev.NothingFound | ev.CannotGoOn | ev.RangeLost
    splits: Splits


def progress_at(view: View, place: Position) -> Progress:
    """The progress of one who consumed everything up to there."""
    consumed = frozenset(
        instant_time(item.requested)
        for item in view.instants
        if item.kind in DATA and position(item.order_key, 1) <= place
    )
    return Progress(place, view.layout, consumed, frozenset(), "t")


class Discovery:
    """The looks at a table. Broken ones (test_broken_cores) override a part."""

    def look(self, view: View, asked: Asked) -> Found:
        """What lies behind the progress."""
        start = asked.progress.position
        told = {"key": asked.key, "number": asked.number, "start": start}
        trouble = self._trouble(view, asked)
        if trouble == "POSITION_EXPIRED" and asked.on_lost is OnLostRange.EARLIEST:
            return Found(ev.RangeLost(**told, progress=progress_at(view, position(view.cleaned))), [])
        if trouble:
            return Found(ev.CannotGoOn(**told, code=trouble, text="simulated"), [])
        end, taken = self.end(view, asked)
        if end == start:
            return Found(ev.NothingFound(**told), [])
        splits = _changes(taken, start, end) if asked.is_changes else _latest(view, start, end)
        facts = facts_of((max(1, len(rows)), *group) for group, rows in splits)
        discovered = ev.Discovered(
            **told,
            commit_range=CommitRange(start, end),
            progress=progress_at(view, end),
            facts=facts,
            reshaped=frozenset(hash_of(partition) for partition in _reshaped(view, start, end)),
            commits=len(taken),
        )
        return Found(discovered, splits)

    def horizon(self, view: View) -> int:
        """Instants from this order key on are not looked at yet."""
        return min(view.pending, default=2**60) if view.layout == 1 else 2**60

    def end(self, view: View, asked: Asked) -> tuple[Position, list[Instant]]:
        """Where the round ends, and the data instants that have a part in it."""
        start, limits, horizon = asked.progress.position, asked.limits, self.horizon(view)
        seen = [item for item in view.instants if item.order_key < horizon]
        if asked.upto is not None and any(position(item.order_key) >= asked.upto for item in seen):
            newest = asked.upto
            seen = [item for item in seen if position(item.order_key) <= asked.upto]
        else:
            newest = max((position(item.order_key) for item in seen), default=start)
        end, taken, files = start, list[Instant](), 0
        for item in seen:
            if item.kind not in DATA or position(item.order_key) <= start:
                continue
            if 0 < limits.max_commits <= len(taken):
                return end, taken
            first = True
            for index in range(len(item.stats)):
                if position(item.order_key, index + 1) <= start:
                    continue
                if 0 < limits.max_files <= files:
                    if first or item.kind == "replace":
                        return end, taken
                    return position(item.order_key, index), [*taken, item]
                files, first = files + 1, False
            end = position(item.order_key)
            taken.append(item)
        return max(end, newest), taken

    def _trouble(self, view: View, asked: Asked) -> str:
        start, consumed = asked.progress.position, asked.progress.consumed
        there: set[InstantTime] = set()
        is_late = False
        for item in view.instants:
            requested = instant_time(item.requested)
            there.add(requested)
            if item.kind in DATA and requested not in consumed and position(item.order_key, 1) <= start:
                is_late = True
        if any(requested not in there and int(requested) not in view.archived for requested in consumed):
            return "DATA_INVALIDATED"
        if is_late:
            return "LATE_INSTANT"
        return "POSITION_EXPIRED" if asked.is_out_of_sight or start < position(view.cleaned) else ""


def _changes(taken: list[Instant], start: Position, end: Position) -> Splits:
    found: dict[Group, list[Row]] = {}
    for item in taken:
        for index, stat in enumerate(item.stats):
            if start < position(item.order_key, index + 1) <= end:
                found.setdefault(stat.group, []).extend((key, item.order_key, op) for key, op in stat.rows)
    return sorted(found.items(), key=lambda split: (split[1][-1][1] if split[1] else 0, split[0]))


def _latest(view: View, start: Position, end: Position) -> Splits:
    """A state's rows by the group in which each lies at the end of the range; large groups in two splits."""
    rows: dict[int, tuple[Position, Row]] = {}
    lies: dict[int, Group] = {}
    for item in view.instants:
        if position(item.order_key, 0) < end:
            if not item.is_data or position(item.order_key) <= end:
                lies.update(item.moves)
            for index, stat in enumerate(item.stats if item.kind in DATA else ()):
                place = position(item.order_key, index + 1)
                if place <= end:
                    rows.update((key, (place, (key, item.order_key, op))) for key, op in stat.rows)
                    lies.update((key, stat.group) for key, _ in stat.rows)
    found: dict[Group, list[Row]] = {}
    for key in sorted(rows):
        place, row = rows[key]
        if place > start:
            held = found.setdefault(lies[key], [])
            if row[2] != "d":
                held.append(row)
    splits: Splits = []
    for group, held in sorted(
        found.items(), key=lambda split: (max((row[1] for row in split[1]), default=0), split[0])
    ):
        splits += [(group, held[:2]), (group, held[2:])] if len(held) > 3 else [(group, held)]
    return splits


def _reshaped(view: View, start: Position, end: Position) -> set[str]:
    partitions: set[str] = set()
    made_late: set[Group] = set()
    written: set[Group] = set()
    for item in view.instants:
        inside = start < position(item.order_key) and position(item.order_key, 0) < end
        if inside:
            partitions.update(partition for partition, _ in item.replaced)
            written.update(stat.group for stat in item.stats)
        elif view.layout == 1 and item.kind == "clustering" and position(item.order_key) <= end:
            made_late.update(item.moves.values())
    return partitions | {group[0] for group in made_late & written}
