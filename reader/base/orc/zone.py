"""Timestamps of ORC files whose writer was in another time zone than UTC, as the instants that it wrote.

ORC stores a timestamp as the time since 2015-01-01 00:00 in the writer's zone, which each stripe names. Its library
turns it into the wall-clock time of that zone, so that two instants become one in the hour that a clock shows twice. It
reads a column of the type TIMESTAMP_INSTANT without a zone. So a footer that declares all timestamps as that type gives
the stored numbers, and the zone's time at the start of 2015 makes them instants. Source: `TimestampColumnReader` of
ORC's C++ library, `TimestampTreeWriter` and `TimestampTreeReader` of its Java library.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import UnsupportedFeature
from penstock.reader.base.orc.other_end import with_other_end
from penstock.reader.values.leaves import leaf_types, with_leaves, with_values
from penstock.table.orc_tail import OrcTail, orc_tail, writer_zones
from penstock.table.orc_timestamps import end_of_instants

_UTC: Final = frozenset({"", "UTC", "GMT", "Etc/UTC"})
"""Zones that ORC's library reads as instants; '' for a stripe without a zone."""
_CUSTOM: Final = re.compile(r"GMT([+-])([0-9]{1,2}):?([0-9]{2})?", re.ASCII)
"""A zone by number: the JVM's default zone if its option is `GMT+2`."""
_BASE: Final = datetime(2015, 1, 1, tzinfo=UTC)
_SECOND: Final = 1_000_000_000
_MOST_NANOSECONDS: Final = (1 << 63) - 1 - 2 * 86_400 * _SECOND
"""Before and after 1970, such that the offset of a zone can be added."""
_FRACTION: Final = 999_999
"""The most nanoseconds with which a second before 1970 is stored as it is; with more it is stored as the next one."""


class WriterZone:
    """Reads the timestamps of one file as instants."""

    def __init__(self, source: pa.NativeFile, schema: pa.Schema, offset_s: int, tail: OrcTail) -> None:
        self._flags = {field.name: [_is_local(leaf) for leaf in leaf_types(field.type)] for field in schema}
        self._shift = offset_s * _SECOND
        self.offset_s: Final = offset_s
        """How many seconds after 2015 in UTC it was 2015 in the writer's zone."""
        self.source: Final = with_other_end(source, tail, end_of_instants(tail))
        """The file with a footer that declares each timestamp as TIMESTAMP_INSTANT. It leaves the given one open."""

    def instants(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of `source` with the written instants; types and nulls are unchanged."""
        columns = [self._column(batch.column(place), name) for place, name in enumerate(batch.schema.names)]
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _column(self, column: pa.Array, name: str) -> pa.Array:
        flags = self._flags.get(name, ())
        if not any(flags):
            return column
        remaining = iter(flags)
        return with_leaves(column, lambda leaf: self._leaf(leaf) if next(remaining) else leaf)

    def _leaf(self, leaf: pa.Array) -> pa.Array:
        bounds = pc.min_max(leaf.view(pa.int64())).as_py()
        if any(abs(bound or 0) > _MOST_NANOSECONDS for bound in bounds.values()):
            raise pa.ArrowInvalid("a timestamp out of range for nanosecond resolution")
        return with_values(leaf, np.int64, self._moved)

    def _moved(self, values: np.ndarray) -> np.ndarray:
        """Seconds before 1970 with a fraction are stored as the next second; the library moved those that are before
        1970 without the shift."""
        has_fraction = values % _SECOND > _FRACTION
        stored = values + np.where((values < 0) & has_fraction, _SECOND, 0)
        moved = stored + self._shift
        return moved - np.where((moved < 0) & has_fraction, _SECOND, 0)


def writer_zone(source: pa.NativeFile, schema: pa.Schema, where: str) -> WriterZone | None:
    """None if `schema`, the columns to be read, has no timestamps, or the file's writer was in UTC. `where` names the
    file.

    Errors: UnsupportedFeature for an unknown zone; pa.ArrowInvalid for damage; OSError.
    """
    if not any(_is_local(leaf) for field in schema for leaf in leaf_types(field.type)):
        return None
    tail = orc_tail(source)
    zones = set(writer_zones(source, tail))
    if zones <= _UTC:
        return None
    if len(zones) > 1:
        raise pa.ArrowInvalid(f"stripes of several time zones: {', '.join(sorted(zones))[:200]}")
    (zone,) = zones
    return WriterZone(source, schema, _base_offset_s(zone, where), tail)


def _is_local(leaf: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(leaf) and leaf.tz is None)


def _base_offset_s(zone: str, where: str) -> int:
    """How many seconds after 2015 in UTC it was 2015 in the zone."""
    return int((_BASE.replace(tzinfo=_zone(zone, where)) - _BASE).total_seconds())


def _zone(name: str, where: str) -> tzinfo:
    if (match := _CUSTOM.fullmatch(name)) is not None and int(match[2]) < 24 and int(match[3] or 0) < 60:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        return timezone(-offset if match[1] == "-" else offset)
    from zoneinfo import ZoneInfo  # late: most files are written in UTC

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise UnsupportedFeature(
            f"ORC timestamps of time zone {name[:80]!r}, which is unknown here: {where}; install the package `tzdata`, "
            "or read other columns"
        ) from error
