"""Values that sources of changes hand to formats: what happened, and the rows before and after. No I/O, no decisions.

A source yields batches of changes in the order of `_change_seq` within its step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import pyarrow as pa

from penstock.table.schema.avro import RecordSchema


class ChangeKind(IntEnum):
    """What happened to a key."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


class ImageStyle(StrEnum):
    """Where an image comes from, which decides how Hudi spells it as JSON: `ENGINE` rows of the table's columns, read
    from files; `RECORD` the same where Hudi holds Avro records of them (tables below version 8, whose changes it reads
    right in 0.15 alone); `LOGGED` records as the writer put them into a `.cdc` log."""

    ENGINE = "engine"
    RECORD = "record"
    LOGGED = "logged"


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """One side of a batch of changes: a row each, its columns those of `record` or a choice of them; what is in a row
    where the kind of change has no such side means nothing."""

    rows: pa.RecordBatch
    record: RecordSchema
    style: ImageStyle = ImageStyle.ENGINE


@dataclass(frozen=True, slots=True, eq=False)
class ChangeBatch:
    """Changes in order. `kinds` (uint8) are ChangeKinds; `before` has the old rows of updates and deletes, `after` the
    new ones of inserts and updates; None where no change of the batch has that side. `logged` are the sides that the
    writer logged."""

    kinds: np.ndarray
    before: Images | None
    after: Images | None
    logged: frozenset[str] = frozenset()

    @property
    def has_before(self) -> np.ndarray:
        """Which changes have an old row."""
        return np.asarray(self.kinds != ChangeKind.INSERT)

    @property
    def has_after(self) -> np.ndarray:
        """Which changes have a new row."""
        return np.asarray(self.kinds != ChangeKind.DELETE)


@dataclass(frozen=True, slots=True, eq=False)
class StoredBatch:
    """Records of a stored changelog, as stored: `kinds` are texts of `_change_type`, a row each."""

    kinds: pa.Array
    rows: pa.RecordBatch


Batch = ChangeBatch | StoredBatch
