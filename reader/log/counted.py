"""The blocks of a split's logs that count, in the order in which they are applied."""

from __future__ import annotations

from dataclasses import replace

from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import RowsOf, VisibleInstants
from penstock.proto.value_classes import dataclass
from penstock.reader.log.block_selection import CountedBlock, CountedBlocks
from penstock.reader.log.damage import whole_blocks
from penstock.reader.log.file_bytes import LogFiles
from penstock.reader.split.context import SplitContext
from penstock.table.log.blocks import read_blocks


@dataclass(frozen=True, slots=True)
class _VisibleHere(VisibleInstants):
    """The scan's visible instants without those whose blocks one split leaves out."""

    left_out: frozenset[InstantTime] = frozenset()

    def holds(self, requested_time: str) -> bool:
        return requested_time not in self.left_out and VisibleInstants.holds(self, requested_time)


def counted_blocks(files: LogFiles, context: SplitContext) -> list[CountedBlock]:
    """The blocks of the split's logs that count, in the order in which they are applied."""
    scan, split = context.scan, context.split
    if split.left_out is not None and split.left_out.blocks:
        shown = scan.visible
        visible = _VisibleHere(shown.members, shown.archived_before, shown.not_after, split.left_out.blocks)
        context = replace(context, scan=replace(scan, visible=visible))
    counted = CountedBlocks(scan.table, context.scan.visible, originals_first=isinstance(scan.rows, RowsOf))
    for place, log in enumerate(split.logs):
        data = files.data(place)
        items = read_blocks(data, f"table {scan.table}: {log.path}")
        counted.add_file(place, log.path, whole_blocks(items, data, log, context))
    return counted.in_order()
