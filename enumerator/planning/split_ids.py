"""Split ids: digests of the content of splits. Equal splits have equal ids in every process. Pure.

An id covers the table, query, file group, files and part. It does not cover columns and filter, which change how rows
are returned but not which rows a split holds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Final

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.changes import (
    ChangesOf,
    ChangeSource,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.positions import InstantTime
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
_json: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
_SOURCE_NAMES: Final[dict[type[ChangeSource], str]] = {
    ComparedStates: "ComparedStates",
    LoggedImages: "LoggedImages",
    StoredKinds: "StoredKinds",
}
"""The names of change sources in split ids. Held plans and checkpoints contain these ids: never change a name."""


def digest(parts: Sequence[object]) -> str:
    """32 hex digits of a list of strings, numbers and lists of them."""
    return _hash_of(_json([_SCHEME, *parts]))


def _hash_of(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:_ID_CHARS]


def scope_id(
    table: Sequence[str], view: View, rows: AllRows | RowsOf | ChangesOf, visible: VisibleInstants, by_blocks: bool
) -> str:
    """The part of the ids that all splits of a query share. `table` identifies the table.

    With `by_blocks` (layout 1) files may hold blocks of instants that do not count, so the scope includes the instants
    that do. On layout 2 the file names suffice.
    """
    match view:
        case Everything():
            view_key: list[object] = ["everything"]
        case RequestedUpTo(instant):
            view_key = ["requested", instant]
        case OrderedUpTo(order_key):
            view_key = ["ordered", order_key]
        case OrderedBefore(order_key, requested_time):
            view_key = ["ordered before", order_key, requested_time]
        case OrderedThrough(order_key, requested_time):
            view_key = ["ordered through", order_key, requested_time]
    match rows:
        case AllRows():
            rows_key: object = "all"
        case RowsOf(instants):
            rows_key = sorted(instants)
        case ChangesOf(change_format):
            rows_key = ["changes", change_format]
    blocks = [sorted(visible.members), visible.archived_before, visible.not_after] if by_blocks else []
    return digest(["scope", list(table), view_key, rows_key, blocks])


def slice_id(
    scope: str,
    group: GroupId,
    base: FileRef | None,
    logs: Iterable[FileRef],
    exclusions: Exclusions | None = None,
    *,
    sharing: VisibleInstants | None = None,
) -> str:
    """The id of a whole file slice.

    `sharing` are the instants that count, if logs hold blocks of several instants (layout 1). If the writes into a log
    are known, the id covers these instead of the file's size, so later commits that add or extend logs do not change
    it. The id is the `digest` of "slice", scope, group, base file, logs and exclusions; a plan may have a million, so
    their text is formed here.
    """
    of_base = "" if base is None else f"{encode_basestring_ascii(base.path)},{base.size_bytes}"
    of_logs = ",".join([part for file in logs if (part := _log_text(file, sharing))])
    excluded = "" if exclusions is None else f",{_json(list(map(sorted, _parts_of(exclusions))))}"
    partition, file_id = map(encode_basestring_ascii, group)
    head = f'"{_SCHEME}","slice",{encode_basestring_ascii(scope)}'
    return _hash_of(f"[{head},[{partition},{file_id}],[{of_base}],[{of_logs}]{excluded}]")


def _parts_of(exclusions: Exclusions) -> tuple[frozenset[InstantTime], ...]:
    return (exclusions.rows, exclusions.some_rows, exclusions.blocks)


def _log_text(file: FileRef, sharing: VisibleInstants | None) -> str:
    """The part of a log; '' if none of its writes counts."""
    if sharing is None or file.writes is None:
        return f"[{encode_basestring_ascii(file.path)},{file.size_bytes}]"
    counted = [
        [write.instant, write.data_rows, write.delete_rows] for write in file.writes if sharing.holds(write.instant)
    ]
    return _json([file.path, counted]) if counted else ""


def changes_id(scope: str, group: GroupId, changes: GroupChanges) -> str:
    """The id of a file group's changes."""
    steps = [
        [step.instant, _SOURCE_NAMES[type(step.source)], [[file.path, file.size_bytes] for file in step.files]]
        for step in changes.steps
    ]
    return digest(["changes", scope, list(group), steps])


def run_id(whole: str, run: RowGroupRun) -> str:
    """The id of a run of row groups of the slice with id `whole`."""
    return digest(["row groups", whole, run.first, run.end])


def in_commit_order(splits: Iterable[Split]) -> tuple[Split, ...]:
    """The splits by order key, then id."""
    ordered = sorted(splits, key=attrgetter("split_id"))
    if any(split.split_id == other.split_id for split, other in pairwise(ordered)):
        raise InvariantViolation(f"two of {len(ordered)} splits of a plan have the same id; expected unique ids")
    ordered.sort(key=attrgetter("order_key"))
    return tuple(ordered)
