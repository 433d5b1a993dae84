"""Reads the footers of base files, in parallel and once per process: the facts that decide who reads a file.

A footer takes one or two requests to the storage. The files of a table never change, so their facts are kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.spark.slices.layout import FileLayout, layout_of
from penstock.proto.errors import PenstockError
from penstock.proto.model.files import FileRef
from penstock.table.parquet.checks import ParquetError, check_statistics, read_footer
from penstock.table.parquet.legacy_calendar import legacy_calendar
from penstock.table.storage.filesystem import Storage

_THREADS: Final = 32
_MOST_FILES: Final = 50_000
_MOST_LAYOUTS: Final = 256
_SINGLE_VALUES: Final = ("BYTE_ARRAY", "INT32", "INT64", "BOOLEAN")
"""Physical types whose equal lowest and highest value prove that a column has one value."""


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts of a base file."""

    size_bytes: int
    """Its size on storage."""
    row_groups: int
    """The number of row groups."""
    layout: FileLayout
    """Its columns. Files with the same columns share the object."""
    writer: str
    """The library that wrote it, '' if unknown."""
    legacy_calendar: bool
    """Whether it has dates or timestamps of the legacy calendar."""
    single_values: Mapping[str, object] = field(default_factory=dict)
    """Of the columns that were asked for: those with the same value in every row, by the footer's statistics."""


class FooterFacts:
    """The facts of the files that this process read. Safe to call from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._facts: OrderedDict[tuple[str, str, tuple[str, ...]], FileFacts] = OrderedDict()
        self._layouts: OrderedDict[str, FileLayout] = OrderedDict()

    def of(
        self, storage: Storage, files: Sequence[FileRef], single_value_columns: tuple[str, ...]
    ) -> list[FileFacts | None]:
        """The facts of each file; None for a file that cannot be read here, or not as Parquet.

        `single_value_columns`: the columns for which `single_values` is determined. If the first file cannot be opened
        because the storage fails, no other file is tried.
        """
        if not files:
            return []

        def read(ref: FileRef) -> FileFacts | None:
            return self._of_file(storage, ref, single_value_columns)

        first = read(files[0])
        if first is None or len(files) == 1:
            return [first, *(map(read, files[1:]) if first is not None else [None] * (len(files) - 1))]
        with ThreadPoolExecutor(min(_THREADS, len(files) - 1), "penstock-footers") as pool:
            return [first, *pool.map(read, files[1:])]

    def _of_file(self, storage: Storage, ref: FileRef, columns: tuple[str, ...]) -> FileFacts | None:
        key = (storage.base_path, ref.path, columns)
        with self._lock:
            if (known := self._facts.get(key)) is not None:
                self._facts.move_to_end(key)
                return known
        try:
            with storage.open_input(ref.path) as source:
                facts = self._read(source, columns)
        except (OSError, pa.ArrowException, ParquetError, PenstockError):
            return None
        with self._lock:
            self._facts[key] = facts
            if len(self._facts) > _MOST_FILES:
                self._facts.popitem(last=False)
        return facts

    def _read(self, source: pa.NativeFile, columns: tuple[str, ...]) -> FileFacts:
        footer = read_footer(source)
        layout = self._layout(footer)
        return FileFacts(
            size_bytes=source.size(),
            row_groups=footer.num_row_groups,
            layout=layout,
            writer=footer.created_by or "",
            legacy_calendar=legacy_calendar(footer.metadata) is not None,
            single_values=_single_values(source, footer, layout, columns) if columns else {},
        )

    def _layout(self, footer: pq.FileMetaData) -> FileLayout:
        text = str(footer.schema).partition("\n")[2]  # the first line names the Python object
        with self._lock:
            layout = self._layouts.get(text)
            if layout is None:
                layout = self._layouts[text] = layout_of(footer)
                if len(self._layouts) > _MOST_LAYOUTS:
                    self._layouts.popitem(last=False)
            return layout


def _single_values(
    source: pa.NativeFile, footer: pq.FileMetaData, layout: FileLayout, columns: tuple[str, ...]
) -> dict[str, object]:
    places = {
        leaf.path: place
        for place, leaf in enumerate(layout.leaves)
        if leaf.path in columns and leaf.physical in _SINGLE_VALUES
    }
    if not places or not footer.num_row_groups:
        return {}
    check_statistics(source)
    values: dict[str, object] = {}
    for column, place in places.items():
        seen = {_single_value(footer.row_group(number).column(place)) for number in range(footer.num_row_groups)}
        if len(seen) == 1 and (value := seen.pop()) is not None:
            values[column] = value
    return values


def _single_value(chunk: pq.ColumnChunkMetaData) -> object:
    """The value of every row of the column chunk; None if the statistics do not prove one."""
    try:
        statistics = chunk.statistics
        if statistics is None or not statistics.has_min_max or not statistics.has_null_count or statistics.null_count:
            return None
        low, high = statistics.min, statistics.max
    except (OSError, ValueError, TypeError, OverflowError, pa.ArrowException):
        return None
    return low if type(low) is type(high) and low == high else None
