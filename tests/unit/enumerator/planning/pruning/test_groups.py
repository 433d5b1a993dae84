"""Which reasons are applied to a filter by key, in which order, and what happens if an index cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock.enumerator.planning.pruning import groups
from penstock.enumerator.planning.pruning.groups import prune_groups
from penstock.enumerator.planning.pruning.pruned_plan import PrunedPlan, Reason
from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Incremental, PlanRequest, Query, Snapshot
from penstock.proto.model.splits import Split
from penstock.table.predicate.parse import parse_predicate

Excluded = frozenset[tuple[str, str]]


def split(group: str, *, logs: int = 0) -> Split:
    return Split(
        split_id=group,
        partition="p",
        partition_values=(),
        file_group=group,
        order_key=InstantTime("1"),
        base=FileRef(f"p/{group}_1_1.parquet", 100),
        logs=tuple(FileRef(f"p/.{group}.log.{number}", 1) for number in range(logs)),
    )


SPLITS = (split("a"), split("b"), split("c"), split("logged", logs=1))


class Pruned:
    """`prune_groups` of a table with these metadata partitions, whose indexes return what a test gives."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch
        self.asked: list[tuple[str, ...]] = []
        """The file groups that bloom filters were asked for, in each lookup."""
        self.fallbacks = 0
        """Number of metadata tables that could not be used."""
        monkeypatch.setattr(groups, "FEW_FILES", 0)
        monkeypatch.setattr(groups, "is_of_newest_rows", lambda state: True)
        monkeypatch.setattr(groups, "usable_columns", lambda state, plan: {})
        monkeypatch.setattr(groups, "replace", lambda plan, splits: SimpleNamespace(scan=plan.scan, splits=splits))
        listing = SimpleNamespace(metadata_table=object, fallback="")
        monkeypatch.setattr(groups, "TableListing", lambda table, timeline, metadata: listing)

    def __call__(
        self,
        partitions: str,
        *,
        index: Callable[[], Excluded | str] = frozenset,
        filters: Callable[[], Excluded] = frozenset,
        query: Query | None = None,
        meta_columns: bool = True,
    ) -> PrunedPlan:
        def by_filters(candidates: Any, keys: Any, metadata: Any) -> Excluded:
            self.asked.append(tuple(item.file_group for item in candidates))
            return filters()

        def count() -> None:
            self.fallbacks += 1

        self._patch.setattr(groups, "without_keys", lambda state, of_plan, keys, metadata: index())
        self._patch.setattr(groups, "without_possible_keys", by_filters)
        parts: Any = SimpleNamespace
        properties = parts(
            raw={"hoodie.table.metadata.partitions": partitions},
            record_key_fields=("id",),
            keygen_name="SIMPLE",
            populate_meta_fields=meta_columns,
        )
        schema = pa.schema([("_hoodie_record_key", pa.string()), ("id", pa.string())])
        state = parts(
            table="t",
            facts=parts(timeline=None),
            properties=properties,
            schema=parts(arrow=schema),
            metadata_usable=True,
            request=parts(
                row_filter=parse_predicate("id = 'k'", schema),
                request=PlanRequest(table="t", query=query or Snapshot(), record_index=True),
            ),
        )
        scan = parts(schema_history="", partition_fields=())
        return prune_groups(parts(count_metadata_fallback=count), state, parts(scan=scan, splits=SPLITS))


def group(name: str) -> Excluded:
    return frozenset({("p", name)})


@pytest.fixture
def pruned(monkeypatch: pytest.MonkeyPatch) -> Pruned:
    return Pruned(monkeypatch)


def outcome(plan: PrunedPlan) -> list[tuple[Reason, list[str], str]]:
    return [(item.reason, [each.file_group for each in item.splits], item.unused) for item in plan.ruled_out]


def test_bloom_filters_exclude_log_free_groups(pruned: Pruned) -> None:
    plan = pruned("files,bloom_filters", filters=lambda: group("b"))
    assert outcome(plan) == [(Reason.BLOOM_FILTERS, ["b"], "")]
    assert [item.file_group for item in plan.plan.splits] == ["a", "c", "logged"]
    assert pruned.asked == [("a", "b", "c")]


def test_bloom_filters_are_not_read_after_the_record_index(pruned: Pruned) -> None:
    plan = pruned("files,record_index,bloom_filters", index=lambda: group("a"), filters=lambda: group("b"))
    assert outcome(plan) == [(Reason.RECORD_INDEX, ["a"], "")] and not pruned.asked


def test_bloom_filters_replace_a_record_index_that_cannot_be_used(pruned: Pruned) -> None:
    plan = pruned("files,record_index,bloom_filters", index=lambda: "it is old", filters=lambda: group("b"))
    assert outcome(plan) == [(Reason.RECORD_INDEX, [], "it is old"), (Reason.BLOOM_FILTERS, ["b"], "")]


def test_damaged_files_of_bloom_filters_exclude_nothing(pruned: Pruned) -> None:
    def damaged() -> Excluded:
        raise CorruptFile("block 7 is damaged")

    plan = pruned("files,bloom_filters", filters=damaged)
    assert outcome(plan) == [(Reason.BLOOM_FILTERS, [], "block 7 is damaged")]
    assert plan.plan.splits == SPLITS and pruned.fallbacks == 1


def test_bloom_filters_are_not_read(pruned: Pruned, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tables without them or without meta columns, for changes, and for few files."""
    assert not pruned("files").ruled_out
    assert not pruned("files,bloom_filters", meta_columns=False).ruled_out
    assert not pruned("files,bloom_filters", query=Incremental()).ruled_out
    monkeypatch.setattr(groups, "FEW_FILES", 3)
    assert not pruned("files,bloom_filters").ruled_out and not pruned.asked
