"""The service over scripted tables: effects of table failures on a group, restarts, resets, fencing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.enumerator.continuous.types import Advance, Following
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.server.run import serve_enumerator
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import (
    ConfigurationError,
    Fenced,
    LateInstant,
    PenstockError,
    StorageError,
    TableNotFound,
    TooManyGroups,
    UnknownGroup,
    UnknownSplit,
)
from penstock.proto.model.groups import (
    Assignments,
    EndOfGroup,
    GroupScope,
    GroupSpec,
    NothingYet,
    SplitProgress,
    StartAt,
    StartLatest,
)
from penstock.proto.model.queries import Incremental, PlanRequest, Snapshot
from tests.memory_store import DirectJournal, MemoryStore
from tests.unit.enumerator.scripted_service import LAG, Clock, Script, World, at, names, service_of, spec_of


def test_round_is_assigned_and_committed_before_the_next_one() -> None:
    world = World(Script(newest=2))
    assert world.request_splits() == NothingYet(500, caught_up=False)
    assert world.service.split_discovery.discover() == 1
    assignments = world.request_splits()
    assert names(assignments) == ["1/0", "1/1"]
    assert isinstance(assignments, Assignments)
    assert [(one.start, one.position) for one in assignments.splits] == [(0, at(1)), (0, at(1))]
    assert world.service.describe_plan(assignments.splits[0].ref.plan_id).table == "t"
    assert world.summary() == "running 0 001"
    world.finish(assignments)
    assert world.summary() == "running 001 001"
    world.service.split_discovery.discover()
    later = world.request_splits()
    assert names(later) == ["2/0", "2/1"]
    assert isinstance(later, Assignments)
    world.service.split_discovery.discover()
    assert world.request_splits() == NothingYet(500, caught_up=False), "its own splits are open"
    world.finish(later)
    assert world.request_splits() == NothingYet(500, caught_up=True)


def test_idle_table_is_probed_and_not_read() -> None:
    world = World(Script(newest=0, is_settled=True))
    for _ in range(5):
        world.service.split_discovery.discover()
    assert world.script.discoveries == 1
    world.script.newest = 1
    world.service.split_discovery.discover()
    assert world.script.discoveries == 2


def test_recent_file_time_never_means_unchanged() -> None:
    world = World(Script(newest=0, is_settled=False))
    for _ in range(3):
        world.service.split_discovery.discover()
    assert world.script.discoveries == 3


def test_weak_point_03_missing_table_is_waited_for() -> None:
    script = Script(fails=[TableNotFound("no table"), TableNotFound("no table")])
    world = World(script)
    world.service.split_discovery.discover()
    assert world.summary() == "waiting 0 0"
    assert world.service.describe_group("t", "g").error == "no table"
    world.clock.now_ms += 60_000
    world.service.split_discovery.discover()
    assert world.summary() == "running 0 001"


def test_weak_point_08_failing_storage_is_retried_after_a_delay_without_a_move() -> None:
    world = World()
    world.script.fails = [StorageError("reset"), StorageError("reset")]
    world.service.split_discovery.discover()
    world.service.split_discovery.discover()
    assert world.script.discoveries == 1, "the pause is kept"
    assert world.summary() == "running 0 0"
    world.clock.now_ms += 500
    world.service.split_discovery.discover()
    world.clock.now_ms += 500
    world.service.split_discovery.discover()
    assert world.script.discoveries == 2, "the pause doubles"
    world.clock.now_ms += 500
    assert world.service.split_discovery.discover() == 1
    assert world.service.describe_group("t", "g").error == ""


def test_late_instant_stops_the_group() -> None:
    world = World()
    world.script.fails = [LateInstant("instant 7 completed after position 9 was passed")]
    world.service.split_discovery.discover()
    with pytest.raises(LateInstant, match="instant 7"):
        world.request_splits()


def test_back_pressure_pauses_discovery_without_a_move() -> None:
    world = World(Script(newest=9), settings=CoordinatorSettings(max_pending_splits=4))
    for _ in range(6):
        world.service.split_discovery.discover()
    assert world.script.discoveries == 2
    assert world.summary() == "paused 0 002"
    assignments = world.request_splits(1)
    assert isinstance(assignments, Assignments)
    world.service.split_discovery.discover()
    assert world.script.discoveries == 3, "a split was taken: 3 are pending"


def test_fault_01_member_continues_with_its_splits_after_a_restart() -> None:
    world = World(Script(newest=2))
    world.service.split_discovery.discover()
    first = world.request_splits(1)
    assert isinstance(first, Assignments)
    world.service.commit_splits(world.member, (SplitProgress(ref=first.splits[0].ref, ordinal=7),))
    world.restart()
    again = world.service.request_splits(world.member, 1, world.sequence)
    assert names(again) == names(first)
    assert isinstance(again, Assignments)
    assert again.splits[0].start == 7
    assert names(world.request_splits()) == ["1/1"]
    world.finish(first)
    assert world.service.split_discovery.discover() == 1


def test_fault_06_rejoined_reader_gets_its_splits_again_and_others_do_not() -> None:
    world = World()
    world.service.split_discovery.discover()
    assignments = names(world.request_splits())
    other = world.service.join_group("g", "r2", world.spec, "second").member
    assert world.service.request_splits(other, 5, 1) == NothingYet(500)
    back = world.service.join_group("g", "r1", world.spec, "third").member
    assert back.epoch > other.epoch > world.member.epoch
    assert names(world.service.request_splits(back, 5, 1)) == assignments
    with pytest.raises(Fenced, match=rf"its epoch is {back.epoch} now"):
        world.request_splits()


def test_fault_06_splits_go_to_others_after_the_lease_from_the_committed_row_on() -> None:
    world = World()
    world.service.split_discovery.discover()
    assignments = world.request_splits()
    assert isinstance(assignments, Assignments)
    world.service.commit_splits(world.member, (SplitProgress(ref=assignments.splits[0].ref, ordinal=3),))
    other = world.service.join_group("g", "r2", world.spec, "second").member
    for _ in range(5):
        world.clock.now_ms += 10_000
        world.service.heartbeat(other)
        world.service.coordinator.tick()
    taken = world.service.request_splits(other, 5, 1)
    assert isinstance(taken, Assignments)
    assert [one.start for one in taken.splits] == [3, 0]
    with pytest.raises(Fenced):
        world.finish(assignments)


def test_fault_08_repeated_request_has_one_answer_and_an_old_one_none() -> None:
    world = World()
    world.service.split_discovery.discover()
    first = world.request_splits(1)
    assert world.service.request_splits(world.member, 1, world.sequence) == first
    world.request_splits(1)
    with pytest.raises(Fenced, match="is stale and was ignored"):
        world.service.request_splits(world.member, 1, 1)
    assert world.service.join_group("g", "r1", world.spec, "first").member == world.member


def test_fault_08_late_copy_of_a_request_with_an_empty_answer_is_granted_nothing() -> None:
    """Otherwise a reader would hold splits that it never received."""
    world = World()
    assert world.request_splits() == NothingYet(500, caught_up=False)
    late = world.sequence
    world.service.split_discovery.discover()
    assert world.service.request_splits(world.member, 10, late) == NothingYet(500, caught_up=False)
    assert names(world.request_splits()) == ["1/0", "1/1"]


def test_fault_30_leases_survive_a_standstill() -> None:
    world = World()
    world.clock.now_ms += 86_400_000
    world.service.coordinator.tick()
    world.service.heartbeat(world.member)


def test_commit_of_a_split_that_is_not_held_is_refused_as_a_whole() -> None:
    world = World()
    world.service.split_discovery.discover()
    assignments = world.request_splits(1)
    assert isinstance(assignments, Assignments)
    held = assignments.splits[0].ref
    done = (SplitProgress(ref=held, ordinal=1, finished=True), SplitProgress(ref=replace(held, index=1), ordinal=1))
    with pytest.raises(UnknownSplit, match="nothing was committed"):
        world.service.commit_splits(world.member, done)
    assert world.service.describe_group("t", "g").held_splits == 1


def test_group_has_one_scope() -> None:
    world = World()
    other = replace(world.spec.scope, request=replace(world.spec.scope.request, where="id > 'a'"))
    with pytest.raises(ConfigurationError, match=r"where: the group has , got id > 'a'"):
        world.service.join_group("g", "r2", GroupSpec(scope=other), "x")


def test_group_ends_at_its_end() -> None:
    world = World(Script(newest=3), spec=spec_of(upto=at(2)))
    for _ in range(3):
        world.service.split_discovery.discover()
    assignments = world.request_splits()
    assert names(assignments) == ["1/0", "1/1", "2/0", "2/1"]
    assert isinstance(assignments, Assignments)
    world.finish(assignments)
    assert world.request_splits() == EndOfGroup()
    assert world.summary() == "ended 002 002"


def test_groups_are_listed_described_and_deleted_without_readers() -> None:
    world = World()
    described = world.service.describe_group("t", "g")
    assert (described.lag, [one.reader_id for one in described.readers]) == (LAG, ["r1"])
    with pytest.raises(ConfigurationError, match=r"has 1 readers \(r1\)"):
        world.service.delete_group("t", "g")
    world.service.leave_group(world.member)
    world.service.leave_group(world.member)
    world.service.delete_group("t", "g")
    calls: tuple[Callable[[], object], ...] = (
        lambda: world.service.describe_group("t", "g"),
        lambda: world.service.delete_group("t", "g"),
        lambda: world.service.reset_group("t", "g", StartLatest(), dry_run=True),
        lambda: world.request_splits(),
    )
    for call in calls:
        with pytest.raises(UnknownGroup, match="penstock groups list"):
            call()


@pytest.mark.parametrize("name", ["", "a b", "x" * 201, "é", "a\n"])
def test_names_are_checked(name: str) -> None:
    world = World()
    for group, reader in ((name, "r"), ("g", name)):
        with pytest.raises(ConfigurationError, match=r"group|reader id"):
            world.service.join_group(group, reader, world.spec, "x")


def test_only_ranges_are_consumed_by_groups() -> None:
    world = World()
    scope = GroupScope(request=PlanRequest(table="t", query=Snapshot()))
    with pytest.raises(ConfigurationError, match="expected query=incremental or query=cdc"):
        world.service.join_group("g", "r", GroupSpec(scope=scope), "x")


def test_discovery_started_before_a_reset_is_ignored() -> None:
    world = World(Script(newest=3))
    plain = world.script.advance

    def overtaken(path: str, name: str, following: Following) -> Advance:
        result = plain(path, name, following)
        world.service.reset_group("t", "g", StartAt(at(2)), dry_run=False)
        return result

    world.script.advance = overtaken  # type: ignore[method-assign]
    world.service.split_discovery.discover()
    assert world.summary() == "running 002 002"


class TakenOver(MemoryStore):
    """A store that another server has taken over."""

    def append(self, *_: object) -> None:
        raise Fenced("epoch 2 writes now, this server has epoch 1 and must stop")


def test_fault_04_replaced_server_is_unavailable_and_fences_no_reader() -> None:
    """A reader that gets Fenced drops its splits, although the newer server may still assign them to it."""
    store = TakenOver()
    coordinator = Coordinator(clock_ms=Clock(), settings=CoordinatorSettings(), journal=DirectJournal(store))
    lost: list[PenstockError] = []
    coordinator.when_lost = lost.append
    service = service_of(Script(), Clock(), coordinator)
    for _ in range(2):
        with pytest.raises(StorageError, match="epoch 2 writes now"):
            service.join_group("g", "r1", spec_of(), "first")
    with pytest.raises(StorageError, match="epoch 2 writes now"):
        service.list_groups()
    assert lost and all(isinstance(error, StorageError) for error in lost)


def test_fault_04_replaced_server_detects_it_without_calls() -> None:
    world = World()
    world.store.reopened()
    with pytest.raises(StorageError, match="opened again"):
        world.service.coordinator.tick()


def test_scope_that_cannot_be_decoded_is_refused_before_it_is_stored() -> None:
    world = World()
    request = PlanRequest(table="t", query=Incremental(), where="x" * 200_000)
    with pytest.raises(ConfigurationError, match="where"):
        world.service.join_group("long", "r", GroupSpec(scope=GroupScope(request=request)), "x")
    world.restart()
    assert len(world.service.list_groups()) == 1


def test_group_beyond_the_bound_is_refused_and_the_others_continue() -> None:
    world = World(Script(newest=2), settings=CoordinatorSettings(max_groups_of_table=2))
    with serve_enumerator(world.service, "127.0.0.1:0", world.service) as server:
        client = EnumeratorClient(server.address)
        client.join_group("h", "r", world.spec, "1")
        for _ in range(2):
            with pytest.raises(TooManyGroups, match="groupsPerTable allows 2"):
                client.join_group("i", "r", world.spec, "1")
        client.join_group("h", "r2", world.spec, "1")
        client.close()
        server.stop(0)
    world.service.split_discovery.discover()
    assert isinstance(world.request_splits(), Assignments)


def test_tables_at_a_path_leave_out_a_table_that_is_no_longer_served() -> None:
    world = World()
    world.service.split_discovery.discover()
    (table,) = world.service.split_discovery._looks
    path = world.service.tables.path(table)
    assert world.service.split_discovery.tables_at(path) == (table,)

    def removed(name: str) -> str:
        raise TableNotFound(name)

    world.service.split_discovery.path_of = removed
    assert world.service.split_discovery.tables_at(path) == ()
