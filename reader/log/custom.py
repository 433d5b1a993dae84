"""The merger of a log whose records a function of the user's merges."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.proto.errors import InvariantViolation, UnsupportedFeature
from penstock.proto.model.splits import CustomMerge
from penstock.reader.log.block_selection import CountedBlock
from penstock.reader.merge.mergers import Merger, merger_of
from penstock.reader.split.context import SplitContext


def merger_of_blocks(blocks: Sequence[CountedBlock], context: SplitContext) -> Merger:
    """The merger of these blocks. Errors as `merger_of`; UnsupportedFeature for a block of partial updates, which Hudi
    merges by a method of its own (`partialMerge`) that few mergers have."""
    custom, split = context.scan.merge, context.split
    if not isinstance(custom, CustomMerge):
        raise InvariantViolation(f"{context.where}: a merger for a table of merge mode {custom}")
    partial = next((counted for counted in blocks if counted.block.header.is_partial), None)
    if partial is not None:
        raise UnsupportedFeature(
            f"block of partial updates (IS_PARTIAL) for merger {custom.name}: {partial.place}; functions merge whole "
            "records: compact the table"
        )
    file = split.base if split.base is not None else split.logs[0]
    where = f"table {context.scan.table}: {file.path}"
    return merger_of(custom, context.scan.table_version, context.options.mergers, context.schema.table, where)
