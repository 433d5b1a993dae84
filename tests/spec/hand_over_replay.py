"""Replays a trace of `spec/hand_over.pml` against a hybrid consumer group: the service with its coordinator, the
discovery of rounds in a table on disk and in a scripted topic, restarts from the log, and reads of the splits.
"""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final
from unittest.mock import patch

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.records import GroupCreated, GroupKey
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.core.rounds import DONE
from penstock.enumerator.core.state import Group
from penstock.enumerator.core.stored.codec import encode_record
from penstock.enumerator.handover import phases
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.errors import PenstockError, PositionExpired
from penstock.proto.model.groups import AssignedSplit, Assignments, GroupScope, GroupSpec, Member, SplitProgress
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaAccess, KafkaRange, Phase
from penstock.proto.model.positions import EARLIEST, Position
from penstock.proto.model.queries import Incremental, PlanRequest, RoundLimits
from penstock.reader.read_split import read_split
from penstock.reader.topics.reading import TopicReading
from tests.memory_store import DirectJournal, MemoryStore
from tests.spec.hand_over_table import TOPIC, HandOverTable, completion_of, instant_of, partition_of, topic_of
from tests.spec.traces import BadTrace, Disagreement, agree, check_version, read_trace, value

Step = Mapping[str, Any]
Append = tuple[Sequence[StoredRecord], Sequence[PlanPieces], Sequence[str]]
PARTITIONS: Final = (0, 1)
COMMITS: Final = 4
TOP: Final = 5
KEY: Final = GroupKey("t", "g")
ACCESS: Final = KafkaAccess(client=(("bootstrap.servers", "scripted"),))
HYBRID: Final = Hybrid(mode=HybridMode.APPEND, topic=TOPIC)
SPEC: Final = GroupSpec(
    scope=GroupScope(request=PlanRequest(table="t", query=Incremental(), hybrid=HYBRID)),
    limits=RoundLimits(max_commits=1),
)
PHASES: Final = {None: 0, Phase.SWITCHING: 1, Phase.KAFKA: 2}


CREATED: Final = GroupCreated(key=KEY, number=1, scope=SPEC.scope, limits=SPEC.limits, progress=Progress(EARLIEST))


def header() -> dict[str, Any]:
    """The first line of a trace that fits this core: the version is that of the stored records of a hybrid group."""
    return {
        "spec": "hand over",
        "version": encode_record(CREATED).version,
        "partitions": len(PARTITIONS),
        "commits": COMMITS,
        "top": TOP,
    }


class LossyStore(MemoryStore):
    """A store whose newest appends are lost with the process, until they are synced."""

    def __init__(self, appends: Sequence[Append] = ()) -> None:
        super().__init__()
        self.appends: list[Append] = []
        for each in appends:
            self.append(*each)
        self.synced = len(self.appends)

    def append(
        self, records: Sequence[StoredRecord], plans: Sequence[PlanPieces] = (), dropped: Sequence[str] = ()
    ) -> None:
        super().append(records, plans, dropped)
        self.appends.append((records, plans, dropped))

    def sync(self) -> None:
        """Everything that was appended is durable."""
        self.synced = len(self.appends)

    def after_crash(self) -> LossyStore:
        """The store that the next process finds."""
        return LossyStore(self.appends[: self.synced])


