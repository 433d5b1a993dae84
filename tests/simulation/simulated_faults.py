"""The events of a schedule: writers and services of the table, faults of readers, servers, clocks and disks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.simulation.simulated_readers import Reader
from tests.simulation.simulated_slots import Job
from tests.simulation.simulated_table import Instant, position

if TYPE_CHECKING:
    from tests.simulation.simulated_world import World


def happenings(world: World) -> None:
    """Adds all events to the agenda of the schedule."""
    rng = world.rng
    for number in range(rng.randint(2, 3)):
        Reader(world, f"r{number}")
    if rng.random() < 0.5:
        world.jobs.append(Job(world))

    def at_some_time(do: Callable[[], None], first: float = 0.0) -> None:
        world.later(rng.randint(int(world.phase_ms * first), world.phase_ms - 1), do)

    for _ in range(rng.randint(4, 10)):
        at_some_time(lambda: _write(world, "commit"))
    for kind, chance in (
        ("compaction", 0.4),
        ("clustering", 0.7),
        ("clustering", 0.4),
        ("replace", 0.7),
        ("replace", 0.3),
    ):
        if rng.random() < chance:
            at_some_time(lambda kind=kind: _write(world, kind), 0.2)
    table_faults: tuple[tuple[Callable[[World], None], float], ...] = (
        (_clean, 0.35),
        (_restore, 0.25),
        (_late, 0.2),
    )
    process_faults: tuple[tuple[Callable[[World], None], float], ...] = (
        (_die, 0.35),
        (_pause, 0.35),
        (_pause, 0.2),
        (_slow, 0.25),
        (_twin, 0.25),
        (_leave, 0.25),
        (_jump, 0.25),
        (_stand, 0.25),
        (_slow_disk, 0.25),
        (_take_over, 0.35),
        (_kill, 0.25),
        (_reset, 0.15),
    )
    for _ in range(world.takeovers):
        at_some_time(lambda: _take_over(world))
    for fault, chance in (*table_faults, *process_faults):
        if rng.random() < chance:
            at_some_time(lambda fault=fault: fault(world), 0.25)


# --- the table


def _write(world: World, kind: str) -> None:
    instant = world.table.begin(world.now, kind)
    if instant is None:
        return
    world.trace("begins", instant)
    world.later(world.rng.randint(5, 2_500 if world.rng.random() < 0.5 else 300), lambda: _end(world, instant))


def _end(world: World, instant: Instant, hide: bool = False) -> None:
    if instant not in world.table.pending:
        return
    if world.strikes("pending instant rolled back", 0.1):
        world.table.roll_back(instant)
        return
    if any(other.requested < instant.requested for other in world.table.pending):
        world.count("completed out of order")
    world.table.complete(instant, world.now, hide)
    world.trace("completes", instant)
    if hide:
        world.later(world.rng.randint(200, 2_500), lambda: _show(world, instant))


def _show(world: World, instant: Instant) -> None:
    if instant in world.table.hidden:
        world.table.show(instant)


def _late(world: World) -> None:
    """An instant that may be late: visible after others that completed later, or requested by a slow clock."""
    table = world.table
    instant = table.begin_skewed(world.now) if table.layout == 1 else table.begin(world.now, "commit")
    if instant is not None:
        world.count("late instant")
        world.later(world.rng.randint(5, 300), lambda: _end(world, instant, hide=table.layout == 2))


def _clean(world: World) -> None:
    if world.table.clean(world.rng.randint(0, 3)):
        world.count("cleaned")
        if world.rng.random() < 0.7 and world.table.archive():
            world.count("archived")


def _restore(world: World) -> None:
    if world.table.restore():
        world.count("consumed instant rolled back")
    elif world.now < world.phase_ms:
        world.later(200, lambda: _restore(world))


# --- readers


def _some(world: World) -> Reader | None:
    alive = [reader for reader in world.readers if reader.alive]
    return world.rng.choice(alive) if alive else None


def _busy(world: World, again: Callable[[World], None]) -> Reader | None:
    """A reader that has committed a part of a split, or any one at the end of the schedule. Tries again if there is
    none now: readers hold splits for a short time."""
    busy = [reader for reader in world.readers if reader.alive and any(held.base > held.start for held in reader.held)]
    if busy or world.now + 100 >= world.phase_ms:
        return world.rng.choice(busy) if busy else _some(world)
    world.later(20, lambda: again(world))
    return None


def _die(world: World) -> None:
    reader = _busy(world, _die)
    if reader is not None:
        world.count("reader died")
        reader.alive = False
        if world.rng.random() < 0.7:
            world.later(world.rng.randint(50, 5_000), lambda: _born(world, reader.reader_id))


def _born(world: World, reader_id: str) -> None:
    Reader(world, reader_id)


def _pause(world: World) -> None:
    reader = _some(world)
    if reader is not None:
        world.count("reader stood still")
        reader.pause(world.rng.randint(500, 6_000))


def _slow(world: World) -> None:
    reader = _some(world)
    if reader is not None:
        world.count("reader slow")
        reader.is_slow = True


def _twin(world: World) -> None:
    reader = _some(world)
    if reader is not None:
        world.count("reader id twice")
        twin = Reader(world, reader.reader_id)
        first, second = (reader, twin) if world.rng.random() < 0.5 else (twin, reader)
        world.later(world.rng.randint(300, 3_000), lambda: _end_twin(first, second))


def _end_twin(first: Reader, second: Reader) -> None:
    """Ends one of two readers with the same id, if both are alive: preferably the one that is leaving."""
    if first.alive and second.alive:
        removed = second if second.is_leaving else first
        removed.alive = False


def _leave(world: World) -> None:
    reader = _busy(world, _leave)
    if reader is not None:
        world.count("reader left")
        reader.is_leaving = True
        if world.rng.random() < 0.5:
            world.later(world.rng.randint(100, 2_000), lambda: _born(world, reader.reader_id))


# --- servers, clocks, disks


def _jump(world: World) -> None:
    world.count("clock jumped")
    world.jumped += world.rng.randint(1_000, 600_000)


def _stand(world: World) -> None:
    if world.server.alive:
        world.count("server stood still")
        world.server.stands_until = world.now + world.rng.randint(1_300, 5_000)


def _slow_disk(world: World) -> None:
    world.count("disk slow")
    world.disk_slow_until = world.now + world.rng.randint(500, 3_000)


def _take_over(world: World) -> None:
    world.take_over()


def _kill(world: World) -> None:
    if world.server.alive:
        world.count("server killed")
        world.crash(world.server)


def _reset(world: World) -> None:
    group = world.server.state.groups.get(world.key)
    if world.server.alive and group is not None:
        world.count("operator reset")
        view = world.table.view()
        places = [view.cleaned, *(item.order_key for item in view.instants if item.order_key > view.cleaned)]
        if view.layout == 1 and view.pending:
            places = [place for place in places if place < min(view.pending)] or [view.cleaned]
        world.reset(world.server, position(world.rng.choice(places)))
