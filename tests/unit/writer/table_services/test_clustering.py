"""Which groups are joined: small ones of a partition, up to the size of a file, each at most once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.model.files import FileRef
from penstock.table.timeline.services.plans import ClusteringGroup, ClusteringSlice
from penstock.writer.index.slices import LatestSlice, TableSlices
from penstock.writer.table_services.clustering import ClusteringSizes, plan_clustering, slice_bytes

SIZES = ClusteringSizes(target_file_bytes=100, small_file_bytes=60)


def slice_of(partition: str, file_id: str, size: int, log: int = 0, instant: str = "1") -> LatestSlice:
    return LatestSlice(
        partition=partition,
        file_id=file_id,
        base=FileRef(f"{partition}/{file_id}.parquet", size),
        base_instant=instant,
        logs=(FileRef(f"{partition}/.{file_id}.log", log),) if log else (),
        key=instant,
    )


def slices_of(*items: LatestSlice) -> TableSlices:
    by_partition: dict[str, list[LatestSlice]] = {}
    for item in items:
        by_partition.setdefault(item.partition, []).append(item)
    return TableSlices(by_partition, frozenset())


def planned(slices: TableSlices, **more: object) -> list[list[str]]:
    arguments: dict[str, object] = {"busy": (), "partitions": (), "sizes": SIZES, "sorted_by_service": None} | more
    plan = plan_clustering(slices, **arguments)  # type: ignore[arg-type]
    return [[item.file_id for item in group] for group in plan.groups]


def test_small_groups_are_joined_up_to_the_size_of_a_file() -> None:
    items = [slice_of("p", name, size) for name, size in (("a", 50), ("b", 30), ("c", 20), ("d", 59), ("e", 60))]
    assert planned(slices_of(*items, slice_of("q", "f", 1))) == [["c", "b", "a"]], "d is alone, e is not small"
    logs = slice_of("p", "g", 10, 45)
    assert planned(slices_of(logs, slice_of("p", "h", 46))) == [], "55 and 46 are too much"
    assert planned(slices_of(logs, slice_of("p", "h", 45))) == [["h", "g"]], "logs count"


def test_group_is_sorted_alone_unless_a_clustering_wrote_it() -> None:
    items = slices_of(slice_of("p", "a", 5), slice_of("q", "b", 5, instant="7"), slice_of("r", "c", 5, 1, instant="7"))
    assert planned(items) == []
    assert planned(items, sorted_by_service={"7"}) == [["a"], ["c"]]


def test_groups_of_other_services_and_partitions_are_left_out() -> None:
    slices = slices_of(*(slice_of(partition, name, 5) for partition in "pqr" for name in "abc"))
    plan = plan_clustering(slices, [("p", "a")], ["p", "q"], SIZES, None)
    assert [[item.group for item in group] for group in plan.groups] == [
        [("p", "b"), ("p", "c")],
        [("q", "a"), ("q", "b"), ("q", "c")],
    ]
    assert plan.left_out == {"p", "r"}, "Hudi's incremental scheduling must look at them"
    assert plan.encoded()[0][0] == ClusteringGroup(
        (ClusteringSlice("p", "b", "b.parquet"), ClusteringSlice("p", "c", "c.parquet"))
    )


@given(
    st.lists(st.tuples(st.sampled_from("pq"), st.integers(0, 120), st.integers(0, 20)), max_size=20),
    st.integers(1, 150),
    st.integers(1, 150),
    st.booleans(),
)
def test_no_group_is_too_large_and_none_is_joined_twice(
    files: list[tuple[str, int, int]], target: int, small: int, sorts: bool
) -> None:
    items = [slice_of(partition, f"f{n}", size, log) for n, (partition, size, log) in enumerate(files)]
    sizes = ClusteringSizes(target_file_bytes=target, small_file_bytes=small)
    plan = plan_clustering(slices_of(*items), (), (), sizes, () if sorts else None)
    assert len({item.group for item in plan.slices}) == len(plan.slices)
    for group in plan.groups:
        assert len({item.partition for item in group}) == 1
        assert all(slice_bytes(item) < small for item in group)
        assert len(group) == 1 or sum(map(slice_bytes, group)) <= target
        assert sorts or len(group) > 1