class HandOverReplay:
    """A service with its table and topic, and one reader. `folder` is empty."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.table, self.topic = HandOverTable(folder / "t"), topic_of(len(PARTITIONS), TOP)
        self.table.create()
        self.store = LossyStore()
        self.now_ms, self.joins, self.sequence = 1_000, 0, 0
        self.reads: dict[int, AssignedSplit] = {}
        self.output: dict[int, list[str]] = {partition: [] for partition in PARTITIONS}
        self.durable = self.output
        self.late_commits: list[tuple[int, ...]] | None = None
        self.failed = False
        self.counts: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        """Starts a service on the store."""
        coordinator = durable_coordinator(
            self.store, DirectJournal(self.store), clock_ms=lambda: self.now_ms, settings=CoordinatorSettings()
        )
        self.service = EnumeratorService(
            {"t": str(self.table.path)},
            reads=OpenTables(open_topic=self.topic.open, topics={"t": ACCESS}),
            clock_ms=lambda: self.now_ms,
            coordinator=coordinator,
            poll_ms=None,
        )
        self._join()
        self._sync()

    def _join(self) -> None:
        self.joins += 1
        self.member: Member = self.service.join_group("g", "r", SPEC, f"join-{self.joins}").member
        self.sequence, self.reads = 0, {}

    def _sync(self) -> None:
        self.store.sync()
        self.durable = {partition: list(rows) for partition, rows in self.output.items()}

    @property
    def group(self) -> Group:
        """The group."""
        return self.service.coordinator.peek(lambda state: state.groups[KEY])

    def step(self, step: Step) -> None:
        """Makes one step. Disagreement, or BadTrace for a step that does not exist here."""
        steps: dict[str, Callable[[Step], None]] = {
            "commit": self._commit,
            "resolve": self._resolve,
            "lake": self._plans,
            "hand over": self._hand_over,
            "topic": self._plans,
            "nothing": self._nothing,
            "synced": lambda _: self._sync(),
            "ask": self._ask,
            "finish": self._finish,
            "expired": self._expired,
            "restart": self._restart,
            "rejoin": lambda _: self._join(),
        }
        kind = step["step"]
        if kind not in steps:
            raise BadTrace(f"no step {kind!r} here: {dict(step)}")
        if "ends" in step:
            self.topic.ends.update(enumerate(value(step, "ends")))
            self.topic.starts.update(enumerate(value(step, "lows")))
        steps[kind](step)
        if "phase" in step:
            self._compare_states(step)
        self.counts[kind] += 1

    def end(self) -> None:
        """The group stopped, its reader failed, or the output has every record once. BadTrace if the core wrote
        a record of a newer version than the trace."""
        check_version(header(), (record.version for record in self.store.records()))
        step = {"step": "end"}
        if self.group.stopped is not None:
            self.counts["stopped"] += 1
            agree(step, "answer to a request of splits", PositionExpired.code, self._refusal())
        elif not self.failed:
            whole = {partition: [f"{partition}-{offset}" for offset in range(TOP)] for partition in PARTITIONS}
            agree(step, "output", whole, self.durable)

    # --- steps

    def _commit(self, step: Step) -> None:
        offsets = tuple(value(step, "map"))
        if self.late_commits is None:
            self.table.commit(offsets)
        else:
            self.late_commits.append(offsets)

    def _resolve(self, _: Step) -> None:
        self.late_commits = []

    def _flush(self) -> None:
        for offsets in self.late_commits or ():
            self.table.commit(offsets)
        self.late_commits = None

    def _hand_over(self, step: Step) -> None:
        """Discovers with the table of the step `resolve`. Later commits arrive before the offsets are resolved."""
        if self.late_commits is None:
            raise BadTrace(f"a hand-over without offsets: {dict(step)}")
        self.counts["late commit"] += len(self.late_commits)
        switch = phases.switch_to_topic

        def after_commits(*args: Any) -> Any:
            self._flush()
            return switch(*args)

        with patch.object(phases, "switch_to_topic", after_commits):
            self._plans(step)
        self._flush()

    def _discover(self) -> int:
        self.now_ms += 5_000
        return self.service.split_discovery.discover()

    def _plans(self, step: Step) -> None:
        agree(step, "planned rounds", 1 - value(step, "stopped"), self._discover())

    def _nothing(self, step: Step) -> None:
        agree(step, "planned rounds", 0, self._discover())

    def _ask(self, step: Step) -> None:
        self._sync()
        self.sequence += 1
        try:
            answer = self.service.request_splits(self.member, 100, self.sequence)
        except PenstockError as error:
            raise Disagreement(f"a request of splits failed with {error}, at {dict(step)}") from error
        splits = answer.splits if isinstance(answer, Assignments) else ()
        got = {partition_of(item.split.file_group): item for item in splits}
        self.reads |= got
        agree(step, "splits", value(step, "splits"), [int(partition in got) for partition in PARTITIONS])
        self._sync()

    def _finish(self, step: Step) -> None:
        partition = value(step, "partition")
        offsets = range(value(step, "first"), value(step, "end"))
        try:
            rows = self._read(partition)
            split = self.reads.pop(partition)
            self.service.commit_splits(self.member, (SplitProgress(ref=split.ref, ordinal=len(rows), finished=True),))
        except PenstockError as error:
            raise Disagreement(f"a split was not read and committed: {error}, at {dict(step)}") from error
        agree(step, "rows", [f"{partition}-{offset}" for offset in offsets], rows)
        self.output[partition] += rows

    def _expired(self, step: Step) -> None:
        self.failed = True
        try:
            rows = self._read(value(step, "partition"))
        except PositionExpired:
            return
        raise Disagreement(f"lost records: the reader got {rows}, at {dict(step)}")

    def _read(self, partition: int) -> list[str]:
        if partition not in self.reads:
            raise BadTrace(f"the reader did not receive a split of partition {partition}")
        item = self.reads[partition]
        scan = self.service.describe_plan(item.ref.plan_id)
        topics = TopicReading(records=self.topic.open_records(ACCESS), access=ACCESS)
        reading = read_split(scan, item.split, start=item.start, topics=topics)
        return [key for part in reading for key in part.batch.column("id").to_pylist()]

    def _restart(self, _: Step) -> None:
        self._flush()
        self.store = self.store.after_crash()
        self.output = {partition: list(rows) for partition, rows in self.durable.items()}
        self._begin()

    def _refusal(self) -> str:
        try:
            self.service.request_splits(self.member, 100, self.sequence + 1)
        except PenstockError as error:
            return error.code
        return ""

    # --- states

    def _compare_states(self, step: Step) -> None:
        group = self.group
        place = group.progress.kafka
        agree(step, "phase", value(step, "phase"), PHASES[None if place is None else place.phase])
        lake = group.progress.position if place is None else place.lake
        agree(step, "position in the lake", value(step, "lake"), self._commit_at(lake))
        agree(step, "stopped", value(step, "stopped"), int(group.stopped is not None))
        if place is None:
            agree(step, "offsets", ([0, 0], [0, 0]), (value(step, "starts"), value(step, "next")))
        else:
            agree(step, "instant of the hand-over", instant_of(value(step, "lake")), str(place.instant))
            agree(step, "first offsets", value(step, "starts"), [offset for _, offset in place.starts])
            agree(step, "next offsets", value(step, "next"), [item.next for item in place.progress])
        ranges = self._open_ranges(group)
        agree(step, "open splits", value(step, "open"), [int(partition in ranges) for partition in PARTITIONS])
        for name, end in (("from", 0), ("upto", 1)):
            got = [ranges.get(partition, (0, 0))[end] for partition in PARTITIONS]
            agree(step, f"records of open splits: {name}", value(step, name), got)

    def _commit_at(self, position: Position) -> int:
        if position.is_earliest:
            return 0
        return [completion_of(number) for number in range(COMMITS + 1)].index(str(position.order_key))

    def _open_ranges(self, group: Group) -> dict[int, tuple[int, int]]:
        """The records of each open split, by partition."""
        ranges: dict[int, tuple[int, int]] = {}
        for each in group.rounds.values():
            indices = [index for index, status in enumerate(each.status.tolist()) if status != DONE]
            for split in self.service.coordinator.plan_store.splits(each.plan_id, indices):
                partition = partition_of(split.file_group)
                if isinstance(split.part, KafkaRange):
                    records = split.part.first, split.part.end
                else:
                    commit = self._commit_at(each.commit_range.upto)
                    records = self.table.maps[commit - 1][partition], self.table.maps[commit][partition]
                if partition in ranges:
                    raise Disagreement(f"partition {partition} has two open splits: {ranges[partition]}, {records}")
                ranges[partition] = records
        return ranges


def replay(text: str, folder: pathlib.Path) -> Counter[str]:
    """Replays a trace in an empty folder; how often each step occurred. BadTrace, Disagreement."""
    trace = read_trace(text, header())
    core = HandOverReplay(folder)
    for step in trace.steps:
        core.step(step)
    core.end()
    return core.counts
