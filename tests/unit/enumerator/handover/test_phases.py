"""The phases of a hybrid consumer group, over golden tables and a scripted topic."""

from __future__ import annotations

import pathlib
from typing import Any, ClassVar

import pytest

from penstock.enumerator.coordinator.coordinator import Coordinator, durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.groups.lag_monitor import LagMonitor
from penstock.enumerator.observer import Observation, RecordsExpired, TopicMeasured
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import ConfigurationError, DataInvalidated
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import AssignedSplit, Assignments, GroupScope, GroupSpec, Member, SplitProgress
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaAccess, KafkaRange, Phase, is_after_hand_over
from penstock.proto.model.queries import Changes, Incremental, PlanRequest
from tests.memory_store import DirectJournal, MemoryStore
from tests.scripted_topic import ScriptedTopic

pytestmark = pytest.mark.golden

GOLDEN = pathlib.Path(__file__).parents[3] / "golden"
ACCESS = KafkaAccess(client=(("bootstrap.servers", "scripted"),))


class Lake:
    """A golden table served under the name `t`, its topic, and one reader of a group; the store outlives services."""

    def __init__(
        self, golden: Any, name: str, mode: HybridMode = HybridMode.APPEND, *, fail_on_data_loss: bool = True
    ) -> None:
        self.case = golden.case(name)
        self.path = str(golden.table(name))
        self.topic = ScriptedTopic.of_golden(GOLDEN, self.case)
        self.mode = mode
        self.fail_on_data_loss = fail_on_data_loss
        self.store = MemoryStore()
        self.now_ms = 1_000
        self.sequence = 0
        self.begin()

    def begin(self) -> None:
        """Starts a service on the store and joins the reader."""
        reads = OpenTables(open_topic=self.topic.open, topics={"t": ACCESS})
        coordinator: Coordinator = durable_coordinator(
            self.store, DirectJournal(self.store), clock_ms=lambda: self.now_ms, settings=CoordinatorSettings()
        )
        self.service = EnumeratorService(
            {"t": self.path}, reads=reads, clock_ms=lambda: self.now_ms, coordinator=coordinator, poll_ms=None
        )
        query = Changes(ChangeFormat.ROWS) if self.mode is HybridMode.CHANGELOG else Incremental()
        hybrid = Hybrid(mode=self.mode, topic=self.topic.topic, fail_on_data_loss=self.fail_on_data_loss)
        spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=query, hybrid=hybrid)))
        self.member: Member = self.service.join_group("g", "r", spec, f"join-{self.sequence}-{id(self.service)}").member
        self.sequence = 0

    def discover(self) -> int:
        self.now_ms += 5_000
        return self.service.split_discovery.discover()

    def request_splits(self) -> tuple[AssignedSplit, ...]:
        self.sequence += 1
        answer = self.service.request_splits(self.member, 100, self.sequence)
        return answer.splits if isinstance(answer, Assignments) else ()

    def finish(self, splits: tuple[AssignedSplit, ...]) -> None:
        done = tuple(SplitProgress(ref=item.ref, ordinal=item.start, finished=True) for item in splits)
        self.service.commit_splits(self.member, done)

    def drive(self, rounds: int = 12) -> list[AssignedSplit]:
        """The splits of `times` discoveries; each split is finished before the next discovery."""
        result: list[AssignedSplit] = []
        for _ in range(rounds):
            self.discover()
            splits = self.request_splits()
            self.finish(splits)
            result += splits
        return result

    @property
    def place(self) -> Any:
        progress = self.service.coordinator.read(lambda state: next(iter(state.groups.values())).progress)
        return progress.kafka


def ranges(splits: list[AssignedSplit]) -> list[tuple[int, int, int]]:
    parts = [item.split.part for item in splits]
    return [(part.partition, part.first, part.end) for part in parts if isinstance(part, KafkaRange)]


def test_group_reads_the_lake_then_the_topic_from_the_last_commits_offsets(golden: Any) -> None:
    lake = Lake(golden, "C_v6_streamer")
    result = lake.drive()
    kinds = [isinstance(item.split.part, KafkaRange) for item in result]
    assert kinds == sorted(kinds), "a range of the topic was handed out before a split of the lake"
    handover_offsets = {int(p): offset for p, offset in lake.case["handover"]["offsets"].items()}
    ends = lake.topic.ends
    assert ranges(result) == [
        (p, handover_offsets[p], ends[p]) for p in sorted(handover_offsets) if ends[p] > handover_offsets[p]
    ]
    assert lake.place.phase is Phase.KAFKA
    assert is_after_hand_over(lake.service.describe_group("t", "g").summary.committed)


