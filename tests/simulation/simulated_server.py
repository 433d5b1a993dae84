"""A server as a sequence of steps: decide, apply, append, reply; it can crash between any two of them.

The order of steps is that of `enumerator.coordinator.coordinator` with its journal: records are applied at once and
queued for the disk; an answer waits until all earlier records are durable.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.enumerator.coordinator.coordinator import recovered
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.results import CoordinatorSettings, Decision, Entry, PlanHeld, SplitsGranted
from penstock.enumerator.core.slot_assigner import Assignment
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.proto.errors import Fenced, PenstockError, StorageError, UnknownPlan
from penstock.proto.model.groups import EndOfGroup, Joined, NothingYet
from tests.memory_store import MemoryStore
from tests.simulation.checkers import Place, fail
from tests.simulation.simulated_table import Row

if TYPE_CHECKING:
    from tests.simulation.simulated_world import World

Reply = Callable[[Any], None]
Rows = dict[Place, tuple[int, tuple[Row, ...]]]


@dataclass(slots=True)
class Waiting:
    """An entry of the queue for the disk: records with their event, pieces, plans to drop, and pending replies."""

    records: list[tuple[rec.Durable, StoredRecord, ev.Event[Any], Rows]] = field(default_factory=list)
    pieces: list[PlanPieces] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    replies: list[tuple[Reply, ev.Event[Any], Any]] = field(default_factory=list)


class Server:
    """One server process."""

    def __init__(self, world: World, store: MemoryStore) -> None:
        self.world = world
        self.store = store
        self.alive = True
        self.stands_until = 0
        self.state, orphans = recovered(store)
        self.waiting: list[Waiting] = []
        self.is_syncing = False
        self.ticked_ms = world.clock()
        if orphans:
            self.waiting.append(Waiting(dropped=list(orphans)))
            self._sync_later()
        self.handle(ev.Restarted(), None)

    # --- decide

    def decide(self, event: ev.Event[Any]) -> Decision[Any]:
        """Decides about the event; broken cores override it."""
        settings: CoordinatorSettings = self.world.settings
        return decide(self.state, event, self.world.clock(), settings)

    def handle(
        self,
        event: ev.Event[Any],
        reply: Reply | None,
        rows: Rows | None = None,
        pieces: tuple[str, list[list[Row]]] | None = None,
    ) -> None:
        """Decides, applies the records, and queues them for the disk."""
        try:
            decision = self.decide(event)
        except PenstockError as error:
            self.world.trace("refused", event, error)
            if reply is not None:
                reply(error)
            return
        durable = [record for record in decision.records if isinstance(record, rec.Durable)]
        self.world.trace("decided", event, decision.records)
        if durable:
            batch = Waiting()
            for record in durable:
                stored = encode_record(record)
                if decode_record(stored) != record:
                    fail("codec", f"{record} came back as {decode_record(stored)}")
                batch.records.append((record, stored, event, rows or {}))
            if pieces is not None and any(getattr(record, "plan_id", "") == pieces[0] for record in durable):
                splits = tuple(json.dumps(split).encode() for split in pieces[1])
                batch.pieces.append(PlanPieces(pieces[0], b"", splits))
            self.waiting.append(batch)
        removed = [plan_id for record in decision.records for plan_id in apply(self.state, record)]
        self.applied(event)
        if removed:
            self.waiting.append(Waiting(dropped=removed))
        if reply is not None:
            self.reply_once_durable(reply, event, decision.answer)
        if self.waiting:
            self._sync_later()

    def reply_once_durable(self, reply: Reply, event: ev.Event[Any], answer: Any) -> None:
        """Queues the answer after all earlier records; broken cores override it."""
        if self.waiting:
            self.waiting[-1].replies.append((reply, event, answer))
        else:
            self._record_reply(reply, event, answer)

    def applied(self, event: ev.Event[Any]) -> None:
        """Called after the records of a decision are applied, for servers with further checks."""

    # --- append

    def _sync_later(self) -> None:
        if not self.is_syncing:
            self.is_syncing = True
            self.world.later(self.world.disk_ms(), self._sync)

    def _sync(self) -> None:
        self.is_syncing = False
        if not self.alive or not self.waiting:
            return
        if self.world.strikes("crash before append", 0.008):
            self.world.crash(self)
            return
        batches, self.waiting = self.waiting, []
        try:
            for batch in batches:
                self.store.append([stored for _, stored, _, _ in batch.records], batch.pieces, batch.dropped)
                for record, stored, cause, rows in batch.records:
                    self.world.ledger.take(decode_record(stored) if self.world.decodes else record, cause, rows)
        except Fenced as error:
            self.world.count("fenced server")
            self.alive = False
            for batch in batches:
                for reply, _, _ in batch.replies:
                    reply(StorageError(str(error)))
            return
        if self.world.strikes("crash before reply", 0.008):
            self.world.crash(self)
            return
        for batch in batches:
            for reply, event, answer in batch.replies:
                self._record_reply(reply, event, answer)
        if self.world.rng.random() < 0.04:
            self.world.ledger.check_live(self.state)
        if self.world.strikes("crash after reply", 0.008):
            self.world.crash(self)

    def shorten(self) -> None:
        """Compacts the log if nothing waits for the disk."""
        if self.waiting:
            return
        try:
            self.store.rewrite([encode_record(record) for record in compacted_records(self.state)])
        except Fenced:
            self.world.count("fenced server")
            self.alive = False
            return
        self.world.features["log shortened"] += 1

    # --- reply

    def _record_reply(self, reply: Reply, event: ev.Event[Any], answer: Any) -> None:
        ledger = self.world.ledger
        if isinstance(answer, SplitsGranted | NothingYet | EndOfGroup) and isinstance(event, ev.RequestSplits):
            ledger.announce(answer.watermark_us, event.member, is_newest=self is self.world.server)
        match answer, event:
            case Joined(member=member), _:
                if (member.reader_id, member.epoch) not in ledger.joined:
                    fail("durable", f"{member} was answered and is not durable")
            case SplitsGranted(splits), ev.RequestSplits(member=member):
                for reported in splits:
                    if ((reported.plan_id, reported.index), member.reader_id, member.epoch) not in ledger.assigned:
                        fail("durable", f"{reported} was assigned to {member} and is not durable")
            case None, ev.CommitSplits(done=done):
                for item in done:
                    place = (item.ref.plan_id, item.ref.index)
                    text = place in ledger.done or (not item.finished and ledger.cursors.get(place, 0) >= item.ordinal)
                    if not text and not self._is_forgotten(place):
                        fail("durable", f"the commit of {item} was answered and is not durable")
            case Entry(assignment), ev.NextEntry(plan_id, slot, index):
                reply(self._entry(plan_id, slot, index, assignment))
                return
            case PlanHeld(plan_id=plan_id), _:
                if plan_id not in ledger.plan_ids:
                    fail("durable", f"plan {plan_id} was answered and is not durable")
        if isinstance(answer, SplitsGranted):
            reply((answer, self._content(answer)))
        else:
            reply(answer)

    def _entry(self, plan_id: str, slot: int, index: int, assignment: Assignment) -> Any:
        here, durable = self.state.plans.get(plan_id), self.world.ledger.shadow.plans.get(plan_id)
        if here is None or (durable is None and plan_id in self.world.ledger.plan_ids):
            return UnknownPlan("it was forgotten meanwhile")
        if durable is None or durable.assigner.length(slot) < index or durable.assigner.entry(slot, index) is None:
            fail("durable", f"entry {index} of slot {slot} of {plan_id}: {assignment} was answered and is not durable")
        return assignment

    def _is_forgotten(self, place: Place) -> bool:
        return all(place[0] not in group.rounds for group in self.state.groups.values())

    def _content(self, granted: SplitsGranted) -> dict[Place, list[Row]]:
        result: dict[Place, list[Row]] = {}
        for item in granted.splits:
            try:
                data = self.store.splits(item.plan_id, [item.index])[0]
            except KeyError:
                # another process may have finished the round: then this one's answer is an error
                if self is self.world.server and not self._is_forgotten((item.plan_id, item.index)):
                    fail("durable", f"the split {item} was assigned and its pieces do not exist")
                continue
            result[item.plan_id, item.index] = [tuple(row) for row in json.loads(data)]
        return result


def round_of(event: ev.Discovered) -> str:
    """The plan id of a discovered round."""
    return group_lifecycle.round_id(event.key, event.number, event.commit_range)


__all__ = ["Reply", "Rows", "Server", "State", "round_of"]
