"""The tables of a group over tables, and the ledger of the rows that its members committed.

A commit of a table has a few splits, each of a file group; a row is (commit, file group, number).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from tests.simulation.checkers import fail

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
    """A table: its commits, each with (file group, number of rows) of its splits."""

    name: str
    commits: list[list[tuple[int, int]]] = field(default_factory=list)
    served: bool = True
    fails: bool = False

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


class Ledger:
    """Checks each commit: its rows follow those that are committed, and those of a file group are in order."""

    def __init__(self) -> None:
        self.outputs: dict[str, Output] = {}
        self.least_start: dict[str, int] = {}

    def begin(self, table: str, number: int, position: Position) -> None:
        """The group of the table begins at the position, under a new generation."""
        self.outputs[table] = Output(number, number_at(position))

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
