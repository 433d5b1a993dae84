"""Names of splits, derived from what they stand for: the same in every process, never the same for two splits.

Pure. A split's id tells table, query, file group, files and part; not the columns or the filter, which change rows'
looks and not which rows there are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import ChangesOf, GroupChanges
from penstock.proto.model.splits import AllRows, Exclusions, FileRef, RowGroupRun, RowsOf, Split, VisibleInstants
from penstock.table.files.slices import (
    Everything,
    GroupId,
    OrderedBefore,
    OrderedThrough,
    OrderedUpTo,
    RequestedUpTo,
    View,
)

_SCHEME: Final = "penstock split 1"
_ID_CHARS: Final = 32


def digest(parts: Sequence[object]) -> str:
    """32 hex digits over a list of texts, numbers and lists of them."""
    text = json.dumps([_SCHEME, *parts], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_ID_CHARS]


def scope_id(
    table: Sequence[str], view: View, rows: AllRows | RowsOf | ChangesOf, visible: VisibleInstants, by_blocks: bool
) -> str:
    """What all splits of a query have in common. `table` identifies the table.

    `by_blocks`: files may hold blocks of instants that do not count (layout 1), so which ones count is a part of it.
    On layout 2 the files themselves tell.
    """
    match view:
        case Everything():
            seen: list[object] = ["everything"]
        case RequestedUpTo(instant):
            seen = ["requested", instant]
        case OrderedUpTo(order_key):
            seen = ["ordered", order_key]
        case OrderedBefore(order_key, requested_time):
            seen = ["ordered before", order_key, requested_time]
        case OrderedThrough(order_key, requested_time):
            seen = ["ordered through", order_key, requested_time]
    match rows:
        case AllRows():
            wanted: object = "all"
        case RowsOf(instants):
            wanted = sorted(instants)
        case ChangesOf(change_format):
            wanted = ["changes", change_format]
    blocks = [sorted(visible.members), visible.archived_before, visible.not_after] if by_blocks else []
    return digest(["scope", list(table), seen, wanted, blocks])


def slice_id(
    scope: str,
    group: GroupId,
    base: FileRef | None,
    logs: Iterable[FileRef],
    left_out: Exclusions | None = None,
    *,
    sharing: VisibleInstants | None = None,
) -> str:
    """A whole file slice within a scope.

    `sharing`: the instants that count, where logs take the blocks of many (layout 1). Of a log of which it is known who
    wrote into it, what those wrote makes the id; files that later commits add, or make longer, leave it as it is.
    """
    files = [part for file in logs for part in _log_parts(file, sharing)]
    parts: list[object] = ["slice", scope, list(group), [base.path, base.size_bytes] if base else [], files]
    if left_out is not None:
        parts.append([sorted(left_out.rows), sorted(left_out.some_rows), sorted(left_out.blocks)])
    return digest(parts)


def _log_parts(file: FileRef, sharing: VisibleInstants | None) -> list[list[object]]:
    if sharing is None or file.writes is None:
        return [[file.path, file.size_bytes]]
    counted = [
        [write.instant, write.data_rows, write.delete_rows] for write in file.writes if sharing.holds(write.instant)
    ]
    return [[file.path, counted]] if counted else []


def changes_id(scope: str, group: GroupId, changes: GroupChanges) -> str:
    """A file group's changes within a scope."""
    steps = [
        [step.instant, type(step.source).__name__, [[file.path, file.size_bytes] for file in step.files]]
        for step in changes.steps
    ]
    return digest(["changes", scope, list(group), steps])


def run_id(whole: str, run: RowGroupRun) -> str:
    """A run of row groups of the slice with id `whole`."""
    return digest(["row groups", whole, run.first, run.end])


def in_commit_order(splits: Iterable[Split]) -> tuple[Split, ...]:
    """The splits by order key, then id."""
    ordered = sorted(splits, key=lambda split: (split.order_key, split.split_id))
    if len({split.split_id for split in ordered}) != len(ordered):
        raise InvariantViolation(
            f"two of {len(ordered)} splits of a plan have the same id; expected no two to be equal"
        )
    return tuple(ordered)
