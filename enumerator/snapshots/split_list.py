"""The list of splits that a snapshot is handed out by: its order, its name, how far a batch goes in it. Pure.

Not here: planning (`snapshots`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from penstock.enumerator.continuous.round_limits import Amount
from penstock.proto.errors import DataInvalidated
from penstock.proto.model.changes import ChangeStep, ComparedStates, GroupChanges
from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import RoundLimits
from penstock.proto.model.splits import EventTimeBounds, Split

_BEFORE_ALL: Final = -(2**63)


def in_event_time_order(splits: Sequence[Split]) -> tuple[Split, ...]:
    """By lower bound, upper bound, id; those without bounds first, so that the watermark need not wait for them."""
    return tuple(sorted(splits, key=_place))


def _place(split: Split) -> tuple[int, int, str]:
    match split.event_time:
        case EventTimeBounds(min_us, max_us):
            return (min_us, max_us, split.split_id)
        case _:
            return (_BEFORE_ALL, _BEFORE_ALL, split.split_id)


def digest_of(splits: Sequence[Split]) -> str:
    """The name of a list: 32 hexadecimal digits, the same for the same splits in the same order."""
    taken = hashlib.sha256()
    for split in splits:
        taken.update(split.split_id.encode() + b"\n")
    return taken.hexdigest()[:32]


def checked(splits: tuple[Split, ...], digest: str, table: str, at: str) -> tuple[Split, ...]:
    """The list, if it has that name; DataInvalidated if not."""
    found = digest_of(splits)
    if found != digest:
        raise DataInvalidated(
            f"the snapshot of table {table} at {at} that the stream was reading is another one now: its list of splits "
            f"is named {found} ({len(splits)} splits), expected {digest}. Files of the table changed under it, or the "
            "options by which splits are made (eventTime, where, splitBytes, metadata). Take back downstream what was "
            "read, and begin with a new checkpoint"
        )
    return splits


def cut(splits: Sequence[Split], first: int, limits: RoundLimits, rows_of: Callable[[Split], int]) -> int:
    """The end of the batch that begins with split `first`: at least one split behind it, as many as the limits allow.
    `rows_of` is asked only if rows are limited."""
    held, end = Amount(), first
    for split in splits[first:]:
        rows = rows_of(split) if limits.max_rows else 0
        held += Amount(len(files_of(split)), split.size_bytes, rows)
        if end > first and held.exceeds(limits):
            break
        end += 1
    return end


def files_of(split: Split) -> tuple[FileRef, ...]:
    """The files that reading the split takes."""
    if isinstance(split.part, GroupChanges):
        return tuple(file for step in split.part.steps for file in step.files)
    return split.logs if split.base is None else (split.base, *split.logs)


def as_inserts(split: Split, instant: InstantTime, place: int) -> Split:
    """The rows of a whole slice as inserts by one instant, at the split's order key; its group is number `place`."""
    files = SliceFiles(base=split.base, base_instant=split.base_instant, logs=split.logs)
    step = ChangeStep(instant=instant, order_key=split.order_key, place=place, source=ComparedStates(None, files))
    return replace(split, base=None, base_instant="", logs=(), part=GroupChanges((step,)))
