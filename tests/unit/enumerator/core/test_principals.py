"""Members are bound to their principal and plans to the content of their request, also after a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import Durable, PlanOpened, PlanQuery, QueryKind, ReaderJoined
from penstock.enumerator.core.split_facts import sizes_alone
from penstock.enumerator.core.state import State, apply
from penstock.enumerator.core.stored.codec import decode_record, encode_record
from penstock.enumerator.core.stored.log_compaction import compacted_records
from penstock.proto.errors import Fenced, PermissionDenied, RequestIdReused
from penstock.proto.model.groups import Joined, Member
from tests.unit.enumerator.core.groups import KEY, SCOPE, Core


def join(core: Core, principal: str, request_id: str = "once") -> Member:
    """Joins the reader `r` as this principal; its later calls have the same principal."""
    answer = core.handle(ev.Join(key=KEY, reader_id="r", scope=SCOPE, request_id=request_id, principal=principal))
    assert isinstance(answer, Joined)
    return replace(answer.member, principal=principal)


def stored(record: Durable) -> Durable:
    """The record after a round trip through the store."""
    return decode_record(encode_record(record))


def restarted(core: Core) -> Core:
    """The core, restored from the records of a store."""
    state = State()
    for record in compacted_records(core.state):
        apply(state, stored(record))
    again = Core(core.settings)
    again.own = state
    return again


def opened(request_id: str, digest: str, plan_id: str = "p") -> ev.OpenPlan:
    """A plan of two splits."""
    facts = sizes_alone([1, 2])
    return ev.OpenPlan(
        plan_id=plan_id,
        request_id=request_id,
        table="t",
        query=PlanQuery(QueryKind.SNAPSHOT),
        facts=facts,
        slots=1,
        digest=digest,
    )


def test_member_stays_bound_to_its_principal_after_a_restart() -> None:
    first = Core()
    member = join(first, "token:a")
    core = restarted(first)
    with pytest.raises(PermissionDenied, match="another principal joined under that reader id"):
        core.handle(ev.Heartbeat(replace(member, principal="token:b")))
    core.handle(ev.Heartbeat(member))


def test_older_epoch_is_fenced_for_any_principal() -> None:
    core = Core()
    member = join(core, "token:a")
    core.handle(ev.Leave(member))
    join(core, "token:b", "other")
    with pytest.raises(Fenced):  # the reader must join again, and the join is refused
        core.handle(ev.Heartbeat(member))


def test_member_of_an_old_state_is_unbound_until_it_joins_again() -> None:
    core = Core()
    member = join(core, "")
    core.handle(ev.Heartbeat(replace(member, principal="token:a")))
    join(core, "token:a", "again")
    with pytest.raises(PermissionDenied):
        join(core, "token:b", "third")


def test_records_of_old_versions_have_no_principal_and_no_digest() -> None:
    joined = ReaderJoined(key=KEY, reader_id="r", epoch=3, request_id="q")
    plan = PlanOpened(
        plan_id="p", request_id="q", table="t", query=PlanQuery(QueryKind.SNAPSHOT), facts=sizes_alone([1]), slots=1
    )
    for record in (joined, plan):
        assert b"principal" not in encode_record(record).payload and b"digest" not in encode_record(record).payload
        assert stored(record) == record
    for record in (replace(joined, principal="token:a"), replace(plan, digest="d")):
        assert stored(record) == record


def test_plan_stays_bound_to_its_request_after_a_restart() -> None:
    first = Core()
    first.handle(opened("q", "content"))
    core = restarted(first)
    assert core.handle(opened("q", "content", "other")) == core.handle(opened("q", "content", "third"))
    with pytest.raises(RequestIdReused, match="table 't'"):
        core.handle(opened("q", "different", "fourth"))
    core.handle(opened("q2", "different", "fifth"))


def test_plan_of_an_old_state_is_returned_for_its_table_only() -> None:
    core = Core()
    core.handle(opened("q", ""))
    core.handle(opened("q", "content", "other"))
    assert list(core.state.plans) == ["p"]
    with pytest.raises(RequestIdReused):
        core.handle(replace(opened("q", "content", "third"), table="u"))
