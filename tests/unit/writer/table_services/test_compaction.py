"""Which groups are compacted, and when a compaction is due."""

from __future__ import annotations

import pytest

from penstock.proto.model.files import FileRef
from penstock.table.files.slices import GroupId
from penstock.table.timeline.active import Timeline, build_timeline
from penstock.table.timeline.instants import parse_instant_file
from penstock.table.timeline.services.plans import CompactionGroup
from penstock.table.timeline.services.service_plan_encoder import InputSize
from penstock.writer.index.slices import LatestSlice, TableSlices
from penstock.writer.table_services.compaction import deltas_since_compaction, pending_deltas, plan_compaction


def slice_of(partition: str, file_id: str, *logs: str, base: str = "b") -> LatestSlice:
    return LatestSlice(
        partition=partition,
        file_id=file_id,
        base=FileRef(f"{partition}/{base}", 10) if base else None,
        base_instant="1" if base else "",
        logs=tuple(FileRef(f"{partition}/{name}", 3) for name in logs),
        key="1",
    )


SLICES = TableSlices(
    {"p": [slice_of("p", "a", "l1", "l2"), slice_of("p", "b")], "q": [slice_of("q", "a", "l", base="")]}, frozenset()
)


def timeline(*names: str, layout: int = 2) -> Timeline:
    instants = [parse_instant_file(name, layout) for name in names]
    return build_timeline(layout, [item for item in instants if item is not None])


def test_every_group_with_logs_is_compacted() -> None:
    plan = plan_compaction(SLICES, (), ())
    assert plan.groups() == (
        (CompactionGroup("p", "a", "1", "b", ("l1", "l2")), InputSize(base_bytes=10, log_files=2, log_bytes=6)),
        (CompactionGroup("q", "a", "1", "", ("l",)), InputSize(base_bytes=0, log_files=1, log_bytes=3)),
    )
    assert plan.left_out == frozenset()


@pytest.mark.parametrize(("busy", "partitions"), [([("p", "a")], []), ([], ["q"])])
def test_groups_of_other_services_and_partitions_are_left_out(busy: list[GroupId], partitions: list[str]) -> None:
    plan = plan_compaction(SLICES, busy, partitions)
    assert [item.group for item in plan.slices] == [("q", "a")]
    assert plan.left_out == {"p"}, "Hudi's incremental scheduling must look at it"


def test_deltas_since_the_last_compaction_are_counted() -> None:
    deltas = ("1_2.deltacommit", "5_8.deltacommit", "6_6.deltacommit", "9.deltacommit.requested")
    assert deltas_since_compaction(timeline(*deltas)) == 3
    assert deltas_since_compaction(timeline(*deltas, "7_9.commit", "3_3.replacecommit")) == 1, "completed after 7"
    assert deltas_since_compaction(timeline("1.deltacommit", "3.deltacommit", "2.commit", layout=1)) == 1
    assert deltas_since_compaction(timeline()) == 0


def test_pending_writes_are_no_services() -> None:
    names = (
        "1.compaction.requested",
        "2.deltacommit.inflight",
        "3.replacecommit.requested",
        "4.logcompaction.requested",
    )
    pending = pending_deltas(timeline(*names, "5.replacecommit.requested", "6.deltacommit", layout=1), {"3"})
    assert [item.requested_time for item in pending] == ["2", "5"]