def test_topic_waits_for_the_last_split_of_the_lake(golden: Any) -> None:
    lake = Lake(golden, "C_v6_streamer")
    lake.discover()
    held = lake.request_splits()
    assert held
    for _ in range(5):
        lake.discover()
    assert lake.place is None
    lake.finish(held)
    lake.drive(4)
    assert lake.place is not None


def test_restart_in_each_phase_continues_with_the_same_offsets_without_repeats(golden: Any) -> None:
    whole = ranges(Lake(golden, "C_v6_streamer").drive())
    lake = Lake(golden, "C_v6_streamer")
    result: list[AssignedSplit] = []
    phases: list[Any] = []
    for _ in range(12):
        lake.begin()
        lake.discover()
        splits = lake.request_splits()
        lake.finish(splits)
        result += splits
        phases.append(None if lake.place is None else (lake.place.phase, lake.place.starts))
    assert ranges(result) == whole
    assert len({starts for entry in phases if entry for starts in [entry[1]]}) == 1
    known = [entry[0] for entry in phases if entry]
    assert Phase.SWITCHING in known and Phase.KAFKA in known


def test_phase_and_lag_are_described_and_measured(golden: Any) -> None:
    class Noted:
        topics: ClassVar[list[TopicMeasured]] = []
        expired: ClassVar[list[int]] = []

        def observe(self, event: Observation) -> None:
            if isinstance(event, TopicMeasured):
                self.topics.append(event)
            if isinstance(event, RecordsExpired):
                self.expired.append(event.records)

    lake = Lake(golden, "C_v6_streamer", fail_on_data_loss=False)
    lake.service.coordinator.observer = Noted()
    measurer = LagMonitor(lake.service.split_discovery)
    measurer.measure()
    assert Noted.topics == [TopicMeasured(table="t", group="g", topic="orders")]
    assert lake.service.describe_group("t", "g").kafka is None
    lake.drive()
    measurer.measure()
    described = lake.service.describe_group("t", "g")
    assert described.kafka == lake.place
    assert Noted.topics[-1] == TopicMeasured(
        table="t", group="g", topic="orders", phase=Phase.KAFKA, lag=dict.fromkeys(lake.topic.ends, 0)
    )
    for _ in range(3):
        lake.topic.append(0, None, {"id": "gone"})
    lake.topic.starts[0] = lake.topic.ends[0] - 1
    lake.drive(2)
    assert Noted.expired == [2]


def test_new_records_become_new_rounds(golden: Any) -> None:
    lake = Lake(golden, "C_v6_streamer")
    lake.drive()
    begin = lake.topic.append(1, "k", {"id": "k"})
    lake.topic.append(1, "k", {"id": "k"})
    assert ranges(lake.drive(2)) == [(1, begin, begin + 2)]


def test_changelog_group_begins_with_the_state_as_inserts(golden: Any) -> None:
    lake = Lake(golden, "C_v6_streamer", HybridMode.CHANGELOG)
    lake.discover()
    first = lake.request_splits()
    scan = lake.service.describe_plan(first[0].ref.plan_id)
    assert "_change_type" in scan.columns and scan.topic is None
    lake.finish(first)
    result = lake.drive(5)
    assert ranges(result)
    assert len(ranges(result)) == len(result), "commits of the lake after its state were assigned"


def test_topic_created_again_stops_the_group(golden: Any) -> None:
    lake = Lake(golden, "C_v6_streamer")
    lake.drive()
    lake.topic.topic_id = "second"
    lake.discover()
    with pytest.raises(DataInvalidated, match="created again"):
        lake.request_splits()
    described = lake.service.describe_group("t", "g")
    assert described.summary.state == "stopped" and described.error_code == "DATA_INVALIDATED"


def test_unavailable_brokers_are_retried(golden: Any) -> None:
    lake = Lake(golden, "C_v6_streamer")
    lake.topic.down = True
    lake.drive(4)
    assert lake.place is None
    lake.topic.down = False
    lake.now_ms += 120_000
    lake.drive(6)
    assert lake.place is not None and lake.place.phase is Phase.KAFKA


def test_join_is_refused_by_a_server_without_brokers_for_the_table(golden: Any) -> None:
    reads = OpenTables(topics={})
    service = EnumeratorService({"t": str(golden.table("C_v6_streamer"))}, reads=reads, poll_ms=None)
    hybrid = Hybrid(mode=HybridMode.APPEND, topic="orders")
    spec = GroupSpec(scope=GroupScope(request=PlanRequest(table="t", query=Incremental(), hybrid=hybrid)))
    with pytest.raises(ConfigurationError, match="has no kafka settings"):
        service.join_group("g", "r", spec, "1")
