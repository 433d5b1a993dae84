"""A group over the core alone, for tests: events in, answers out, with a manual clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.decide import decide
from penstock.enumerator.core.records import UNKNOWN_SPAN, GroupKey
from penstock.enumerator.core.results import CoordinatorSettings, SplitsGranted
from penstock.enumerator.core.split_facts import facts_of, hash_of
from penstock.enumerator.core.state import Group, State, apply
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import EndOfGroup, GroupScope, Member, NothingYet, SplitProgress, SplitRef
from penstock.proto.model.positions import CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Changes, PlanRequest

A = TypeVar("A")
KEY = GroupKey("t", "g")
SCOPE = GroupScope(request=PlanRequest(table="t", query=Changes(ChangeFormat.ROWS)))


def at(number: int) -> Position:
    """The end position of a round by number."""
    return Position(InstantTime(f"{number:06d}"))


@dataclass
class Core:
    """The state of one group, in the core or, if given, in `coordinator`."""

    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    own: State = field(default_factory=State)
    coordinator: Coordinator | None = None
    now_ms: int = 1_000
    rounds: int = 0
    scope: GroupScope = SCOPE

    def __post_init__(self) -> None:
        self.handle(ev.CreateGroup(key=KEY, scope=self.scope, limits=NO_LIMITS, progress=Progress(at(0))))

    def handle(self, event: ev.Event[A]) -> A:
        """Decides about an event and applies its records."""
        if self.coordinator is not None:
            return self.coordinator.handle(event)
        decision = decide(self.own, event, self.now_ms, self.settings)
        for record in decision.records:
            apply(self.own, record)
        return decision.answer

    @property
    def state(self) -> State:
        """The current state."""
        return self.own if self.coordinator is None else self.coordinator.read(lambda state: state)

    @property
    def group(self) -> Group:
        """The group."""
        return self.state.groups[KEY]

    def join(self, reader_id: str, request_id: str = "once") -> Member:
        """Joins a reader; returns its new epoch."""
        answer = self.handle(ev.Join(key=KEY, reader_id=reader_id, scope=self.scope, request_id=request_id))
        return answer.member

    def plan(
        self,
        *groups: tuple[str, str],
        reshaped: tuple[str, ...] = (),
        event_times: Sequence[EventTimeSpan] | None = None,
        coming: EventTimeSpan = UNKNOWN_SPAN,
    ) -> str:
        """Plans a round with a split for each (partition, file group); returns its plan id or None."""
        self.rounds += 1
        result = ev.Discovered(
            key=KEY,
            number=self.group.number,
            start=self.group.progress.position,
            commit_range=CommitRange(self.group.progress.position, at(self.rounds)),
            progress=Progress(at(self.rounds)),
            facts=facts_of(((1, partition, file_group) for partition, file_group in groups), event_times),
            reshaped=frozenset(map(hash_of, reshaped)),
            commits=1,
            coming=coming,
        )
        self.handle(result)
        return next(reversed(self.group.rounds), "")

    def request_splits(
        self, member: Member, sequence: int, most: int = 100
    ) -> list[tuple[str, int]] | NothingYet | EndOfGroup:
        """The splits granted to the member, or the other answer."""
        answer = self.handle(ev.RequestSplits(member, most, sequence))
        return (
            [(reported.plan_id, reported.index) for reported in answer.splits]
            if isinstance(answer, SplitsGranted)
            else answer
        )

    def commit(self, member: Member, *done: tuple[str, int, int], finished: bool = False) -> None:
        """Commits rows up to these ordinals."""
        reported = (
            SplitProgress(ref=SplitRef(plan_id, index), ordinal=ordinal, finished=finished)
            for plan_id, index, ordinal in done
        )
        self.handle(ev.CommitSplits(member, tuple(reported)))
