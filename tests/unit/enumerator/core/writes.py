"""Writes of one table over the core alone, for tests: events in, answers out, with a manual clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.event import Event
from penstock.enumerator.core.events import Restarted, Tick
from penstock.enumerator.core.records import Durable
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.core.writes import events as ev
from penstock.enumerator.core.writes.decide import WriteLimits
from penstock.enumerator.core.writes.state import Write
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.writes import NO_PROGRESS, TouchedGroups, WriteCommit, WriteId, WriteSpec

LEASE_MS = WriteLimits().lease_ms
A = TypeVar("A")
SPEC = WriteSpec(action="commit")
BUCKETS = WriteSpec(action="deltacommit", by_bucket=True)


def write_id(owner: str, epoch: int = 1, table: str = "t") -> WriteId:
    """The id of a write."""
    return WriteId(table, owner, epoch)


def groups(*names: str, inserts: tuple[str, ...] = ()) -> TouchedGroups:
    """File groups of partition p, and partitions with inserts."""
    return TouchedGroups(groups=frozenset(("p", name) for name in names), inserted_into=frozenset(inserts))


@dataclass
class Core:
    """The state, and the log from which a restart restores it."""

    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    state: State = field(default_factory=State)
    log: list[Durable] = field(default_factory=list)
    now_ms: int = 1_000
    instants: int = 0

    def handle(self, event: Event[A]) -> A:
        """Decides about an event and applies its records."""
        decision = decide(self.state, event, self.now_ms, self.settings)
        for record in decision.records:
            if isinstance(record, Durable):
                self.log.append(decode_record(encode_record(record)))
            apply(self.state, record)
        return decision.answer

    def begin(self, owner: str, epoch: int = 1, *, spec: WriteSpec = SPEC, principal: str = "") -> WriteId:
        """A write that has an instant."""
        this = write_id(owner, epoch)
        self.request(this, spec=spec, principal=principal)
        self.give_instant(this)
        return this

    def request(self, this: WriteId, request_id: str = "", spec: WriteSpec = SPEC, principal: str = "") -> Write:
        """Requests a write; its request id is that of its owner and epoch."""
        request_id = request_id or f"{this.owner}/{this.epoch}"
        return self.handle(ev.BeginWrite(id=this, request_id=request_id, spec=spec, principal=principal))

    def give_instant(self, this: WriteId) -> Write:
        """The timeline gives the next instant."""
        self.instants += 1
        instant = InstantTime(f"{self.instants:017d}")
        return self.handle(ev.InstantCreated(id=this, instant=instant, newest_completed="", pending=()))

    def lease(self, this: WriteId, touched: TouchedGroups, principal: str = "") -> None:
        """Takes leases."""
        self.handle(ev.LeaseGroups(id=this, touched=touched, principal=principal))

    def renew(self, this: WriteId) -> None:
        """Renews the lease."""
        self.handle(ev.RenewWrite(id=this, progress=NO_PROGRESS))

    def commit(self, this: WriteId, touched: TouchedGroups, metadata: bytes = b"m") -> Write:
        """Commits; the timeline is not changed yet."""
        commit = WriteCommit(metadata=metadata, touched=touched, writes_base_files=True)
        return self.handle(ev.CommitWrite(id=this, commit=commit))

    def complete(self, this: WriteId) -> None:
        """The timeline has completed the instant."""
        self.handle(ev.InstantCompleted(id=this, completion=InstantTime(f"9{this.epoch:016d}")))

    def refuse(self, this: WriteId, text: str = "conflict") -> None:
        """The timeline refused the commit."""
        self.handle(ev.CommitRefused(id=this, code="WRITE_CONFLICT", text=text))

    def abort(self, this: WriteId) -> None:
        """The writer gives up."""
        self.handle(ev.AbortWrite(id=this))

    def roll_back(self, this: WriteId) -> None:
        """The timeline rolled the instant back."""
        self.handle(ev.InstantRolledBack(id=this))

    def tick(self, after_ms: int) -> None:
        """Time passes, tick by tick."""
        end_ms = self.now_ms + after_ms
        while self.now_ms < end_ms:
            before_ms, self.now_ms = self.now_ms, min(self.now_ms + 1_000, end_ms)
            self.handle(Tick(before_ms))

    def restart(self, *, compacted: bool = False) -> None:
        """A new process restores the state from the log, or from its compaction."""
        records = list(compacted_records(self.state)) if compacted else self.log
        self.state = State()
        for record in records:
            apply(self.state, decode_record(encode_record(record)))
        self.handle(Restarted())

    def of(self, this: WriteId) -> Write:
        """The write."""
        write = self.state.writes[this.table].get(this)
        assert write is not None
        return write
