"""Timestamps of ORC files before 1677 or after 2262, in microseconds.

Seconds and nanoseconds are decoded by the library of ORC from two views of the file (`orc_timestamps`), and added here.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from contextlib import closing
from itertools import zip_longest
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.proto.errors import SchemaMismatch
from penstock.reader.base.decoding.orc import read_orc
from penstock.reader.base.orc.other_end import with_other_end
from penstock.reader.values.leaves import leaf_types, leaves, with_leaves
from penstock.table.arrow_arrays import arrow_array, numpy_array
from penstock.table.arrow_compute import pc
from penstock.table.orc_tail import orc_tail
from penstock.table.orc_timestamps import end_of_nanoseconds, end_of_seconds

BASE_S: Final = 1_420_070_400
"""2015-01-01 in UTC, in seconds since 1970."""
_MICROS: Final = 1_000_000
_SECOND: Final = 1_000_000_000
_FRACTION: Final = 999_999
"""The most nanoseconds with which a second before 1970 is stored as it is; with more it is stored as the next one."""
_MOST_SECONDS: Final = (1 << 63) // _MICROS - 2 * BASE_S
"""Before and after 2015, such that the microseconds since 1970 are an int64."""


class FarTimes:
    """Reads the columns of one file with their timestamps in microseconds."""

    def __init__(self, source: pa.NativeFile, schema: pa.Schema, offset_s: int, where: str) -> None:
        """`schema`: the columns of the file. `offset_s`: how many seconds after 2015 in UTC it was 2015 in the writer's
        zone. `where` names the file. The source stays open.

        Errors: pa.ArrowInvalid for damage; OSError.
        """
        self._where = where
        self._offsets = {field.name: [_offset(leaf, offset_s) for leaf in leaf_types(field.type)] for field in schema}
        self._kinds = {field.name: in_micros(field.type) for field in schema}
        tail = orc_tail(source)
        self._seconds = with_other_end(source, tail, end_of_seconds(tail))
        self._nanoseconds = with_other_end(source, tail, end_of_nanoseconds(source, tail))

    def has(self, columns: Collection[str]) -> bool:
        """Whether there are timestamps in these columns."""
        return any(offset is not None for name in columns for offset in self._offsets[name])

    def batches(
        self, columns: Sequence[str], rows: int, most: int | None = None
    ) -> Generator[pa.RecordBatch, None, None]:
        """These columns in batches of at most `rows` rows; at most `most` batches.

        Errors: those of `read_orc`; SchemaMismatch for a timestamp that is not whole microseconds.
        """
        times = [name for name in columns if self.has((name,))]
        with (
            closing(read_orc(self._seconds, columns, rows, most)) as seconds,
            closing(read_orc(self._nanoseconds, times, rows, most)) as nanoseconds,
        ):
            for batch, beside in zip_longest(seconds, nanoseconds):
                if batch is None or beside is None or beside.num_rows != batch.num_rows:
                    raise pa.ArrowInvalid("timestamps with another number of seconds than of nanoseconds")
                arrays = [
                    self._column(name, batch.column(name), beside.column(name)) if name in times else batch.column(name)
                    for name in columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, name: str, seconds: pa.Array, nanoseconds: pa.Array) -> pa.Array:
        remaining = zip(self._offsets[name], leaves(nanoseconds), strict=True)

        def micros(leaf: pa.Array) -> pa.Array:
            offset, part = next(remaining)
            return leaf if offset is None else self._leaf(name, leaf, part, offset)

        return with_leaves(seconds, micros).cast(self._kinds[name])

    def _leaf(self, name: str, seconds: pa.Array, nanoseconds: pa.Array, offset_s: int) -> pa.Array:
        if seconds.type != pa.int64() or not pa.types.is_timestamp(nanoseconds.type):
            raise pa.ArrowInvalid(f"timestamps as {seconds.type} and {nanoseconds.type}")
        if len(seconds) != len(nanoseconds) or seconds.null_count != nanoseconds.null_count:
            raise pa.ArrowInvalid("timestamps with other seconds than nanoseconds")
        whole = numpy_array(pc.fill_null(seconds, 0))
        parts = numpy_array(pc.fill_null(nanoseconds.cast(pa.int64()), BASE_S * _SECOND)) - BASE_S * _SECOND
        if len(whole) and not -_MOST_SECONDS <= whole.min() <= whole.max() <= _MOST_SECONDS:
            raise pa.ArrowInvalid("a timestamp out of range for microseconds")
        if np.any((parts <= -_SECOND) | (parts >= _SECOND)):
            raise pa.ArrowInvalid("a timestamp of more nanoseconds than a second has")
        if np.any(parts % 1000):
            raise SchemaMismatch(
                f"{self._where}: column {name!r} has timestamps before 1677 or after 2262, and some in nanoseconds, "
                "which no type holds; read other columns"
            )
        whole = whole + (BASE_S + offset_s)
        whole -= (whole < 0) & (parts > _FRACTION)
        mask = None if seconds.null_count == 0 else ~numpy_array(seconds.is_valid())
        return arrow_array(whole * _MICROS + parts // 1000, pa.int64(), mask=mask)


def in_micros(kind: pa.DataType) -> pa.DataType:
    """The type with microseconds as the unit of all timestamps."""
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_map(kind):
        key, item = (field.with_type(in_micros(field.type)) for field in (kind.key_field, kind.item_field))
        return pa.map_(key, item)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(in_micros(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(in_micros(field.type)) for field in kind])
    return kind


def _offset(leaf: pa.DataType, offset_s: int) -> int | None:
    if not pa.types.is_timestamp(leaf):
        return None
    return offset_s if leaf.tz is None else 0
