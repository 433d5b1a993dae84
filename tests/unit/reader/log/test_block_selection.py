"""Which blocks count: visibility, rollbacks, order, refusals."""

from __future__ import annotations

import pytest

from penstock.proto.errors import CorruptBlock
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import VisibleInstants
from penstock.reader.log.block_selection import CountedBlocks
from penstock.table.log.blocks import BlockHeader, BlockKind, LogBlock

VISIBLE = VisibleInstants(frozenset(InstantTime(text) for text in ("010", "020", "030")), "005", "025")


def block(instant: str, kind: BlockKind = BlockKind.AVRO_DATA, offset: int = 0, **header: object) -> LogBlock:
    headers = BlockHeader(instant_time=instant, **{"schema_json": "{}", **header})  # type: ignore[arg-type]
    return LogBlock(kind=kind, header=headers, offset=offset, content_start=0, content_end=0, end=0)


def rollback(target: str, instant: str) -> LogBlock:
    return block(instant, BlockKind.COMMAND, command="0", target_instant_time=target)


def counting(*files: list[LogBlock]) -> list[tuple[int, int]]:
    counted = CountedBlocks("t", VISIBLE)
    for place, items in enumerate(files):
        counted.add_file(place, f"log.{place}", items)
    return [(result.log, result.block.offset) for result in counted.in_order()]


def test_members_and_archived_instants_count_and_later_ones_do_not() -> None:
    instants = ["004", "005", "010", "015", "020", "030"]
    file: list[LogBlock] = [block(instant, offset=at) for at, instant in enumerate(instants)]
    assert counting(file) == [(0, 0), (0, 2), (0, 4)]


def test_blocks_of_one_instant_stay_together_where_the_first_was() -> None:
    assert counting([block("010"), block("020", offset=1)], [block("010", BlockKind.DELETE)]) == [
        (0, 0),
        (1, 0),
        (0, 1),
    ]


def test_rollback_takes_back_earlier_blocks_of_any_file_and_no_later_ones() -> None:
    files: list[list[LogBlock]] = [
        [block("010"), block("020", offset=1)],
        [block("010", offset=2), rollback("010", "020"), block("010", offset=3)],
    ]
    assert counting(*files) == [(0, 1), (1, 3)]


def test_rollback_after_the_newest_visible_instant_counts() -> None:
    """The rolled back instant is archived, so it would count: its rows were never committed."""
    assert counting([block("004"), rollback("004", "900")]) == []


def test_rollback_of_nothing_is_nothing() -> None:
    assert counting([rollback("020", "030"), block("020")]) == [(0, 0)]


def test_change_log_blocks_are_passed_over() -> None:
    assert counting([block("010", BlockKind.CDC_DATA), block("010", BlockKind.DELETE, offset=1)]) == [(0, 1)]


def test_log_compaction_replaces_its_originals_at_their_place() -> None:
    compacted = block("020", BlockKind.DELETE, offset=3, compacted_block_times=("004", "010"))
    file = [block("004", offset=0), block("010", offset=1), block("003", offset=2), block("020", offset=4), compacted]
    assert counting(list(file)) == [(0, 4), (0, 3), (0, 2)]
    assert counting([*file, rollback("020", "030")]) == [(0, 0), (0, 1), (0, 2)]


def test_blocks_of_other_instants_do_not_count() -> None:
    assert counting([block("015", BlockKind.HFILE_DATA), block("030", BlockKind.PARQUET_DATA)]) == []


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (block("010", schema_json=""), CorruptBlock),
        (block("010", BlockKind.COMMAND, command="0"), CorruptBlock),
        (block("010", BlockKind.COMMAND, command="7", target_instant_time="010"), CorruptBlock),
    ],
)
def test_blocks_without_required_headers_are_corrupt(broken: LogBlock, error: type[Exception]) -> None:
    with pytest.raises(error):
        counting([broken])
