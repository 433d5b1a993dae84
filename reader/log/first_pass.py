"""The result of the first pass over a log: the values that decide which records win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np
import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.log.block_decoder import BlockRecords


@dataclass(frozen=True, slots=True)
class DataBlock:
    """A data block."""

    records: BlockRecords
    """Its records."""
    first: int
    """The arrival number of its first record."""


@dataclass(slots=True)
class FirstPass:
    """The values that decide, of all records in arrival order."""

    keys: list[pa.Array] = field(default_factory=list)
    """Record keys."""
    kinds: list[np.ndarray] = field(default_factory=list)
    """uint8 of `RecordKind`, parallel to `keys`."""
    ordering: list[Sequence[pa.Array]] = field(default_factory=list)
    """The values of each ordering column, parallel to `keys`."""
    rows: list[pa.RecordBatch] = field(default_factory=list)
    """Full rows, if a second pass would cost more than it saves."""
    data_blocks: list[DataBlock] = field(default_factory=list)
    """The data blocks."""
    records: int = 0
    """How many records there are."""
    block_records: list[int] = field(default_factory=list)
    """How many records each block has, delete blocks included."""

    def add(self, keys: pa.Array, kinds: np.ndarray, ordering: Sequence[pa.Array]) -> None:
        """Adds records."""
        self.keys.append(keys)
        self.kinds.append(kinds)
        self.ordering.append(ordering)
        self.records += len(keys)
