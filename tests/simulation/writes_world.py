"""Writers of one table, a server that coordinates them, its log and the table's timeline, with faults.

The core is the real one. A world is a value, and every step of every process gives another: `tests/state_space`
searches all of them in a small scope, `test_writes` follows random schedules in a larger one. A lost request is the
same state as one that is not sent, and answers that arrive twice are dropped. A server carries out one piece of work on
the timeline at a time; a crash may come after the timeline changed, and before the server recorded it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.event import Event
from penstock.enumerator.core.events import Restarted, Tick
from penstock.enumerator.core.records import Durable
from penstock.enumerator.core.results import CoordinatorSettings, Decision
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.core.writes import events as ev
from penstock.enumerator.core.writes.records import WriteRenewed
from penstock.enumerator.core.writes.state import TableWrites, Write
from penstock.proto.errors import Fenced, PenstockError, StorageError, TableError, WriteConflict
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import WriteCommit, WriteId, WriteSpec, WriteState
from tests.simulation import writes_timeline as tl
from tests.simulation.checkers import fail
from tests.simulation.writes_states import check_state, copied_state, form_of
from tests.simulation.writes_timeline import Timeline
from tests.simulation.writes_values import Client, Job, World, Writer
from tests.state_space.search import FAULT, Step

NOW_MS: Final = 1_000_000
SETTINGS: Final = CoordinatorSettings()
FAULTS: Final = ("restart", "answer lost", "request doubled", "lease expired", "clock back", "commit refused")
SPEC: Final = WriteSpec(action="commit")
_EXPECTED: Final = (Fenced, StorageError, WriteConflict)


class WriteWorld:
    """The model: see `search.Model`."""

    def __init__(self, writers: tuple[Writer, ...], faults: frozenset[str], most_faults: int) -> None:
        self.writers, self.kinds, self.most_faults = writers, faults, most_faults
        self.states: list[State] = []
        self._numbers: dict[Any, int] = {}
        self._decided: dict[Any, tuple[int, int, Any]] = {}
        self.of_id = {writer.id: number for number, writer in enumerate(writers)}

    def initial(self) -> World:
        """Nobody has begun."""
        number = self._number(State())
        return World(number, number, number, (Client(),) * len(self.writers))

    def is_goal(self, world: World) -> bool:
        """Whether every writer has an answer or an error, and nothing is left to do."""
        if any(client.stage not in ("done", "gone") for client in world.clients):
            return False
        return not (world.job or tl.pending(world.timeline) or self._live(world) or world.appended != world.synced)

    def steps(self, world: World) -> Iterator[Step[World]]:
        """Every step of every process."""
        for step in self._steps(world):
            if step.state != world:
                self.check(step.state)
                yield step

    def _steps(self, world: World) -> Iterator[Step[World]]:
        for number, client in enumerate(world.clients):
            if client.answer is None and client.stage not in ("done", "gone"):
                called = self._called(world, number, client.stage)
                yield from self._answered(f"writer {number}", called, f"writer {number} calls {client.stage}")
        yield from self._work(world)
        if world.appended != world.synced:
            yield from self._answered("log", world._replace(synced=world.appended), "synced")
        if world.copy is not None:
            copied = self._called(world, *world.copy)
            yield Step("network", "delivers the second copy", copied._replace(clients=world.clients, copy=None))
        for kind in sorted(self.kinds):
            if self.may_happen(world, kind):
                for text, state in self._faults(world, kind):
                    yield Step(FAULT, f"{kind}{text}", state._replace(faults=world.faults | {kind}))

    def may_happen(self, world: World, kind: str) -> bool:
        """Whether a fault of this kind may happen now; schedules override it."""
        return kind not in world.faults and len(world.faults) < self.most_faults

    # --- calls

    def _called(self, world: World, number: int, stage: str) -> World:
        writer, client = self.writers[number], world.clients[number]
        live, appended, answer = self._handle(world.live, world.appended, self.event_of(writer, stage))
        match answer:
            case StorageError():
                return world  # the client calls again
            case PenstockError():
                heard = ("abort" if stage == "lease" and isinstance(answer, WriteConflict) else "gone", 0)
            case Write(state=WriteState.OPEN) if stage == "begin":
                heard = ("lease", int(answer.instant))
            case Write(state=WriteState.COMPLETED):
                heard = ("done", 0)
            case Write():
                return world._replace(live=live, appended=appended)  # the call waits: the client calls again
            case _:
                heard = ({"lease": "commit", "abort": "gone"}[stage], 0)
        clients = _with(world.clients, number, client._replace(answer=heard))
        return world._replace(live=live, appended=appended, clients=clients)

    def event_of(self, writer: Writer, stage: str) -> Event[Any]:
        """The call of a writer."""
        match stage:
            case "begin":
                request_id = f"{writer.owner}/{writer.epoch}"
                return ev.BeginWrite(id=writer.id, request_id=request_id, spec=SPEC)
            case "lease":
                return ev.LeaseGroups(id=writer.id, touched=writer.touched)
            case "commit":
                commit = WriteCommit(metadata=b"", touched=writer.touched, writes_base_files=True)
                return ev.CommitWrite(id=writer.id, commit=commit)
            case _:
                return ev.AbortWrite(id=writer.id)

    def _answered(self, process: str, world: World, text: str) -> Iterator[Step[World]]:
        """The steps after a call or a sync: answers are sent if the log is durable, and one may be lost."""
        waiting = [number for number, client in enumerate(world.clients) if client.answer is not None]
        if not waiting or not self.releases(world.appended == world.synced):
            yield Step(process, text, world)
            return
        yield Step(process, text, self._released(world, waiting))
        if "answer lost" in self.kinds and self.may_happen(world, "answer lost"):
            for lost in waiting:
                clients = _with(world.clients, lost, world.clients[lost]._replace(answer=None))
                state = self._released(world._replace(clients=clients), [each for each in waiting if each != lost])
                faults = world.faults | {"answer lost"}
                yield Step(FAULT, f"{text}, the answer to writer {lost} is lost", state._replace(faults=faults))

    def releases(self, is_durable: bool) -> bool:
        """Whether answers are sent now; broken worlds override it."""
        return is_durable

    def works(self, is_durable: bool) -> bool:
        """Whether the server changes the timeline now; broken worlds override it."""
        return is_durable

    def _released(self, world: World, waiting: list[int]) -> World:
        for number in waiting:
            client = world.clients[number]
            if client.answer is None:
                continue
            stage, instant = client.answer
            durable = self._write(world.synced, self.writers[number].id)
            is_held = durable is not None and (not instant or durable.instant == f"{instant:017d}")
            if stage in ("lease", "commit", "done") and not is_held:
                fail("durable", f"writer {number} receives {client.answer}, and the log has {durable}")
            heard = Client(stage, None, instant or client.instant)
            world = world._replace(clients=_with(world.clients, number, heard))
        return world

    # --- the server's work on the timeline

    def _work(self, world: World) -> Iterator[Step[World]]:
        if world.job is not None:
            yield Step("server", f"records {world.job.kind} of write {world.job.write}", self._recorded(world))
            return
        known = {write.instant for writes in self._tables(world.live) for write in (*writes.live.values(),)}
        for change in tl.pending(world.timeline):
            if f"{change.instant:017d}" not in known:  # of a server that crashed: its heartbeat is not renewed
                timeline = tl.rolled_back(world.timeline, change.write, change.instant)
                yield Step("server", f"rolls back instant {change.instant}", world._replace(timeline=timeline))
        if not self.works(world.appended == world.synced):
            return
        for write in self._live(world):
            number = self.of_id[write.id]
            job = self._job(world, number, write)
            if job is not None:
                yield Step(
                    "server", f"does {job[0].kind} for write {number}", world._replace(job=job[0], timeline=job[1])
                )

    def _job(self, world: World, number: int, write: Write) -> tuple[Job, Timeline] | None:
        instant = int(write.instant or 0)
        match write.state:
            case WriteState.REQUESTED:
                new = tl.newest(world.timeline) + 1
                return Job("begin", number, new), tl.begin(world.timeline, number, new)
            case WriteState.DECIDED:
                return self.completion(world, number, instant)
            case WriteState.FAILED:
                return Job("roll back", number, instant), tl.rolled_back(world.timeline, number, instant)
            case _:
                return None

    def completion(self, world: World, number: int, instant: int) -> tuple[Job, Timeline]:
        """Completes the instant, or recognises that it is complete."""
        match tl.status(world.timeline, instant):
            case "complete":
                return Job("complete", number, instant), world.timeline
            case "begin":
                return Job("complete", number, instant), tl.completed(world.timeline, number, instant)
            case _:
                return Job("refuse", number, instant), world.timeline

    def _recorded(self, world: World) -> World:
        job = world.job
        if job is None:
            return world
        this, instant = self.writers[job.write].id, InstantTime(f"{job.instant:017d}")
        events: dict[str, Event[Any]] = {
            "begin": ev.InstantCreated(id=this, instant=instant, newest_completed="", pending=()),
            "complete": ev.InstantCompleted(id=this, completion=instant),
            "refuse": ev.CommitRefused(id=this, code="WRITE_CONFLICT", text="another writer"),
            "roll back": ev.InstantRolledBack(id=this),
        }
        live, appended, answer = self._handle(world.live, world.appended, events[job.kind])
        timeline = world.timeline
        if job.kind == "begin" and isinstance(answer, PenstockError):
            timeline = tl.rolled_back(timeline, job.write, job.instant)
        return world._replace(live=live, appended=appended, timeline=timeline, job=None)

    # --- faults

    def _faults(self, world: World, kind: str) -> Iterator[tuple[str, World]]:
        match kind:
            case "restart":
                for log in sorted({world.appended, world.synced}):
                    clients = tuple(client._replace(answer=None) for client in world.clients)
                    restarted = self._restarted(log)
                    yield (
                        "",
                        world._replace(live=restarted, appended=log, synced=log, clients=clients, job=None),
                    )
            case "request doubled" if world.copy is None:
                for number, client in enumerate(world.clients):
                    if client.answer is None and client.stage not in ("done", "gone"):
                        yield f" of writer {number}", world._replace(copy=(number, client.stage))
            case "lease expired":
                for write in self._live(world):
                    if write.is_open:
                        yield f" of {write.id}", self._expired(world, write)
            case "clock back" if world.job is None and world.timeline and world.appended == world.synced:
                for write in self._live(world):
                    if write.state is WriteState.REQUESTED:
                        job = Job("begin", self.of_id[write.id], 0)
                        timeline = tl.begin(world.timeline, job.write, 0)
                        yield f" for {write.id}", world._replace(job=job, timeline=timeline)
            case "commit refused" if world.job is None and world.appended == world.synced:
                for write in self._live(world):
                    instant = int(write.instant or 0)
                    if write.state is WriteState.DECIDED and tl.status(world.timeline, instant) == "begin":
                        yield f" of {write.id}", world._replace(job=Job("refuse", self.of_id[write.id], instant))

    def _expired(self, world: World, write: Write) -> World:
        state = copied_state(self.states[world.live])
        apply(state, WriteRenewed(id=write.id, until_ms=0))
        live, appended, _ = self._computed(state, world.appended, Tick(NOW_MS))
        return world._replace(live=live, appended=appended)

    # --- the core

    def decided(self, state: State, event: Event[Any]) -> Decision[Any]:
        """Decides about the event; broken worlds override it."""
        return decide(state, event, NOW_MS, SETTINGS)

    def appends(self, record: Durable) -> bool:
        """Whether the record is appended to the log; broken worlds override it."""
        return True

    def _handle(self, live: int, appended: int, event: Event[Any]) -> tuple[int, int, Any]:
        key = (live, appended, event)
        if key not in self._decided:
            self._decided[key] = self._computed(self.states[live], appended, event)
        return self._decided[key]

    def _computed(self, before: State, appended: int, event: Event[Any]) -> tuple[int, int, Any]:
        try:
            decision = self.decided(before, event)
        except (*_EXPECTED, TableError) as error:
            return self._number(before), appended, error
        state, log = copied_state(before), copied_state(self.states[appended])
        for record in decision.records:
            if isinstance(record, Durable) and self.appends(record):
                decoded = decode_record(encode_record(record))
                if decoded != record:
                    fail("codec", f"{record} came back as {decoded}")
                apply(log, decoded)
            apply(state, record)
        return self._number(state), self._number(log), decision.answer

    def _restarted(self, log: int) -> int:
        state = copied_state(self.states[log])
        for record in self.decided(state, Restarted()).records:
            apply(state, record)
        return self._number(state)

    def _number(self, state: State) -> int:
        form = form_of(state)
        if form not in self._numbers:
            check_state(state)
            fewer = State()
            for record in compacted_records(state):
                apply(fewer, record)
            if form_of(fewer) != form:
                fail("shortened", f"{form} became {form_of(fewer)} by a compaction of the log")
            self._numbers[form] = len(self.states)
            self.states.append(state)
        return self._numbers[form]

    def _tables(self, state: int) -> tuple[TableWrites, ...]:
        return tuple(self.states[state].writes.values())

    def _live(self, world: World) -> list[Write]:
        return [write for writes in self._tables(world.live) for write in writes.live.values()]

    # --- invariants

    def check(self, world: World) -> None:
        """The invariants of a world; `check_state` has those of the server's state."""
        if world.live != world.appended:
            fail("replay", "the state in memory is not that of its records")
        self._check_ends(world)
        groups = tuple(frozenset(writer.groups) for writer in self.writers)
        tl.check_no_lost_update(world.timeline, groups)

    def _check_ends(self, world: World) -> None:
        for change in world.timeline:
            if change.kind != "complete":
                continue
            this = self.writers[change.write].id
            durable = self._write(world.synced, this)
            if durable is None or durable.state not in (WriteState.DECIDED, WriteState.COMPLETED):
                fail("decided first", f"{this} is complete in the timeline, and {durable} in the log")
            live = self._write(world.live, this)
            if live is None or live.end is not None:
                fail("fenced", f"{this} is complete in the timeline, and {live} at the server")
        for number, client in enumerate(world.clients):
            write = self._write(world.live, self.writers[number].id)
            is_complete = any(each.kind == "complete" and each.write == number for each in world.timeline)
            if client.instant and write is not None and write.instant not in ("", f"{client.instant:017d}"):
                fail("same answer", f"writer {number} received instant {client.instant}, and has {write.instant}")
            if client.stage == "done" and not is_complete:
                fail("acknowledged", f"writer {number} was told that its commit is complete")
            if write is not None and write.state is WriteState.COMPLETED and not is_complete:
                fail("acknowledged", f"write {number} counts as complete, and its instant is not")

    def _write(self, state: int, this: WriteId) -> Write | None:
        writes = self.states[state].writes.get("t")
        return None if writes is None else writes.get(this)


def _with(clients: tuple[Client, ...], number: int, client: Client) -> tuple[Client, ...]:
    return (*clients[:number], client, *clients[number + 1 :])
