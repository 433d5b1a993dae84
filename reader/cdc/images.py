"""The values that sources of changes pass to formats: the kind of change, and the rows before and after.

A source returns batches of changes in the order of `_change_seq` within its step.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import pyarrow as pa

from penstock.table.schema.avro import RecordSchema


class ChangeKind(IntEnum):
    """The kind of a change of a key."""

    INSERT = 0
    """The key is new."""
    UPDATE = 1
    """The key's row changed."""
    DELETE = 2
    """The key's row was deleted."""


class ImageStyle(StrEnum):
    """The origin of an image, which determines how Hudi writes it as JSON."""

    ENGINE = "engine"
    """A row of the table's columns, read from files."""
    RECORD = "record"
    """The same where Hudi holds Avro records (tables below version 8, whose changes only Hudi 0.15 reads correctly)."""
    LOGGED = "logged"
    """A record as the writer wrote it to a `.cdc` log."""


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """One side of a batch of changes. The values of a row whose kind of change has no such side are undefined."""

    rows: pa.RecordBatch
    """One row per change, with columns of `record`."""
    record: RecordSchema
    """The schema of the rows."""
    style: ImageStyle = ImageStyle.ENGINE
    """The origin."""


@dataclass(frozen=True, slots=True, eq=False)
class ChangeBatch:
    """Changes in order."""

    kinds: np.ndarray
    """uint8 of `ChangeKind`."""
    before: Images | None
    """The old rows of updates and deletes; None if no change of the batch has one."""
    after: Images | None
    """The new rows of inserts and updates; None if no change of the batch has one."""
    logged: frozenset[str] = frozenset()
    """The sides that the writer logged."""

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
    """Records of a stored changelog, as stored."""

    kinds: pa.Array
    """The `_change_type` of each row, as text."""
    rows: pa.RecordBatch
    """The rows."""


Batch = ChangeBatch | StoredBatch
