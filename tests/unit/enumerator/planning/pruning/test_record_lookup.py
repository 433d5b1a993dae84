"""When a record index describes the newest rows of a table: each way in which it may not is found."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.enumerator.planning.pruning import record_lookup
from penstock.enumerator.planning.pruning.record_lookup import index_gap
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.proto.model.positions import InstantTime
from penstock.table.timeline.active import Timeline
from penstock.table.timeline.commits import CommitMetadata, WriteStat
from penstock.table.timeline.instants import Action, Instant, State

BUILT, FIRST, SECOND, THIRD = "00000000000000002", "20260101000000100", "20260101000000200", "20260101000000300"
ALL = ("files", "record_index")


def instant(time: str, action: Action = Action.COMMIT, *, layout: int = 2, completed: bool = True) -> Instant:
    completion = InstantTime(f"{time[:-2]}50" if time != BUILT else "20260101000000170")
    return Instant(
        requested_time=InstantTime(time),
        completion_time=completion if completed and layout == 2 else None,
        action=action,
        state=State.COMPLETED if completed else State.INFLIGHT,
        file_name=time,
    )


def stat(**changed: Any) -> WriteStat:
    fields: dict[str, Any] = {
        "partition": "p",
        "file_id": "f",
        "path": "p/f",
        "num_writes": 3,
        "num_deletes": 0,
        "num_inserts": 3,
        "num_update_writes": 0,
        "file_size_bytes": 9,
        "base_file": "",
        "log_files": (),
        "prev_commit": "",
    }
    return WriteStat(**{**fields, **changed})


def commit(time: str, operation: str = "UPSERT", **of_stat: Any) -> CommitMetadata:
    return CommitMetadata(
        requested_time=InstantTime(time),
        operation=operation,
        compacted=operation == "COMPACT",
        schema_json="",
        extra={},
        stats=(stat(**of_stat),),
        replaced=(),
    )


def gap(
    commits: list[CommitMetadata],
    wrote: Mapping[str, tuple[str, ...]],
    *,
    data: tuple[Instant, ...] = (),
    layout: int = 2,
    archived: str = "",
) -> str:
    """`wrote`: the instants of the metadata table, and the metadata partitions that each wrote."""
    items = [instant(item.requested_time, layout=layout) for item in commits]
    facts = TimelineFacts(
        table="t",
        timeline=Timeline(layout, tuple(sorted((*items, *data), key=lambda item: item.requested_time))),
        commits={item.requested_time: item for item in commits},
        pending_clusterings=frozenset(),
        complete_from=archived,
    )
    own = tuple(instant(time, Action.DELTA_COMMIT, layout=layout) for time in sorted(wrote))
    return index_gap(facts, Timeline(layout, own), lambda time: wrote.get(time, ()))


def test_an_index_that_has_each_instant_is_used() -> None:
    assert not gap([commit(FIRST, "BULK_INSERT"), commit(SECOND)], {FIRST: ALL, SECOND: ALL})


def test_an_instant_that_the_index_lacks() -> None:
    assert gap([commit(FIRST), commit(SECOND)], {FIRST: ALL, SECOND: ("files",)}) == f"it lacks instant {SECOND}"
    assert gap([commit(FIRST), commit(SECOND)], {FIRST: ALL}) == f"it lacks instant {SECOND}"


@pytest.mark.parametrize(
    ("operation", "of_stat"),
    [
        ("UPSERT", {"num_inserts": 0, "prev_commit": FIRST}),
        ("DELETE", {"num_inserts": 0, "num_writes": 0, "num_deletes": 3}),
        ("COMPACT", {}),
        ("LOG_COMPACT", {}),
    ],
)
def test_an_instant_that_adds_no_key_may_be_lacking(operation: str, of_stat: dict[str, Any]) -> None:
    assert not gap([commit(FIRST), commit(SECOND, operation, **of_stat)], {FIRST: ALL, SECOND: ("files",)})


def test_a_clustering_and_a_new_group_add_keys() -> None:
    for operation in ("CLUSTER", "UPSERT"):
        added = commit(SECOND, operation, num_inserts=0)
        assert gap([commit(FIRST), added], {FIRST: ALL, SECOND: ("files",)})


@pytest.mark.parametrize("operation", ["INSERT", "BULK_INSERT", "INSERT_OVERWRITE", ""])
def test_an_instant_that_may_repeat_keys(operation: str) -> None:
    wrote = {FIRST: ALL, SECOND: ALL}
    assert "may repeat keys" in gap([commit(FIRST), commit(SECOND, operation)], wrote)
    assert not gap([commit(FIRST, operation), commit(SECOND)], wrote), "the first write of a table"
    assert gap([commit(FIRST, operation), commit(SECOND)], wrote, archived="20250101000000000"), "not the first"


def test_instants_before_the_index_was_built_are_in_it() -> None:
    """BUILT completes after FIRST, and before SECOND."""
    commits = [commit(FIRST), commit(SECOND)]
    assert not gap(commits, {BUILT: ALL, FIRST: ("files",), SECOND: ALL})
    assert gap(commits, {BUILT: ("files",), FIRST: ("files",), SECOND: ALL}) == f"it lacks instant {FIRST}"
    assert gap(commits, {BUILT: ALL, FIRST: ALL, SECOND: ("files",)}) == f"it lacks instant {SECOND}"


def test_an_instant_that_is_not_complete_in_the_table() -> None:
    pending = instant(SECOND, completed=False)
    assert SECOND in gap([commit(FIRST)], {FIRST: ALL, SECOND: ALL}, data=(pending,))
    assert THIRD in gap([commit(FIRST)], {FIRST: ALL, THIRD: ALL})
    assert not gap([commit(SECOND)], {FIRST: ALL, SECOND: ALL}), "archived"


def test_services_of_the_metadata_table_on_layout_1_are_known() -> None:
    assert not gap([commit(FIRST)], {FIRST: ALL, f"{FIRST}010": ALL}, layout=1)
    assert gap([commit(FIRST)], {FIRST: ALL, f"{SECOND}010": ALL}, layout=1)


def test_a_restored_table() -> None:
    assert gap([commit(FIRST)], {FIRST: ALL}, data=(instant(SECOND, Action.RESTORE),)) == "the table was restored"


class TestLookup:
    """`without_keys`, with an index that has no gap and the locations that a test gives."""

    GROUPS = (("p", "f1"), ("p", "f2"), ("q", "f3"))

    def excluded(self, monkeypatch: pytest.MonkeyPatch, located: dict[str, set[tuple[str, str]]]) -> object:
        monkeypatch.setattr(record_lookup, "index_gap", lambda facts, timeline, partitions_of: "")
        monkeypatch.setattr(record_lookup, "locate", lambda metadata, keys: located)
        monkeypatch.setattr(record_lookup, "partition_pruning", lambda properties, schema, row_filter: None)
        parts: Any = SimpleNamespace
        state = parts(
            facts=None, properties=None, schema=parts(arrow=None), request=parts(row_filter=None), pruned={"gone"}
        )
        metadata = parts(timeline=None, partitions_of=None)
        return record_lookup.without_keys(state, self.GROUPS, ("k",), metadata)

    def test_groups_without_a_key_are_excluded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.excluded(monkeypatch, {"k": {("p", "f2")}}) == {("p", "f1"), ("q", "f3")}
        assert self.excluded(monkeypatch, {"k": {("p", "f1"), ("q", "f3")}}) == {("p", "f2")}

    def test_a_key_that_no_group_has_excludes_all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.excluded(monkeypatch, {}) == set(self.GROUPS)

    def test_a_group_that_the_table_does_not_have_shows_that_the_index_is_old(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "which the table does not have" in str(self.excluded(monkeypatch, {"k": {("p", "f9")}}))

    def test_a_group_of_a_partition_that_the_filter_excludes_is_not_missing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert self.excluded(monkeypatch, {"k": {("gone", "f9")}}) == set(self.GROUPS)
