"""A group is caught up with a round after which the table had nothing, unless rows are to come."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from penstock.enumerator.continuous.types import Advance, Following, NextRound, RoundEventTimes
from penstock.enumerator.core.rounds import NO_ROWS
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.proto.model.groups import GroupScope, GroupSpec, NothingYet
from penstock.proto.model.queries import Incremental, PlanRequest
from penstock.proto.model.streams import EventTimeRule
from tests.unit.enumerator.scripted_service import Script, World, spec_of


@dataclass
class LastRounds(Script):
    """A table whose rounds say whether they are the last one, and what comes after them."""

    is_last: bool = True
    times: RoundEventTimes | None = None

    def check_rule(self, path: str, name: str, scope: GroupScope) -> None:
        pass

    def advance(self, path: str, name: str, following: Following) -> Advance:
        item = super().advance(path, name, following)
        return replace(item, is_last=self.is_last, event_times=self.times) if isinstance(item, NextRound) else item


def timed(**more: object) -> GroupSpec:
    """A group with a watermark."""
    request = PlanRequest(table="t", query=Incremental(), event_time="at")
    return GroupSpec(scope=GroupScope(request=request, rule=EventTimeRule(max_out_of_orderness_us=0), **more))  # type: ignore[arg-type]


SPANS = (EventTimeSpan(1, 2), EventTimeSpan(3, 4))
NOTHING, MORE = RoundEventTimes(SPANS, NO_ROWS), RoundEventTimes(SPANS, EventTimeSpan(5, 6))


@pytest.mark.parametrize(
    ("script", "spec", "is_caught_up"),
    [
        (LastRounds(is_settled=True), spec_of(), True),
        (LastRounds(is_settled=True, is_last=False), spec_of(), False),
        (LastRounds(is_settled=True, times=NOTHING), timed(), True),
        (LastRounds(is_settled=True, times=MORE), timed(), False),
        (LastRounds(is_settled=True, times=NOTHING), timed(idle_timeout_us=60_000_000), False),
    ],
    ids=["last", "not last", "nothing to come", "rows to come", "idle timeout"],
)
def test_group_is_caught_up_with_the_last_round_only(script: LastRounds, spec: GroupSpec, is_caught_up: bool) -> None:
    """It is so without another read of the table."""
    world = World(script, spec=spec)
    world.service.split_discovery.discover()
    assert script.discoveries == 1
    world.finish(world.request_splits())  # type: ignore[arg-type]
    answer = world.request_splits()
    assert isinstance(answer, NothingYet) and answer.caught_up is is_caught_up
    world.service.split_discovery.discover()
    assert script.discoveries == (1 if is_caught_up else 2)
    answer = world.request_splits()
    assert isinstance(answer, NothingYet) and answer.caught_up, "in any case after a discovery without a commit"
    script.newest = 2
    world.service.split_discovery.discover()
    assert script.discoveries == (2 if is_caught_up else 3), "the next commit is discovered"
