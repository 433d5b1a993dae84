"""The values of a world of writers, their server and the table's timeline (`writes_world`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from penstock.proto.model.writes import TouchedGroups, WriteId
from tests.simulation.writes_timeline import Timeline


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that makes one write."""

    owner: str
    """Its owner."""
    epoch: int
    """Its epoch."""
    groups: str
    """The file groups that it changes, a letter each."""

    @property
    def id(self) -> WriteId:
        """The write."""
        return WriteId("t", self.owner, self.epoch)

    @property
    def touched(self) -> TouchedGroups:
        """What it changes."""
        return TouchedGroups(groups=frozenset(("p", name) for name in self.groups))


class Client(NamedTuple):
    """The state of a writer's process."""

    stage: str = "begin"
    """Its next call: `begin`, `lease`, `commit`, `abort`; `done` after an answered commit, `gone` after an error."""
    answer: tuple[str, int] | None = None
    """The answer that waits for the log: the next stage, and the instant."""
    instant: int = 0
    """The instant that it received."""


class Job(NamedTuple):
    """Work on the timeline that is done, and not recorded by the server."""

    kind: str
    """`begin`, `complete`, `refuse` or `roll back`."""
    write: int
    """The number of the write."""
    instant: int
    """Its instant."""


class World(NamedTuple):
    """A state."""

    live: int
    appended: int
    synced: int
    clients: tuple[Client, ...]
    timeline: Timeline = ()
    job: Job | None = None
    copy: tuple[int, str] | None = None
    """A second copy of a request: its writer and stage."""
    faults: frozenset[str] = frozenset()
