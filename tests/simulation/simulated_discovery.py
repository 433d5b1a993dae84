"""Discovers rounds after a group's progress: the simulation's own model of `enumerator.continuous`. Pure.

Limits apply in the order of positions. On layout 1 a pending write limits the range to instants requested before it.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import UNKNOWN_SPAN, GroupKey
from penstock.enumerator.core.split_facts import facts_of, hash_of
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.groups import OnLostRange
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import RoundLimits
from tests.simulation.simulated_table import DATA, Group, Instant, Row, View, instant_time, position, span_of_rows

Splits = list[tuple[Group, list[Row]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryRequest:
    """The group whose round is to be discovered. `is_out_of_sight`: a listing misses an existing file of the range."""

    key: GroupKey
    number: int
    progress: Progress
    limits: RoundLimits
    upto: Position | None
    on_lost: OnLostRange
    is_changes: bool
    is_timed: bool = False
    is_out_of_sight: bool = False


@dataclass(frozen=True, slots=True)
class DiscoveryResult:
    """The event of a discovery, and the splits of its round."""

    event: ev.Discovered | ev.NothingFound | ev.CannotGoOn | ev.RangeLost
    splits: Splits


def progress_at(view: View, place: Position) -> Progress:
    """The progress of a group that consumed everything up to the position."""
    consumed = frozenset(
        instant_time(item.requested)
        for item in view.instants
        if item.kind in DATA and position(item.order_key, 1) <= place
    )
    return Progress(place, view.layout, consumed, frozenset(), "t")


class Discovery:
    """Discovers rounds in a table. Broken variants (test_broken_cores) override a part."""

    def discover(self, view: View, request: DiscoveryRequest) -> DiscoveryResult:
        """The next round after the progress, or the reason that there is none."""
        start = request.progress.position
        identity = {"key": request.key, "number": request.number, "start": start}
        trouble = self._trouble(view, request)
        if trouble == "POSITION_EXPIRED" and request.on_lost is OnLostRange.EARLIEST:
            return DiscoveryResult(ev.RangeLost(**identity, progress=progress_at(view, position(view.cleaned))), [])
        if trouble:
            return DiscoveryResult(ev.CannotGoOn(**identity, code=trouble, text="simulated"), [])
        end, taken = self.end(view, request)
        if end == start:
            return DiscoveryResult(ev.NothingFound(**identity), [])
        splits = _changes(taken, start, end) if request.is_changes else _latest(view, start, end)
        times = [span_of_rows(rows) for _, rows in splits] if request.is_timed else None
        facts = facts_of(((max(1, len(rows)), *group) for group, rows in splits), times)
        discovered = ev.Discovered(
            **identity,
            commit_range=CommitRange(start, end),
            progress=progress_at(view, end),
            facts=facts,
            reshaped=frozenset(hash_of(partition) for partition in _reshaped(view, start, end)),
            commits=len(taken),
            coming=self.coming(view, request, end) if request.is_timed else UNKNOWN_SPAN,
        )
        return DiscoveryResult(discovered, splits)

    def coming(self, view: View, request: DiscoveryRequest, end: Position) -> EventTimeSpan:
        """The span of the rows that known instants wrote after the round."""
        upto, horizon = request.upto, self.horizon(view)
        rows = [
            (key, item.order_key, op)
            for item in view.instants
            if item.is_data and item.order_key < horizon and (upto is None or position(item.order_key, 0) < upto)
            for index, stat in enumerate(item.stats)
            if position(item.order_key, index + 1) > end
            for key, op in stat.rows
        ]
        return span_of_rows(rows)

    def horizon(self, view: View) -> int:
        """The order key from which on instants are not consumed yet."""
        return min(view.pending, default=2**60) if view.layout == 1 else 2**60

    def end(self, view: View, request: DiscoveryRequest) -> tuple[Position, list[Instant]]:
        """The end of the round, and its data instants."""
        start, limits, horizon = request.progress.position, request.limits, self.horizon(view)
        observed = [item for item in view.instants if item.order_key < horizon]
        if request.upto is not None and any(position(item.order_key) >= request.upto for item in observed):
            newest = request.upto
            observed = [item for item in observed if position(item.order_key) <= request.upto]
        else:
            newest = max((position(item.order_key) for item in observed), default=start)
        end, taken, files = start, list[Instant](), 0
        for item in observed:
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

    def _trouble(self, view: View, request: DiscoveryRequest) -> str:
        start, consumed = request.progress.position, request.progress.consumed
        present: set[InstantTime] = set()
        is_late = False
        for item in view.instants:
            requested = instant_time(item.requested)
            present.add(requested)
            if item.kind in DATA and requested not in consumed and position(item.order_key, 1) <= start:
                is_late = True
        if any(requested not in present and int(requested) not in view.archived for requested in consumed):
            return "DATA_INVALIDATED"
        if is_late:
            return "LATE_INSTANT"
        return "POSITION_EXPIRED" if request.is_out_of_sight or start < position(view.cleaned) else ""


def _changes(taken: list[Instant], start: Position, end: Position) -> Splits:
    result: dict[Group, list[Row]] = {}
    for item in taken:
        for index, stat in enumerate(item.stats):
            if start < position(item.order_key, index + 1) <= end:
                result.setdefault(stat.group, []).extend((key, item.order_key, op) for key, op in stat.rows)
    return sorted(result.items(), key=lambda split: (split[1][-1][1] if split[1] else 0, split[0]))


def _latest(view: View, start: Position, end: Position) -> Splits:
    """The rows of a state by their file group at the end of the range; a large group becomes two splits."""
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
    result: dict[Group, list[Row]] = {}
    for key in sorted(rows):
        place, row = rows[key]
        if place > start:
            held = result.setdefault(lies[key], [])
            if row[2] != "d":
                held.append(row)
    splits: Splits = []
    for group, held in sorted(
        result.items(), key=lambda split: (max((row[1] for row in split[1]), default=0), split[0])
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
