"""The table of the search: two commits, and one that may become visible late between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.enumerator.core.split_facts import SplitFacts, facts_of, hash_of
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.positions import Position
from tests.simulation.simulated_table import position

FIRST: Final = 10
LATE: Final = 15
SECOND: Final = 20


@dataclass(frozen=True, slots=True)
class SplitRows:
    """A split: the rows of a file group in a commit."""

    lane: str
    """Its file group."""
    times: tuple[int, ...]
    """Event times of its rows, microseconds."""
    partition: str = "p"
    """Its partition."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What is searched."""

    name: str
    """Name, for results."""
    commits: dict[int, tuple[SplitRows, ...]]
    """The splits of the instants FIRST, LATE and SECOND."""
    faults: frozenset[str]
    """Kinds of faults; each happens at most once."""
    most_faults: int
    """How many faults happen at most."""
    reshaped: frozenset[int] = frozenset()
    """Instants that replace the file groups of their partitions."""
    is_timed: bool = False
    """Whether the group has a watermark."""
    has_end: bool = False
    """Whether the group ends at SECOND."""
    goes_on_after_loss: bool = False
    """Whether the group has onLostRange=earliest."""
    most_splits: int = 2
    """How many splits a reader requests at a time."""

    def splits(self, instant: int) -> tuple[SplitRows, ...]:
        """The splits of an instant."""
        return self.commits[instant]

    def facts(self, instant: int) -> SplitFacts:
        """The facts of the splits of an instant."""
        splits = self.commits[instant]
        spans = [EventTimeSpan(min(split.times), max(split.times)) for split in splits] if self.is_timed else None
        return facts_of(((len(split.times), split.partition, split.lane) for split in splits), spans)

    def reshaped_by(self, instant: int) -> frozenset[int]:
        """Hashes of the partitions that the instant reshapes."""
        if instant not in self.reshaped:
            return frozenset()
        return frozenset(hash_of(split.partition) for split in self.commits[instant])


def key_of(place: Position) -> int:
    """The order key of a position, as a number."""
    return int(place.order_key)


def place_of(key: int) -> Position:
    """The position after the instant of an order key."""
    return position(key)
