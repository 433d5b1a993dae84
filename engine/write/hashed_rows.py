"""Many rows of a write with a global index: kept by the hash of their key, then by the file group that they belong to.

Rows of a key may stand anywhere, in any partition, and their key may be stored in another one. So some of the keys at a
time are combined and searched in the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.located_partition import LocatedPartition, schema_with_kinds, with_kinds
from penstock.engine.write.prepared_rows import RowPreparation
from penstock.table.files.slices import GroupId
from penstock.writer.files.spilled_rows import SpilledRows, pieces_of
from penstock.writer.index.locations import Location
from penstock.writer.index.slices import GroupWrite
from penstock.writer.kernels.bucket import spread
from penstock.writer.rows.keyed_rows import KeyedRows
from penstock.writer.rows.write_schema import WriteSchema

PARTS: Final = 256
"""Parts by the hash of keys. One of them is in memory at a time, or several small ones."""


@dataclass(slots=True, kw_only=True)
class HashedRows:
    """Rows in a temporary file, by the hash of their key. `incoming_rows.IncomingRows`."""

    preparation: RowPreparation
    """How they are prepared."""
    spilled: SpilledRows
    """The rows."""
    most_bytes: int
    """About how many bytes of rows are in memory while their keys are searched."""
    num_rows: int = 0
    """How many rows there are, after the combination of repeated keys."""
    _partitions: set[str] = field(default_factory=set)
    _read_rows: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return not self._read_rows

    @property
    def partitions(self) -> Sequence[str]:
        """The partitions of the rows."""
        return sorted(self._partitions)

    def add(self, data: pa.Table, early: CurrentTable, assigner: Assigner) -> None:
        """Adds a chunk of the data."""
        _, rows = self.preparation.rows(early, data, first_row=self._read_rows)
        self._read_rows += len(rows)
        self._partitions.update(rows.partitions.paths)
        if len(rows):
            parts = np.concatenate([spread(keys, PARTS) for keys in rows.keys.chunks])
            self.spilled.add(self.preparation.stored(rows.rows), parts)

    def schema(self, current: CurrentTable) -> WriteSchema:
        """The schema of the write in a state of the table."""
        return self.preparation.rows(current, self.spilled.schema.empty_table())[0]

    def group_writes(self, current: CurrentTable, assigner: Assigner) -> Iterator[tuple[GroupWrite, KeyedRows]]:
        """The file groups with their rows, each group once. Errors of `Assigner.group_writes`, after some groups too.

        Each piece of the rows reads the keys of the table, or the footers of its base files.
        """
        sizes = assigner.sizes_of(current)
        schema = schema_with_kinds(self.preparation.stored_schema(current, self.spilled.schema))
        with SpilledRows(schema, self.preparation.settings.where) as located:
            parts: dict[str, dict[str, int]] = {}
            repeated: set[GroupId] = set()
            for piece in pieces_of(self.spilled, sorted(self.spilled.parts), self.most_bytes):
                keyed = self.preparation.combined(self.preparation.rows(current, self.spilled.table(piece))[1])
                self.num_rows += len(keyed)
                rows, locations = assigner.located(current, keyed)
                locations = list(locations)
                numbers = _numbers(rows, locations, parts)
                repeated.update(one.slices[place].group for one in locations for place in one.repeated)
                located.add(with_kinds(self.preparation.stored(rows.rows), rows.kinds), numbers)
            for partition in sorted(parts):
                left = self._partition(located, partition, parts[partition], current, assigner, frozenset(repeated))
                yield from left.group_writes(sizes)

    def _partition(
        self,
        located: SpilledRows,
        partition: str,
        parts: dict[str, int],
        current: CurrentTable,
        assigner: Assigner,
        repeated: frozenset[GroupId],
    ) -> LocatedPartition:
        return LocatedPartition(
            preparation=self.preparation,
            assigner=assigner,
            current=current,
            partition=partition,
            rows=located,
            new_part=parts.get(_NEW, -1),
            parts=parts,
            repeated=repeated,
            has_kinds=True,
        )


_NEW: Final = ""
"""Stands for the file id of new rows."""


def _numbers(rows: KeyedRows, locations: Iterable[Location], parts: dict[str, dict[str, int]]) -> np.ndarray:
    """The part of each row: one for each file group, and one for the new rows of each partition. New ones are added to
    `parts`: partition -> file id -> part."""
    numbers = np.empty(len(rows), np.int64)
    count = sum(map(len, parts.values()))
    for location in locations:
        of_partition = parts.setdefault(location.partition, {})
        for place in np.unique(location.places):
            file_id = location.slices[place].file_id if place >= 0 else _NEW
            if file_id not in of_partition:
                of_partition[file_id] = count
                count += 1
            numbers[location.of_slice(place)] = of_partition[file_id]
    return numbers
