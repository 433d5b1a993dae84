"""The server of the search: `decide` and `apply` of the core, a log that is synced later, restarts from that log.

States of the core are numbered, and each decision is computed once: a state and a call determine everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import group_lifecycle
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.records import UNKNOWN_SPAN, GroupKey
from penstock.enumerator.core.results import Committed, CoordinatorSettings, Decision, SplitsGranted
from penstock.enumerator.core.state import Group, State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.errors import Fenced, LateInstant, PenstockError, UnknownGroup, UnknownSplit
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import (
    EndOfGroup,
    GroupScope,
    Joined,
    Member,
    NothingYet,
    OnLostRange,
    SplitProgress,
    SplitRef,
)
from penstock.proto.model.positions import CommitRange, InstantTime
from penstock.proto.model.queries import Changes, PlanRequest, RoundLimits
from penstock.proto.model.streams import EventTimeRule
from tests.simulation.checkers import fail
from tests.simulation.simulated_table import instant_time
from tests.state_space.core_states import Names, canonical_form, contended_form, copy_of, durable_form, renamed, swapped
from tests.state_space.group_ledger import Ledger, Ref, Shown
from tests.state_space.group_table import SECOND, Scope, key_of, place_of

NOW_MS: Final = 1_000_000
SETTINGS: Final = CoordinatorSettings(lease_ms=10_000)
KEY: Final = GroupKey("t", "g")
READERS: Final = ("r0", "r1")
OTHER: Final = {"r0": "r1", "r1": "r0"}
Call = tuple[Any, ...]
"""('join', request id) | ('ask', epoch, sequence, received) |
('commit', epoch, ((round, index, first, end, finished), ...))."""
Answer = tuple[Any, ...]
"""('joined', epoch) | ('splits', ((round, index, start), ...), watermark) | ('nothing', watermark) |
('end', watermark) | ('committed',) | ('fenced',) | ('unknown split',) | ('stopped',)."""


class Numbers(NamedTuple):
    """Numbers of the states of one server."""

    live: int
    """The state in memory."""
    appended: int
    """The state of all records that were decided, with its ledger."""
    synced: int
    """The state of the records that are durable, with its ledger."""


class Used(NamedTuple):
    """Numbers and ids that a state of the core refers to."""

    numbers: frozenset[int]
    """Epochs and generations."""
    requests: dict[str, frozenset[int]]
    """Numbers of requests, by reader."""
    joins: dict[str, dict[str, None]]
    """Ids of joins, by reader."""


def progress_at(key: int, visible: frozenset[int]) -> Progress:
    """The progress of a group that consumed the visible instants up to an order key."""
    consumed: frozenset[InstantTime] = frozenset(instant_time(each) for each in visible if each <= key)
    return Progress(place_of(key), 2, consumed, frozenset(), "t")


class GroupServer:
    """Servers of one search. Each number stands for one state; equal states have equal numbers."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.lives: list[State] = []
        self.logs: list[tuple[State, Ledger]] = []
        self._live_numbers: dict[Any, int] = {}
        self._log_numbers: dict[Any, int] = {}
        self._used: dict[Numbers, Used] = {}
        self.refs: dict[str, Ref] = {}
        self._ids: dict[Ref, str] = {}
        self._decided: dict[Any, tuple[int, int, Answer]] = {}
        self.group_scope = GroupScope(
            request=PlanRequest(table="t", query=Changes(ChangeFormat.ROWS), event_time="at" if scope.is_timed else ""),
            rule=EventTimeRule(max_out_of_orderness_us=0) if scope.is_timed else None,
            upto=place_of(SECOND) if scope.has_end else None,
            on_lost_range=OnLostRange.EARLIEST if scope.goes_on_after_loss else OnLostRange.FAIL,
        )

    def first(self) -> Numbers:
        """A server with the group, which is durable."""
        live = self._number_live(State())
        log = self._number_log(State(), Ledger())
        create = ev.CreateGroup(
            key=KEY, scope=self.group_scope, limits=RoundLimits(max_commits=1), progress=progress_at(0, frozenset())
        )
        live, log, _ = self._decide(live, log, create)
        return Numbers(live, log, log)

    def group(self, live: int) -> Group:
        """The group."""
        return self.lives[live].groups[KEY]

    def ledger(self, log: int) -> Ledger:
        """The ledger of a log."""
        return self.logs[log][1]

    # --- events

    def call(self, numbers: Numbers, reader: int, call: Call) -> tuple[int, int, Answer]:
        """A call of a reader: the numbers of the live state and of the log after it, and the answer."""
        return self._once((numbers.live, numbers.appended, reader, call), lambda: self._call(numbers, reader, call))

    def _call(self, numbers: Numbers, reader: int, call: Call) -> tuple[int, int, Answer]:
        name = READERS[reader]
        event: ev.AnyEvent
        shown: Shown = {}
        caller = None
        match call:
            case ("join", request_id):
                event = ev.Join(key=KEY, reader_id=name, scope=self.group_scope, request_id=request_id)
            case ("ask", epoch, sequence, received):
                member = Member(KEY.table, KEY.group, name, epoch)
                event = ev.RequestSplits(member, self.scope.most_splits, sequence, received=received)
            case ("commit", epoch, items):
                member, caller = Member(KEY.table, KEY.group, name, epoch), (name, epoch)
                shown = {(ref, index): (first, end) for ref, index, first, end, _ in items}
                done = tuple(
                    SplitProgress(ref=SplitRef(self._id_of(ref), index), ordinal=end, finished=finished)
                    for ref, index, _, end, finished in items
                )
                event = ev.CommitSplits(member, done)
        return self._decide(numbers.live, numbers.appended, event, caller, shown)

    def discovered(self, numbers: Numbers, found: Call) -> tuple[int, int]:
        """The result of a discovery: ('round', number, start, end, visible instants) | ('nothing', number, start) |
        ('late', number, start) | ('lost', number, start, earliest position that can be answered, visible instants,
        range of the lost open round, or (0, 0))."""
        live, log, _ = self._once(
            (numbers.live, numbers.appended, found),
            lambda: self._decide(numbers.live, numbers.appended, self._discovery_event(found)),
        )
        return live, log

    def _discovery_event(self, found: Call) -> ev.AnyEvent:
        kind, number, start = found[:3]
        if kind == "nothing":
            return ev.NothingFound(key=KEY, number=number, start=place_of(start))
        if kind == "late":
            return ev.CannotGoOn(key=KEY, number=number, start=place_of(start), code=LateInstant.code, text="late")
        if kind == "lost":
            to, visible, lost = found[3:]
            plan_id = self._id_of((number, *lost)) if any(lost) else ""
            progress = progress_at(to, visible)
            return ev.RangeLost(key=KEY, number=number, start=place_of(start), progress=progress, plan_id=plan_id)
        end, visible = found[3:]
        times = [time for key in visible if key > end for split in self.scope.splits(key) for time in split.times]
        coming = EventTimeSpan(min(times, default=None), max(times, default=None))
        return ev.Discovered(
            key=KEY,
            number=number,
            start=place_of(start),
            commit_range=CommitRange(place_of(start), place_of(end)),
            progress=progress_at(end, visible),
            facts=self.scope.facts(end),
            reshaped=self.scope.reshaped_by(end),
            commits=1,
            coming=coming if self.scope.is_timed else UNKNOWN_SPAN,
        )

    def reset(self, numbers: Numbers, key: int, visible: frozenset[int]) -> tuple[int, int]:
        """An operator resets the group."""
        event = ev.Reset(KEY, progress_at(key, visible))
        live, log, _ = self._once(
            (numbers.live, numbers.appended, "reset", key, visible),
            lambda: self._decide(numbers.live, numbers.appended, event),
        )
        return live, log

    def expired(self, numbers: Numbers, reader: int) -> tuple[int, int]:
        """The lease of a reader ends; others called in the meantime."""

        def expire() -> tuple[int, int, Answer]:
            state = copy_of(self.lives[numbers.live])
            apply(state, rec.LeaseRenewed(key=KEY, reader_id=READERS[reader], until_ms=NOW_MS))
            return self._decide(self._number_live(state), numbers.appended, ev.Tick(NOW_MS))

        live, log, _ = self._once((numbers.live, numbers.appended, "expired", reader), expire)
        return live, log

    def restarted(self, log: int) -> tuple[int, int]:
        """A process that reads the log of another one."""
        live, log, _ = self._once(
            (log, "restarted"), lambda: self._decide(self._number_live(copy_of(self.logs[log][0])), log, ev.Restarted())
        )
        return live, log

    def renamed(self, numbers: Numbers, names: Names) -> Numbers:
        """The same states under other names."""

        def in_live() -> tuple[int, int, Answer]:
            return self._number_live(renamed(self.lives[numbers.live], KEY, names)), 0, ()

        def in_log(log: int) -> int:
            def rename() -> tuple[int, int, Answer]:
                state, ledger = self.logs[log]
                return 0, self._number_log(renamed(state, KEY, names), ledger.renamed(dict(names.numbers))), ()

            return self._once((log, "log renamed", names), rename)[1]

        live = self._once((numbers.live, "renamed", names), in_live)[0]
        return Numbers(live, in_log(numbers.appended), in_log(numbers.synced))

    def used_by(self, numbers: Numbers) -> Used:
        """Numbers and ids that the three states refer to."""
        used = self._used.get(numbers)
        if used is None:
            states = (self.lives[numbers.live], self.logs[numbers.appended][0], self.logs[numbers.synced][0])
            used = self._used[numbers] = _used_by(states)
        return used

    def swapped(self, numbers: Numbers) -> Numbers:
        """The same states with the names of the two readers exchanged."""

        def in_log(log: int) -> int:
            def swap() -> tuple[int, int, Answer]:
                state, ledger = self.logs[log]
                return 0, self._number_log(swapped(state, KEY, OTHER), ledger.swapped(OTHER)), ()

            return self._once((log, "log swapped"), swap)[1]

        live = self._once(
            (numbers.live, "swapped"), lambda: (self._number_live(swapped(self.lives[numbers.live], KEY, OTHER)), 0, ())
        )[0]
        return Numbers(live, in_log(numbers.appended), in_log(numbers.synced))

    # --- decisions

    def _once(self, key: Any, compute: Callable[[], tuple[int, int, Answer]]) -> tuple[int, int, Answer]:
        result = self._decided.get(key)
        if result is None:
            result = self._decided[key] = compute()
        return result

    def decide(self, state: State, event: ev.AnyEvent) -> Decision[Any]:
        """Decides about the event; broken servers override it."""
        return decide(state, event, NOW_MS, SETTINGS)

    def durable(self, decision: Decision[Any]) -> list[rec.Durable]:
        """The records that are appended to the log; broken servers override it."""
        return [record for record in decision.records if isinstance(record, rec.Durable)]

    def _decide(
        self,
        live: int,
        log: int,
        event: ev.AnyEvent,
        caller: tuple[str, int] | None = None,
        shown: Shown | None = None,
    ) -> tuple[int, int, Answer]:
        try:
            decision = self.decide(self.lives[live], event)
        except PenstockError as error:
            return live, log, _refusal(error)
        state = copy_of(self.lives[live])
        durable, ledger = self.logs[log]
        records = self.durable(decision)
        if records:
            durable = copy_of(durable)
        for record in records:
            decoded = decode_record(encode_record(record))
            if decoded != record:
                fail("codec", f"{record} came back as {decoded}")
            before_us = durable.groups[KEY].watermark.at_us if durable.groups else None
            if isinstance(decoded, rec.RoundPlanned):
                self._note(decoded, ledger)
            if isinstance(event, ev.RangeLost) and isinstance(decoded, rec.GroupMoved):
                ledger.check_loss(key_of(decoded.progress.position), of_round=bool(event.plan_id))
            ledger = ledger.take(self.scope, decoded, self.refs, caller, shown or {})
            apply(durable, decoded)
            group = durable.groups[KEY]
            ledger = ledger.at(key_of(group.committed), key_of(group.progress.position))
            after_us = group.watermark.at_us
            if before_us is not None and (after_us is None or after_us < before_us) and not _is_reset(record):
                fail("watermark", f"went from {before_us} back to {after_us} by {record}")
        for record in decision.records:
            apply(state, record)
        return self._number_live(state), self._number_log(durable, ledger), self._answer(decision.answer)

    def _note(self, record: rec.RoundPlanned, ledger: Ledger) -> None:
        ref = (ledger.generation, key_of(record.commit_range.after), key_of(record.commit_range.upto))
        if self.refs.setdefault(record.plan_id, ref) != ref:
            fail("identity", f"plan id {record.plan_id} stands for {ref} and {self.refs[record.plan_id]}")

    def _id_of(self, ref: Ref) -> str:
        if ref not in self._ids:
            number, after, upto = ref
            commit_range = CommitRange(place_of(after), place_of(upto))
            self._ids[ref] = group_lifecycle.round_id(KEY, number, commit_range)
            self.refs.setdefault(self._ids[ref], ref)
        return self._ids[ref]

    def _number_live(self, state: State) -> int:
        form = canonical_form(state)
        number = self._live_numbers.get(form)
        if number is None:
            number = self._live_numbers[form] = len(self.lives)
            self.lives.append(state)
        return number

    def _number_log(self, state: State, ledger: Ledger) -> int:
        form = (durable_form(state), tuple(map(contended_form, state.groups.values())), ledger)
        number = self._log_numbers.get(form)
        if number is None:
            fewer = State()
            for record in compacted_records(state):
                apply(fewer, record)
            if durable_form(fewer) != durable_form(state):
                fail("shortened", f"{durable_form(state)} became {durable_form(fewer)} by a compaction of the log")
            number = self._log_numbers[form] = len(self.logs)
            self.logs.append((state, ledger))
        return number

    def _answer(self, answer: object) -> Answer:
        match answer:
            case None:
                return ()
            case Joined(member=member):
                return ("joined", member.epoch)
            case SplitsGranted(splits, watermark_us):
                places = tuple((self.refs[each.plan_id], each.index, each.start) for each in splits)
                return ("splits", places, watermark_us)
            case NothingYet(watermark_us=watermark_us):
                return ("nothing", watermark_us)
            case EndOfGroup(watermark_us):
                return ("end", watermark_us)
            case Committed():
                return ("committed",)
        return fail("answer", f"got {answer!r}")

    def check_replay(self, numbers: Numbers) -> None:
        """The state in memory is that of the records."""

        def check() -> tuple[int, int, Answer]:
            live, logged = self.lives[numbers.live], self.logs[numbers.appended][0]
            if durable_form(live) != durable_form(logged):
                fail("replay", f"the state is {durable_form(live)}, its records give {durable_form(logged)}")
            return 0, 0, ()

        self._once((numbers.live, numbers.appended, "replay"), check)


def _is_reset(record: rec.Record) -> bool:
    return isinstance(record, rec.GroupMoved) and record.cause is rec.Moved.RESET


def _used_by(states: Iterable[State]) -> Used:
    numbers = {0}
    requests: dict[str, set[int]] = {name: set() for name in READERS}
    joins: dict[str, dict[str, None]] = {name: {} for name in READERS}
    for state in states:
        group = state.groups[KEY]
        numbers |= {state.last_number, group.number}
        for reader in group.readers.values():
            numbers.add(reader.epoch)
            requests[reader.reader_id] |= {reader.sequence, reader.heard}
            joins[reader.reader_id][reader.request_id] = None
    return Used(frozenset(numbers), {name: frozenset(each) for name, each in requests.items()}, joins)


def _refusal(error: PenstockError) -> Answer:
    match error:
        case Fenced() | UnknownGroup():
            return ("fenced",)
        case UnknownSplit():
            return ("unknown split",)
        case LateInstant():
            return ("stopped",)
    return fail("answer", f"a call was refused: {error!r}")
