"""Joins: the lease of the answer, and readers that ask for another read than that of the group."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.queries import Incremental
from penstock.proto.model.streams import EventTimeRule
from tests.unit.enumerator.core.groups import KEY, SCOPE, Core, at

TIMED = replace(SCOPE, request=replace(SCOPE.request, event_time="et"), rule=EventTimeRule(max_out_of_orderness_us=5))


def test_answer_of_a_join_has_the_lease() -> None:
    core = Core(CoordinatorSettings(lease_ms=7_000))
    joined = core.handle(ev.Join(key=KEY, scope=SCOPE, reader_id="r", request_id="j"))
    assert joined.lease_ms == 7_000
    assert (joined.member.table, joined.member.group, joined.member.reader_id) == ("t", "g", "r")


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        (replace(TIMED, upto=at(9)), "upto"),
        (replace(TIMED, on_lost_range=OnLostRange.EARLIEST), "on_lost_range"),
        (replace(TIMED, rule=EventTimeRule(max_out_of_orderness_us=6)), "rule"),
        (replace(TIMED, idle_timeout_us=60), "idle_timeout_us"),
        (replace(TIMED, request=replace(TIMED.request, query=Incremental())), "query"),
    ],
)
def test_reader_with_another_read_is_refused_and_the_difference_is_named(scope: GroupScope, name: str) -> None:
    core = Core(scope=TIMED)
    with pytest.raises(ConfigurationError, match=rf"consumes something else \({name}: the group has [^;]+\)"):
        core.handle(ev.Join(key=KEY, scope=scope, reader_id="r", request_id="j"))
    core.join("r")
