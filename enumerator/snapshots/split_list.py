"""The list of a snapshot's splits: its order, its digest, and the end of a batch in it. Pure."""

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
    """The splits by lower bound, upper bound and id. Splits without bounds come first, so that they do not hold the
    watermark back at the end."""
    return tuple(sorted(splits, key=_event_time_key))


def _event_time_key(split: Split) -> tuple[int, int, str]:
    match split.event_time:
        case EventTimeBounds(min_us, max_us):
            return (min_us, max_us, split.split_id)
        case _:
            return (_BEFORE_ALL, _BEFORE_ALL, split.split_id)


def digest_of(splits: Sequence[Split]) -> str:
    """The digest of a list, 32 hex digits: equal for equal splits in the same order."""
    digest = hashlib.sha256()
    for split in splits:
        digest.update(split.split_id.encode() + b"\n")
    return digest.hexdigest()[:32]


def verified(splits: tuple[Split, ...], digest: str, table: str, at: str) -> tuple[Split, ...]:
    """The list. DataInvalidated if its digest is another one."""
    actual = digest_of(splits)
    if actual != digest:
        raise DataInvalidated(
            f"the snapshot of table {table} at {at} that the stream was reading has changed: the digest of its splits "
            f"is {actual} ({len(splits)} splits), expected {digest}. Files of the table changed, or an option that "
            "determines the splits (eventTime, where, splitBytes, metadata). Remove the rows that were read from the "
            "sink, and start with a new checkpoint"
        )
    return splits


def batch_end(splits: Sequence[Split], first: int, limits: RoundLimits, max_rows_of: Callable[[Split], int]) -> int:
    """The end of the batch that starts with split `first`: as many splits as the limits allow, at least one.

    `max_rows_of` is called only if rows are limited.
    """
    amount, end = Amount(), first
    for split in splits[first:]:
        rows = max_rows_of(split) if limits.max_rows else 0
        amount += Amount(len(files_of(split)), split.size_bytes, rows)
        if end > first and amount.exceeds(limits):
            break
        end += 1
    return end


def files_of(split: Split) -> tuple[FileRef, ...]:
    """The files that the split reads."""
    if isinstance(split.part, GroupChanges):
        return tuple(file for step in split.part.steps for file in step.files)
    return split.logs if split.base is None else (split.base, *split.logs)


def as_inserts(split: Split, instant: InstantTime, place: int) -> Split:
    """A split that returns the rows of a whole slice as inserts of one instant, at the slice's order key. `place` is
    the number of its file group."""
    files = SliceFiles(base=split.base, base_instant=split.base_instant, logs=split.logs)
    step = ChangeStep(instant=instant, order_key=split.order_key, place=place, source=ComparedStates(None, files))
    return replace(split, base=None, base_instant="", logs=(), part=GroupChanges((step,)))
