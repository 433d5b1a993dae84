"""One schedule: model table, servers, readers, network and faults, driven by a seed and a simulated clock.

It starts no thread and never sleeps. After the faults, everything must be consumed within a calm period.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.group_lifecycle import needs_discovery
from penstock.enumerator.core.records import GroupKey, Volatile
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import Group
from penstock.proto.errors import PlanError, StorageError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.positions import Position
from penstock.proto.model.queries import Changes, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.streams import EventTimeRule
from tests.memory_store import MemoryStore
from tests.simulation.checkers import CheckFailed, Ledger, fail
from tests.simulation.simulated_discovery import Discovery, DiscoveryRequest, progress_at
from tests.simulation.simulated_faults import happenings
from tests.simulation.simulated_readers import Reader
from tests.simulation.simulated_resets import lost_round, place_to_continue
from tests.simulation.simulated_server import Reply, Rows, Server, round_of
from tests.simulation.simulated_slots import Job
from tests.simulation.simulated_table import LATENESS_US, Table, position

LEASE_MS = 2_500
CALM_MS = 120_000
"""Everything must be consumed within this time after the last fault (liveness)."""

MOST_LINES = 300

FORMATS = tuple(ChangeFormat)


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts that broken cores replace."""

    server: type[Server] = Server
    discovery: type[Discovery] = Discovery


@dataclass(slots=True)
class Outcome:
    """The totals of a schedule."""

    seed: int
    events: int
    faults: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)


