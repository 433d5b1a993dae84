"""One schedule of a group over tables: tables, a server and members, driven by a seed and a simulated clock.

Tables appear, go, return and fail; members die, pause, leave and start again under their id; the server crashes;
messages are lost, doubled and delayed. After the faults, everything that is served must be committed in a calm period.
Half of the groups have a watermark, most of these are aligned (`tables_alignment`), and some groups start with
snapshots of their tables.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import records as rec
from penstock.enumerator.core import split_assignment
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.group_lifecycle import needs_discovery
from penstock.enumerator.core.over_tables import BOUND
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.core.results import CoordinatorSettings, SplitsGranted
from penstock.enumerator.core.split_facts import facts_of
from penstock.enumerator.core.state import Group, Reader, State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.proto.errors import PenstockError, TableError
from penstock.proto.model.groups import Joined, Member
from penstock.proto.model.positions import CommitRange
from penstock.proto.model.queries import NO_LIMITS
from tests.simulation.checkers import CheckFailed, facts_of_state, fail
from tests.simulation.tables_alignment import KEY, SimulatedAlignment, scope_of
from tests.simulation.tables_ledger import Ledger, Row, Table, at, number_at
from tests.simulation.tables_snapshot import before_snapshot, next_of_snapshot, span_after

LEASE_MS: Final = 2_500
CALM_MS: Final = 120_000
Rows = dict[tuple[str, int], tuple[int, tuple[Row, ...]]]
Content = dict[tuple[str, int], tuple[Row, ...]]


class World:
    """The parts and the agenda of one schedule."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.now, self.events, self.calm = 1_000, 0, False
        self.faults: Counter[str] = Counter()
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._agreed = 0
        self.settings = CoordinatorSettings(
            lease_ms=LEASE_MS, retry_ms=250, max_pending_splits=rng.choice((3, 1000)), max_rounds=rng.choice((1, 2, 20))
        )
        self.tables = {name: Table(name) for name in (f"s.{number}" for number in range(rng.randint(2, 7)))}
        self.first = tuple(name for name in sorted(self.tables) if rng.random() < 0.7)
        for name, table in self.tables.items():
            table.served = name in self.first
        self.at_newest = rng.random() < 0.3
        self._choose_times(random.Random(f"event times of {seed}"))
        self.log: list[rec.Durable] = []
        self.content: Content = {}
        self.ledger, self.state, self.ticked_ms = Ledger(), State(), self.now
        self.passed: Counter[str] = Counter()
        self.missed: set[tuple[Member, int]] = set()
        self.is_up = True
        self.readers: list[Any] = []
        self.phase_ms = rng.randint(4_000, 9_000)

    def _choose_times(self, rng: random.Random) -> None:
        for table in self.tables.values():
            table.pace_us = rng.choice((300, 1_000, 6_000))
        is_timed = rng.random() < 0.5
        self.scope = scope_of(is_timed=is_timed, is_aligned=is_timed and rng.random() < 0.8)
        self.at_snapshot = not self.at_newest and rng.random() < 0.4
        self.aligned = SimulatedAlignment(self)

    # --- time and chance

    def later(self, delay_ms: int, do: Callable[[], None]) -> None:
        """Schedules a call; calls due at the same time run in the order of scheduling."""
        self._agreed += 1
        heapq.heappush(self._agenda, (self.now + delay_ms, self._agreed, do))

    def strikes(self, kind: str, chance: float) -> bool:
        """Whether a fault happens now."""
        if self.calm or self.rng.random() >= chance:
            return False
        self.faults[kind] += 1
        return True

    # --- the server

    def served(self) -> tuple[str, ...]:
        """The tables that the server serves now."""
        return tuple(sorted(name for name, table in self.tables.items() if table.served))

    def handle(self, event: ev.Event[Any], rows: Rows | None = None) -> Any:
        """Decides, checks, appends, applies; returns the answer, or the error."""
        self.events += 1
        try:
            decision = decide(self.state, event, self.now, self.settings)
        except PenstockError as error:
            return error
        if isinstance(event, ev.RequestSplits):
            whole = self.state.groups[KEY].readers[event.member.reader_id]
            if event.received != whole.sequence and event.sequence > whole.heard:
                self.faults["answer went to a copy"] += 1
                self.missed.add((event.member, event.sequence))
            self._check_turns(event, decision.records)
            self.aligned.check(event, decision.records, decision.answer)
            self._announce(event, decision.answer)
        self._check_leases(decision.records)
        for record in decision.records:
            if isinstance(record, rec.Durable):
                stored = decode_record(encode_record(record))
                if stored != record:
                    fail("codec", f"{record} came back as {stored}")
                self.log.append(record)
            self._note(record, event, rows or {})
            apply(self.state, record)
        if isinstance(event, ev.Leave):
            self._check_left(event)
        if isinstance(decision.answer, Joined):
            self._check_joined(decision.answer.member)
        self.aligned.handled(event, decision.answer)
        return decision.answer

    def _announce(self, event: ev.RequestSplits, answer: Any) -> None:
        """The member gets the watermark of the table with each split, and the lowest one of all with each answer."""
        for granted in answer.splits if isinstance(answer, SplitsGranted) else ():
            self.ledger.announce(granted.table, granted.watermark_us)
        for table in event.tables:
            group = self.state.groups.get(GroupKey(table, KEY.group))
            if group is not None and group.watermark.at_us is not None:
                self.ledger.announce(table, answer.watermark_us)

    def _check_left(self, event: ev.Leave) -> None:
        for group in self.state.groups.values():
            reader = group.readers.get(event.member.reader_id)
            if reader is not None and reader.request_id == f"{BOUND}{event.member.epoch}":
                fail("left", f"{event.member} left and is a member of {group.key}")

    def _check_joined(self, member: Member) -> None:
        """An earlier process of the member must not commit in a table any more."""
        for group in self.state.groups.values():
            reader = group.readers.get(member.reader_id)
            if group.key != KEY and reader is not None and reader.request_id != f"{BOUND}{member.epoch}":
                fail("epochs", f"{member} joined, and {group.key} knows it as {reader.request_id}")

    def _note(self, record: rec.Record, event: ev.Event[Any], rows: Rows) -> None:
        match record:
            case rec.GroupCreated(key=key) if key != KEY:
                if key.table not in self.first and record.at_newest:
                    fail("position", f"{key} appeared later and starts at the newest instant: its rows are lost")
                if self.at_snapshot != record.at_snapshot:
                    fail("snapshot", f"{key} does not start as the group over tables does")
                if not record.at_newest:
                    self.ledger.begin(key.table, record.number, record.progress.position)
            case rec.GroupMoved(key=key):
                self.ledger.begin(key.table, record.number, record.progress.position)
            case rec.SplitsCommitted(key=key):
                reported = {(plan_id, index): False for plan_id, index, _ in record.ordinals}
                reported.update(dict.fromkeys(record.finished, True))
                for place, read in rows.items():
                    if place in reported:
                        self.ledger.check_times(self.tables[key.table], read[1])
                        self.ledger.show(key.table, place, *read, finished=reported[place])

    def _check_turns(self, event: ev.RequestSplits, records: tuple[rec.Record, ...]) -> None:
        """No table with splits that the member may receive is passed over by more requests than there are tables."""
        served: set[str] = set()
        delivers_again = False
        for record in records:
            if isinstance(record, rec.TurnTaken):
                served.add(record.key.table)
            elif isinstance(record, rec.SplitsAssigned) and record.splits:
                own = self.state.groups[record.key].readers.get(record.reader_id)
                old = {} if own is None else own.held
                served |= {record.key.table} if any(split not in old for split in record.splits) else set()
                delivers_again |= any(split in old for split in record.splits)
        for table in event.tables:
            group = self.state.groups.get(GroupKey(table, KEY.group))
            if table in served or group is None or group.stopped is not None or table in event.without:
                self.passed[table] = 0
            elif served and not delivers_again:  # splits that the member holds already come first
                reader = group.readers.get(event.member.reader_id) or Reader(event.member.reader_id, 0, "")
                is_waiting = bool(split_assignment.choose(group, reader, 1, event.ceilings.get(table)))
                self.passed[table] = self.passed[table] + 1 if is_waiting else 0
            if self.passed[table] > 2 * len(self.tables):
                fail("starved", f"{table} was passed over {self.passed[table]} times")

    def _check_leases(self, records: tuple[rec.Record, ...]) -> None:
        """No split is taken from a member whose lease, as the member counts it, has not ended."""
        for record in records:
            if isinstance(record, rec.ReaderGone) and record.cause is rec.Gone.EXPIRED:
                epoch = self.state.groups[record.key].readers[record.reader_id].epoch
                for reader in self.readers:
                    if reader.holds(record.key, record.reader_id, epoch) and reader.lease_until > self.now:
                        fail("lease", f"{record.key}: {record.reader_id} expired {reader.lease_until - self.now} early")

    def call(self, make: Callable[[], ev.Event[Any]], reply: Callable[[Any], None], rows: Rows | None = None) -> None:
        """Sends a call: it may be lost, doubled or delayed, and so may its answer. `make` is called at the server."""
        if self.strikes("message lost", 0.03):
            return
        copies = 2 if self.strikes("message doubled", 0.03) else 1

        def deliver(answers: bool) -> None:
            if not self.is_up or self.strikes("crash before append", 0.003):
                self._crash()
                return
            answer = self.handle(make(), rows)
            if isinstance(answer, SplitsGranted):
                answer = (answer, {(one.plan_id, one.index): self._rows(one) for one in answer.splits})
            if self.strikes("crash before reply", 0.003):
                self._crash()
            elif answers and not self.strikes("reply lost", 0.03):
                self.later(self._delay_ms(), lambda: reply(answer))

        self.later(self._delay_ms(), lambda: deliver(True))
        if copies == 2:
            self.later(self.rng.randint(20, 1_500), lambda: deliver(False))

    def _rows(self, granted: Any) -> tuple[Row, ...]:
        return self.content[granted.plan_id, granted.index]

    def _delay_ms(self) -> int:
        return self.rng.randint(200, 3_500) if self.strikes("delayed", 0.02) else self.rng.randint(1, 15)

    def _crash(self) -> None:
        if self.is_up:
            self.is_up = False
            self.later(self.rng.randint(20, 1_500), self._restart)

    def _restart(self) -> None:
        state = State()
        records: list[rec.Durable] = self.log
        if self.rng.random() < 0.3:
            records = list(compacted_records(self.state))
            self.faults["log shortened"] += 1
        for record in records:
            apply(state, record)
        if facts_of_state(state) != facts_of_state(self.state):
            fail("replay", "the state after a restart differs")
        self.state, self.is_up, self.log = state, True, list(records)
        self.aligned = SimulatedAlignment(self)
        self.handle(ev.Restarted())

    def tick(self) -> None:
        """Ends leases, plans rounds of served tables, adds tables that members may read; the operator resets."""
        if self.is_up:
            before, self.ticked_ms = self.ticked_ms, self.now
            self.handle(ev.Tick(before))
            for group in [*self.state.groups.values()]:
                self._discover(group)
        self.later(self.rng.randint(150, 400), self.tick)

    def _discover(self, group: Group) -> None:
        table = self.tables.get(group.key.table)
        if table is None or not table.served or self.strikes("discovery failed", 0.05):
            return
        key, position = group.key, group.progress.position
        if group.stopped is not None:
            if not table.fails and (self.calm or self.rng.random() < 0.2):
                self.handle(ev.Reset(key, Progress(at(self.rng.randint(0, number_at(group.committed))))))
            return
        if group.at_newest:
            self.handle(ev.Started(key, group.number, Progress(at(len(table.commits)))))
        elif group.at_snapshot:
            self.faults["snapshot started"] += 1
            self.handle(ev.Started(key, group.number, before_snapshot(table)))
        elif table.fails:
            self.handle(ev.CannotGoOn(key=key, number=group.number, start=position, code=TableError.code, text="bad"))
        elif needs_discovery(group, self.settings):
            self._plan(group, table)

    def _plan(self, group: Group, table: Table) -> None:
        key, start = group.key, group.progress.position
        upto = min(len(table.commits), number_at(start) + self.rng.randint(1, 2))
        if group.progress.snapshot is not None:
            parts, progress, coming = next_of_snapshot(table, group.progress.snapshot, self.rng.randint(1, 2))
        elif upto == number_at(start):
            self.handle(ev.NothingFound(key=key, number=group.number, start=start))
            return
        else:
            parts, progress = list(table.splits(number_at(start), upto).items()), Progress(at(upto))
            coming = span_after(table, upto)
        span, is_timed = CommitRange(start, progress.position), self.scope.rule is not None
        times = [table.span(rows) for _, rows in parts] if is_timed else None
        event = ev.Discovered(
            key=key, number=group.number, start=start, commit_range=span, progress=progress,
            facts=facts_of(((1, "p", f"f{file_group}") for file_group, _ in parts), times), reshaped=frozenset(),
            commits=1, coming=coming if is_timed else rec.UNKNOWN_SPAN,
        )  # fmt: skip
        plan_id = rec_round_id(key, group.number, span)
        self.content.update({(plan_id, index): tuple(rows) for index, (_, rows) in enumerate(parts)})
        self.handle(event)

    # --- the schedule

    def run(self) -> Counter[str]:
        """Runs the faults and the calm period, then checks the ledger. Returns the faults."""
        end_ms = self.now + self.phase_ms
        self.later(1, self.tick)
        self.later(50, self._happen)
        self._run_until(end_ms, lambda: False)
        self.calm = True
        for table in self.tables.values():
            table.fails, table.served = False, table.served or self.rng.random() < 0.8
        if not self._run_until(self.now + CALM_MS, self._is_over):
            fail("liveness", f"not over after {CALM_MS} ms: {list(self._unread())}")
        for name in self.served():
            self.ledger.check(self.tables[name], len(self.tables[name].commits))
        return self.faults

    def _happen(self) -> None:
        table = self.tables[self.rng.choice(sorted(self.tables))]
        if not self.calm:
            groups = self.rng.sample(range(4), self.rng.randint(1, 3))
            table.commits.append([(group, self.rng.randint(1, 4)) for group in groups])
        if self.strikes("table appeared or went", 0.05):
            table.served = not table.served
        if self.strikes("table failed", 0.03):
            table.fails = True
        elif self.rng.random() < 0.2:
            table.fails = False
        if not self.calm:
            self.later(self.rng.randint(30, 200), self._happen)

    def _run_until(self, end_ms: int, is_over: Callable[[], bool]) -> bool:
        check = self.now
        while self._agenda and self._agenda[0][0] <= end_ms:
            self.now, _, do = heapq.heappop(self._agenda)
            do()
            if self.now >= check:
                check = self.now + 400
                if is_over():
                    return True
        return False

    def _unread(self) -> Iterator[str]:
        for name in self.served():
            group = self.state.groups.get(GroupKey(name, KEY.group))
            commits = len(self.tables[name].commits)
            if group is None or group.stopped or group.rounds or number_at(group.progress.position) < commits:
                yield name

    def _is_over(self) -> bool:
        return self.is_up and not any(self._unread())


def rec_round_id(key: GroupKey, number: int, span: CommitRange) -> str:
    """The plan id of a round."""
    from penstock.enumerator.core.group_lifecycle import round_id

    return round_id(key, number, span)


def created(world: World) -> ev.CreateGroup:
    """The creation of the group with the tables that are served first."""
    return ev.CreateGroup(
        key=KEY,
        scope=world.scope,
        limits=NO_LIMITS,
        progress=Progress(at(0)),
        at_newest=world.at_newest,
        at_snapshot=world.at_snapshot,
        tables=world.first,
    )


__all__ = ["KEY", "CheckFailed", "Content", "Rows", "World", "created"]
