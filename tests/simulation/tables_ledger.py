"""The tables of a group over tables, and the ledger of the rows that its members committed.

A commit of a table has a few splits, each of a file group; a row is (commit, file group, number).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from tests.simulation.checkers import fail

LATENESS_US: Final = 250
Row = tuple[int, int, int]
Place = tuple[str, int]


def at(number: int) -> Position:
    """The position after a commit by number; 0 is before all."""
    return Position(InstantTime(f"{number:06d}")) if number else EARLIEST


def number_at(position: Position) -> int:
    """The inverse of `at`."""
    return int(position.order_key)


@dataclass(slots=True)
class Table:
    """A table: its commits, each with (file group, number of rows) of its splits; `pace_us` of event time pass from
    one to the next."""

    name: str
    commits: list[list[tuple[int, int]]] = field(default_factory=list)
    served: bool = True
    fails: bool = False
    pace_us: int = 1_000

    def splits(self, after: int, upto: int) -> dict[int, list[Row]]:
        """The rows of the commits after `after` up to `upto` by file group, in the order of the commits."""
        rows: dict[int, list[Row]] = {}
        for number in range(after + 1, upto + 1):
            for file_group, count in self.commits[number - 1]:
                rows.setdefault(file_group, []).extend((number, file_group, row) for row in range(count))
        return rows

    def event_time_us(self, row: Row) -> int:
        """The event time of a row: less than LATENESS_US below the highest one of the commits before it."""
        number, file_group, place = row
        return number * self.pace_us - (number * 17 + file_group * 131 + place * 57) % LATENESS_US

    def span(self, rows: Iterable[Row]) -> EventTimeSpan:
        """The span of the event times of rows. Some rows have no statistics."""
        rows = list(rows)
        times = [self.event_time_us(row) for row in rows]
        if any(number % 13 == 0 and file_group == 3 for number, file_group, _ in rows):
            return EventTimeSpan(is_unbounded=True)
        return EventTimeSpan(min(times, default=None), max(times, default=None))

    def rows(self, after: int, upto: int) -> Counter[Row]:
        """The rows of the commits after `after` up to `upto`."""
        return Counter(
            (number, group, row)
            for number in range(after + 1, upto + 1)
            for group, rows in self.commits[number - 1]
            for row in range(rows)
        )


@dataclass(slots=True)
class Output:
    """Committed rows of a table since its group was created or moved."""

    number: int
    start: int
    rows: Counter[Row] = field(default_factory=Counter)
    last: dict[int, int] = field(default_factory=dict)
    cursors: dict[Place, int] = field(default_factory=dict)
    done: set[Place] = field(default_factory=set)
    announced_us: int | None = None


class Ledger:
    """Checks each commit: its rows follow those that are committed, and those of a file group are in order."""

    def __init__(self) -> None:
        self.outputs: dict[str, Output] = {}
        self.least_start: dict[str, int] = {}

    def begin(self, table: str, number: int, position: Position) -> None:
        """The group of the table begins at the position, under a new generation."""
        self.outputs[table] = Output(number, number_at(position))

    def announce(self, table: str, watermark_us: int | None) -> None:
        """A member received the watermark: rows of the table that are committed later must be above it."""
        output = self.outputs.get(table)
        if output is None or watermark_us is None:
            return
        output.announced_us = watermark_us if output.announced_us is None else max(watermark_us, output.announced_us)

    def check_times(self, table: Table, rows: Iterable[Row]) -> None:
        """The committed rows are above the watermark that was announced before."""
        announced_us = self.outputs[table.name].announced_us
        for row in rows:
            if announced_us is not None and table.event_time_us(row) <= announced_us:
                fail("watermark", f"{table.name}: {row} of {table.event_time_us(row)} came after {announced_us}")

    def show(self, table: str, place: Place, base: int, rows: tuple[Row, ...], *, finished: bool) -> None:
        """A member committed rows of a split, of which `base` rows were committed when it read on."""
        output = self.outputs[table]
        if place in output.done:
            fail("exactly once", f"{table} {place} is finished and was committed again")
        if base != output.cursors.get(place, 0):
            fail("exactly once", f"{table} {place} was read from {base} on, {output.cursors.get(place, 0)} committed")
        output.cursors[place] = base + len(rows)
        if finished:
            output.done.add(place)
        for row in rows:
            if output.last.get(row[1], 0) > row[0]:
                fail("order", f"{table}: {row} after commit {output.last[row[1]]} of that file group")
            output.last[row[1]] = row[0]
            output.rows[row] += 1

    def check(self, table: Table, upto: int) -> None:
        """The rows are those of the table, each once."""
        output = self.outputs[table.name]
        rows = table.rows(output.start, upto)
        if output.rows != rows:
            missing, more = sorted(rows - output.rows), sorted(output.rows - rows)
            fail("exactly once", f"{table.name} from {output.start} to {upto}: missing {missing[:5]}, more {more[:5]}")