class World:
    """The parts and the agenda of one schedule. `decodes`: records pass through the codec on the way to the ledger.
    `takeovers`: so many more servers take the store over than in other schedules."""

    def __init__(self, seed: int, parts: Parts = Parts(), takeovers: int = 0) -> None:
        self.takeovers = takeovers
        self.rng = random.Random(seed)
        rng = self.rng
        self.parts = parts
        self.now = 1_000
        self.jumped = 0
        self.calm = False
        self.decodes = True
        self.events = 0
        self.faults: Counter[str] = Counter()
        self.features: Counter[str] = Counter()
        self.steps: list[tuple[int, str, tuple[Any, ...]]] = []
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._agreed = 0
        self.weights: dict[str, float] = {}
        self.disk_slow_until = 0
        self.phase_ms = rng.randint(4_000, 9_000)
        self.table = Table(rng, rng.choice((1, 2)))
        self.is_changes = rng.random() < 0.6
        self.ledger = Ledger(self.table, self.is_changes)
        self.settings = CoordinatorSettings(
            lease_ms=LEASE_MS,
            retry_ms=250,
            max_pending_splits=rng.choice((2, 6, 1000)),
            max_rounds=rng.choice((1, 3, 20)),
        )
        self.key = GroupKey("t", "g")
        query = Changes(rng.choice(FORMATS)) if self.is_changes else Incremental()
        is_timed = seed % 3 == 0
        self.scope = GroupScope(
            request=PlanRequest(table="t", query=query, event_time="at" if is_timed else ""),
            rule=EventTimeRule(max_out_of_orderness_us=LATENESS_US) if is_timed else None,
            upto=position(self.now + rng.randint(1_000, self.phase_ms)) if rng.random() < 0.1 else None,
            on_lost_range=rng.choice((OnLostRange.FAIL, OnLostRange.EARLIEST)),
        )
        self.limits = RoundLimits(max_commits=rng.choice((0, 0, 1, 2, 3)), max_files=rng.choice((0, 0, 1, 2, 4)))
        self.discovery = parts.discovery()
        self.readers: list[Reader] = []
        self.jobs: list[Job] = []
        self.servers: list[Server] = []
        self.stores = MemoryStore()
        self.start_server(self.stores)

    # --- time and chance

    def later(self, delay_ms: int, do: Callable[[], None]) -> None:
        """Schedules a call; calls due at the same time run in the order of scheduling."""
        self._agreed += 1
        heapq.heappush(self._agenda, (self.now + delay_ms, self._agreed, do))

    def clock(self) -> int:
        """The servers' clock, which may jump."""
        return self.now + self.jumped

    def strikes(self, kind: str, chance: float) -> bool:
        """Whether a fault of the kind happens now, by its weight in the schedule."""
        if self.calm:
            return False
        if kind not in self.weights:
            self.weights[kind] = self.rng.choice((0.3, 1.0, 2.0))
        if self.rng.random() >= chance * self.weights[kind]:
            return False
        self.count(kind)
        return True

    def count(self, kind: str) -> None:
        """Counts a fault."""
        self.faults[kind] += 1
        self.trace("fault", kind)

    def trace(self, what: str, *details: Any) -> None:
        """Records a step for the trace of a failure."""
        if what == "decided":
            self.events += 1
        self.steps.append((self.now, what, details))

    # --- servers

    @property
    def server(self) -> Server:
        """The newest server."""
        return self.servers[-1]

    def start_server(self, store: MemoryStore) -> None:
        """Starts a server on the store."""
        self.trace("server starts", store.epoch)
        server = self.parts.server(self, store)
        self.servers.append(server)
        self.later(self.rng.randint(100, 600), lambda: self._tick(server))
        self.later(self.rng.randint(0, 200), lambda: self._discover_all(server))

    def crash(self, server: Server) -> None:
        """Ends a server; records that waited for the disk are lost. Starts another server if it was the newest."""
        server.alive = False
        self.trace("crash", server.store.epoch)
        if server is self.server:
            self.later(self.rng.randint(20, 1_500), lambda: self._restart(server))

    def _restart(self, server: Server) -> None:
        if server is self.server:
            self.start_server(self.server.store.reopened())
            if self.server.store.epoch > 1:
                self.ledger.check_live(self.server.state)

    def take_over(self) -> None:
        """A second server takes the store over; the first is not notified."""
        if self.server.alive:
            self.count("takeover")
            self.start_server(self.server.store.reopened())

    def disk_ms(self) -> int:
        """The duration of a sync now."""
        return self.rng.randint(200, 900) if self.now < self.disk_slow_until else self.rng.randint(1, 12)

    def _tick(self, server: Server) -> None:
        if not server.alive:
            return
        if server.stands_until > self.now:
            self.later(server.stands_until - self.now, lambda: self._tick(server))
            return
        before, server.ticked_ms = server.ticked_ms, self.clock()
        server.handle(ev.Tick(before), None)
        if self.rng.random() < 0.03:
            server.shorten()
        self.later(600, lambda: self._tick(server))

    # --- network

    def send(self, who: str, event: ev.AnyEvent, reply: Reply, rows: Rows | None) -> None:
        """Sends a call to a live server, mostly the newest; it may be lost, duplicated or delayed, by the weights."""
        servers = [server for server in self.servers[-2:] if server.alive]
        if not servers:
            return
        server = servers[-1] if len(servers) == 1 or self.calm or self.rng.random() < 0.7 else servers[0]
        if self.strikes("message lost", 0.03):
            return
        if server is not self.server:
            self.features["call to a server that lost its store"] += 1
        self._on_its_way(lambda: self._deliver(server, event, reply, rows), "message delayed", 0.03)
        if self.strikes("message doubled", 0.03):
            self.later(self.rng.randint(1, 1_500), lambda: self._deliver_copy(server, event, rows))

    def _deliver_copy(self, server: Server, event: ev.AnyEvent, rows: Rows | None) -> None:
        """Nobody hears the answer. A copy may reach another server than the call, also after a restart."""
        other = not server.alive or self.rng.random() < 0.5
        self._deliver(self.server if other else server, event, lambda answer: None, rows)

    def _on_its_way(self, do: Callable[[], None], kind: str, chance: float) -> None:
        late = self.strikes(kind, chance)
        self.later(self.rng.randint(200, 3_500) if late else self.rng.randint(1, 15), do)

    def _deliver(self, server: Server, event: ev.AnyEvent, reply: Reply, rows: Rows | None) -> None:
        if not server.alive:
            return
        if server.stands_until > self.now:
            self.later(server.stands_until - self.now, lambda: self._deliver(server, event, reply, rows))
            return

        def back(answer: Any) -> None:
            # A server that lost its store answers from memory what needs no write: its errors about plans are stale.
            if server is not self.server and isinstance(answer, PlanError):
                self.features["old news of a server that lost its store"] += 1
                answer = StorageError("a server that does not know yet that it lost its store; nothing was done")
            if self.strikes("reply lost", 0.03):
                return
            self._on_its_way(lambda: reply(answer), "reply delayed", 0.02)
            if self.strikes("reply doubled", 0.02):
                self._on_its_way(lambda: reply(answer), "reply delayed", 0.0)

        if isinstance(event, ev.Join) and event.key not in server.state.groups:
            view = self.table.view()
            progress = progress_at(view, position(view.cleaned))
            create = ev.CreateGroup(key=self.key, scope=self.scope, limits=self.limits, progress=progress)
            server.handle(create, None)
        server.handle(event, back, rows)

    # --- discovery and the operator

    def request_of(self, group: Group) -> DiscoveryRequest:
        """The request for the next round of a group."""
        return DiscoveryRequest(
            key=group.key,
            number=group.number,
            progress=group.progress,
            limits=group.limits,
            upto=group.scope.upto,
            on_lost=group.scope.on_lost_range,
            is_changes=self.is_changes,
            is_timed=group.scope.rule is not None,
        )

    def _discover_all(self, server: Server) -> None:
        if not server.alive:
            return
        group = server.state.groups.get(self.key)
        if group is not None and needs_discovery(group, self.settings):
            self._discover(server, group)
            if self.strikes("discovery concurrent", 0.08):
                requested = self.request_of(group)
                self.later(self.rng.randint(1, 600), lambda: self._discover(server, group, requested))
        elif group is not None and group.stopped is None and not group.ended:
            self.features["back-pressure"] += 1
        if group is not None and group.stopped is not None:
            self.reset(server, place_to_continue(self, group, group.stopped[0]))
        self.later(self.rng.randint(150, 450), lambda: self._discover_all(server))

    def _discover(self, server: Server, group: Group, requested: DiscoveryRequest | None = None) -> None:
        if not server.alive or self.strikes("discovery failed", 0.04):
            return
        requested = requested or self.request_of(group)
        if requested.on_lost is OnLostRange.EARLIEST and group.rounds and self.strikes("planned round cleaned", 0.2):
            lost = lost_round(self, group)
            self._on_its_way(lambda: server.handle(lost, None) if server.alive else None, "discovery delayed", 0.2)
            return
        if requested.on_lost is OnLostRange.EARLIEST and self.strikes("range out of sight", 0.02):
            requested = replace(requested, is_out_of_sight=True)
        discovered = self.discovery.discover(self.table.view(), requested)
        event = discovered.event
        pieces = None
        if isinstance(event, ev.Discovered):
            pieces = (round_of(event), [rows for _, rows in discovered.splits])
            if event.commit_range.upto.index < 2**31 - 1:
                self.features["round ends inside an instant"] += 1

        def deliver() -> None:
            if server.alive and server.stands_until <= self.now:
                server.handle(event, None, None, pieces)

        self._on_its_way(deliver, "discovery delayed", 0.08)
        if self.strikes("discovery doubled", 0.05):
            self.later(self.rng.randint(1, 1_200), deliver)

    def reset(self, server: Server, place: Position) -> None:
        """Resets the group as an operator does."""
        self.features["reset"] += 1
        server.handle(ev.Reset(self.key, progress_at(self.table.view(), place)), None)

    # --- the schedule

    def run(self) -> Outcome:
        """Runs the faults and the calm period, then checks the ledger."""
        happenings(self)
        end_ms = self.now + self.phase_ms
        self._run_until(end_ms, lambda: False)
        self.calm = True
        self.trace("calm")
        self._settle_table()
        for reader in self.readers:
            reader.is_slow = False
        if not any(reader.alive and not reader.is_leaving for reader in self.readers):
            Reader(self, "last")
        if not self._run_until(self.now + CALM_MS, self._is_over):
            group = self.server.state.groups.get(self.key)
            fail("liveness", f"not everything is consumed {CALM_MS} ms after the last fault: {group}")
        self.ledger.check_live(self.server.state)
        self.ledger.check_output()
        self.features["rows after a watermark"] += self.ledger.timed_rows
        self.features.update({f"range {how}": count for how, count in self.ledger.ranges.items()})
        return Outcome(0, self.events, self.faults, self.features)

    def _run_until(self, end_ms: int, is_over: Callable[[], bool]) -> bool:
        discover = self.now
        while self._agenda and self._agenda[0][0] <= end_ms:
            self.now, _, do = heapq.heappop(self._agenda)
            do()
            if self.now >= discover:
                discover = self.now + 400
                if is_over():
                    return True
        self.now = max(self.now, end_ms)
        return False

    def _settle_table(self) -> None:
        for item in list(self.table.pending):
            self.table.complete(item, self.now)
        for item in list(self.table.hidden):
            self.table.show(item)

    def _is_over(self) -> bool:
        server = self.server
        group = server.state.groups.get(self.key)
        if not server.alive or server.waiting or group is None or group.stopped is not None or group.rounds:
            return False
        if not all(job.is_done for job in self.jobs):
            return False
        result = Discovery().discover(self.table.view(), self.request_of(group)).event
        return group.ended or isinstance(result, ev.NothingFound)


def trace_lines(world: World) -> list[str]:
    """The trace, one line per step, without heartbeats."""
    lines = []
    for now, what, details in world.steps:
        if what == "decided" and all(isinstance(record, Volatile) for record in details[1]):
            continue
        lines.append(f"{now} {what} {' '.join(map(str, details))}")
    return lines


def run_schedule(seed: int, parts: Parts = Parts(), takeovers: int = 0) -> Outcome:
    """Runs one schedule. CheckFailed with the seed and the last steps for any failure."""
    world = World(seed, parts, takeovers)
    try:
        outcome = world.run()
    except Exception as error:
        check = error.check if isinstance(error, CheckFailed) else "core failed"
        last = "\n".join(trace_lines(world)[-MOST_LINES:])
        raise CheckFailed(check, f"seed {seed}: {type(error).__name__}: {error}\n{last}") from error
    outcome.seed = seed
    return outcome
