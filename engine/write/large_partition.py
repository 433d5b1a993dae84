"""A partition of a table without buckets, with more rows than are held in memory: its file groups one after the other.

The rows of a group may stand anywhere. First the group of each key is searched, for some of the keys at a time; the
rows are kept by group again, and then each group has its own rows, and its share of the new ones.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.engine.write.current_table import CurrentTable
from penstock.engine.write.index.assignment import Assigner
from penstock.engine.write.located_partition import LocatedPartition
from penstock.engine.write.prepared_rows import RowPreparation
from penstock.reader.merge.fold import RecordKind
from penstock.table.files.slices import GroupId
from penstock.writer.files.spilled_rows import SpilledRows
from penstock.writer.kernels.bucket import spread
from penstock.writer.rows.chunks import chunks_of

NEW: Final = 0
"""The part of the rows of new keys; that of the slice at place n of the partition is n + 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LargePartition:
    """The rows of a partition."""

    preparation: RowPreparation
    """How rows are prepared."""
    assigner: Assigner
    """Assigns rows to file groups."""
    current: CurrentTable
    """The table."""
    partition: str
    """Partition path."""
    most_bytes: int
    """About how many bytes of rows are in memory while keys are searched."""

    @contextlib.contextmanager
    def located(self, rows: SpilledRows, part: int) -> Iterator[tuple[SpilledRows, int, frozenset[GroupId]]]:
        """(the rows by the slice that has their key, how many, the groups whose base files have one of the keys in
        several rows), where `part` has the rows of the partition.

        Rows of one key are combined. Deletes of keys that the table does not have are left out, but counted.
        """
        where = self.preparation.settings.where
        schema = self.preparation.stored_schema(self.current, rows.schema)
        pieces = 1 + rows.size_bytes(part) // self.most_bytes
        with SpilledRows(schema, where) as by_slice:
            count = 0
            repeated: set[GroupId] = set()
            with SpilledRows(schema, where) as by_key:
                for chunk in chunks_of(rows.batches(part), rows.schema, self.most_bytes):
                    keyed = self.preparation.rows(self.current, chunk)[1]
                    numbers = np.concatenate([spread(keys, pieces) for keys in keyed.keys.chunks])
                    by_key.add(self.preparation.stored(keyed.rows), numbers)
                for piece in sorted(by_key.parts):
                    keyed = self.preparation.rows(self.current, by_key.table([piece]))[1]
                    keyed = self.preparation.combined(keyed)
                    count += len(keyed)
                    (location,) = self.assigner.located(self.current, keyed)[1]
                    repeated |= {location.slices[place].group for place in location.repeated}
                    kept = (location.places >= 0) | (keyed.kinds[location.rows] == RecordKind.DATA)
                    some = keyed.take(location.rows[kept])
                    by_slice.add(self.preparation.stored(some.rows), location.places[kept] + 1)
            yield by_slice, count, frozenset(repeated)

    def by_group(
        self, located: SpilledRows, new_part: int, *, by_slice: bool, repeated: frozenset[GroupId] = frozenset()
    ) -> LocatedPartition:
        """The file groups of rows that are `located`, or of new rows alone.

        new_part: the part of `located` with the rows of new keys. by_slice: whether the other parts are those of
        `located`. repeated: the groups whose base files have one of the keys in several rows.
        """
        slices = self.current.slices.of(self.partition) if by_slice else ()
        return LocatedPartition(
            preparation=self.preparation,
            assigner=self.assigner,
            current=self.current,
            partition=self.partition,
            rows=located,
            new_part=new_part,
            parts={item.file_id: place + 1 for place, item in enumerate(slices)},
            repeated=repeated,
        )
