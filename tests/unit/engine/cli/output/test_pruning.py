"""Counts of what each reason excludes: they add up to the plan without the filter."""

from __future__ import annotations

from penstock.engine.cli.output.pruning import Amount, pruning_of
from penstock.enumerator.planning.pruning.pruned_plan import Reason, RuledOut
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import RowGroupRun, Split


def split(partition: str, group: str, logs: int = 0, part: RowGroupRun | None = None) -> Split:
    made = Split(
        split_id=f"{partition}-{group}-{part}",
        partition=partition,
        partition_values=(),
        file_group=group,
        order_key=InstantTime("1"),
        base=FileRef(f"{partition}/{group}", 100),
        logs=tuple(FileRef(f"{partition}/{group}.{number}", 1) for number in range(logs)),
        **({} if part is None else {"part": part}),  # type: ignore[arg-type]
    )
    return made


def amount(partitions: int, groups: int, files: int, size_bytes: int) -> Amount:
    return Amount(partitions=partitions, file_groups=groups, files=files, size_bytes=size_bytes)


A1, A2, B1, C1 = split("a", "1", logs=2), split("a", "2"), split("b", "1"), split("c", "1")


def test_each_reason_counts_what_those_before_it_left() -> None:
    ruled_out = [RuledOut(Reason.BUCKET_HASH, (A2,)), RuledOut(Reason.COLUMN_STATISTICS, (B1,))]
    pruning = pruning_of([A1, A2, B1, C1], [A1], ruled_out)
    assert [(item.reason, item.amount) for item in pruning.by] == [
        ("partition filter", amount(1, 1, 1, 100)),
        ("bucket hash", amount(0, 1, 1, 100)),
        ("column statistics", amount(1, 1, 1, 100)),
    ]
    assert pruning.remaining == amount(1, 1, 3, 102)
    assert pruning.reasons[("c", "1")] == "partition filter" and pruning.reasons[("b", "1")] == "column statistics"
    assert ("a", "1") not in pruning.reasons


def test_an_index_that_is_not_used_has_its_reason() -> None:
    (item,) = pruning_of([A1], [A1], [RuledOut(Reason.RECORD_INDEX, (), "it lacks instant 1")]).by
    assert (item.reason, item.amount, item.unused) == ("record index", amount(0, 0, 0, 0), "it lacks instant 1")


def test_runs_of_row_groups_are_one_file() -> None:
    runs = [split("a", "1", part=RowGroupRun(0, 1)), split("a", "1", part=RowGroupRun(1, 2))]
    assert pruning_of(runs, runs, ()).remaining == amount(1, 1, 1, 100)
    assert pruning_of(runs, (), ()).by[0].amount == amount(1, 1, 1, 100)
