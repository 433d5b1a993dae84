"""The partition path of each row, as Hudi's key generators make it. Distinct values are converted one by one.

Source: Hudi `KeyGenUtils.getPartitionPath`, `PartitionPathEncodeUtils.escapePathName`.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.proto.errors import CorruptFile, SchemaMismatch, UnsupportedFeature
from penstock.table.files.listing import MAX_DEPTH
from penstock.table.partitions.values import DEFAULT_PARTITION
from penstock.table.storage.filesystem import MAX_PATH_BYTES, checked_path
from penstock.writer.rows.timestamp_partitions import TimePartitions

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | {chr(code) for code in range(1, 0x20)}
"""The characters that `escapePathName` escapes."""


_MAX_COMBINATIONS: Final = 1 << 62
"""Combinations of the values of partition columns, which int64 numbers."""
_META_FOLDER: Final = ".hoodie"
_MAX_NAME_BYTES: Final = 255
"""Of a folder, as local file systems have it."""


@dataclass(frozen=True, slots=True)
class RowPartitions:
    """The partitions of rows."""

    paths: tuple[str, ...]
    """Distinct paths, sorted."""
    numbers: np.ndarray
    """int64: for each row the place of its path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPaths:
    """How a table makes partition paths."""

    fields: tuple[str, ...]
    """The partition columns; none for a table without partitions."""
    hive_style: bool
    """Whether a segment is `field=value`."""
    url_encode: bool
    """Whether special characters of a value are escaped."""
    times: Mapping[str, TimePartitions] = field(default_factory=dict)
    """The form of the columns whose values are times."""

    def of_rows(self, rows: pa.Table, where: str) -> RowPartitions:
        """The partitions of the rows. SchemaMismatch, beginning with `where`, for a value that makes no valid path."""
        if not self.fields:
            return RowPartitions(("",), np.zeros(rows.num_rows, np.int64))
        codes = np.zeros(rows.num_rows, np.int64)
        combinations = 1
        segments: list[list[str]] = []
        for name in self.fields:
            column = rows.column(name)
            if name in self.times and pa.types.is_timestamp(column.type):
                column = column.cast(pa.int64())  # Hudi's writers have the number that Avro stores
            if name in self.times:
                column = self.times[name].coarse(column)
            encoded = _encoded(column)
            segments.append([self._segment(name, value, where) for value in _values(encoded, name, where)])
            combinations *= max(1, len(segments[-1]))
            if combinations > _MAX_COMBINATIONS:
                raise SchemaMismatch(
                    f"{where}: the partition columns {', '.join(self.fields)} have {combinations} combinations of "
                    "values: partition by columns with fewer values"
                )
            codes = codes * max(1, len(segments[-1])) + encoded.indices.to_numpy().astype(np.int64)
        distinct, numbers = np.unique(codes, return_inverse=True)
        paths = [self._path(int(code), segments, where) for code in distinct]
        ordered = tuple(sorted(set(paths)))
        place = {path: number for number, path in enumerate(ordered)}
        return RowPartitions(ordered, np.array([place[path] for path in paths], np.int64)[numbers])

    def _path(self, code: int, segments: Sequence[Sequence[str]], where: str) -> str:
        parts: list[str] = []
        for values in reversed(segments):
            code, number = divmod(code, len(values))
            parts.append(values[number])
        path = "/".join(reversed(parts))
        if reason := _refusal(path):
            raise SchemaMismatch(
                f"{where}: the values of {', '.join(self.fields)} make the partition path {path[:200]!r}, {reason}; "
                "change the values; nothing was written"
            )
        return path

    def check_nesting(self, paths: Collection[str], existing: Collection[str], where: str) -> None:
        """SchemaMismatch if one of the paths is below another of them or of the `existing` ones, or above: no reader
        looks for partitions below a partition."""
        parents = {parent: path for path in (*existing, *paths) for parent in parents_of(path)}
        known = {*existing, *paths}
        for path in sorted(paths):
            below = parents.get(path)
            above = path if below is not None else next((one for one in parents_of(path) if one in known), None)
            if above is not None:
                raise SchemaMismatch(
                    f"{where}: partition {below or path!r} would be below partition {above!r}: readers do not look for "
                    f"partitions there; change the values of {', '.join(self.fields)}, which make the folders, or "
                    "create the table with url_encode_partitions=True; nothing was written"
                )

    def _segment(self, name: str, value: object, where: str) -> str:
        if name in self.times:
            text = self.times[name].text(value, f"{where}: partition column {name!r}")
            text = escaped(text) if self.url_encode else text
        else:
            text = DEFAULT_PARTITION if value is None or value == "" else self._text(name, value, where)
        return f"{name}={text}" if self.hive_style else text

    def _text(self, name: str, value: object, where: str) -> str:
        match value:
            case bool():
                text = str(value).lower()
            case str():
                text = value
            case int() | datetime.date() | decimal.Decimal() if not isinstance(value, datetime.datetime):
                text = str(value)  # a decimal as Java's `BigDecimal.toString`: `0E-10`
            case _:
                raise UnsupportedFeature(
                    f"{where}: partition column {name!r} holds {type(value).__name__} values: Hudi's writers disagree "
                    "on their text; partition by text, whole numbers, dates or booleans"
                )
        return escaped(text) if self.url_encode else text


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The column with a dictionary. Arrow unifies the dictionaries of chunks for some types only; a column of text may
    be too large for one array."""
    is_text = pa.types.is_string(column.type) and column.num_chunks
    whole = column if is_text else column.combine_chunks()
    encoded = pc.dictionary_encode(whole, null_encoding="encode")
    return encoded.combine_chunks() if is_text else encoded


def _values(encoded: pa.DictionaryArray, name: str, where: str) -> list[object]:
    """The values of the dictionary. SchemaMismatch for a date that Python does not have."""
    try:
        values: list[object] = encoded.dictionary.to_pylist()
    except OverflowError:
        raise SchemaMismatch(
            f"{where}: partition column {name!r} holds a date outside of the years 1 to 9999; change the values; "
            "nothing was written"
        ) from None
    return values


def parents_of(path: str) -> list[str]:
    """The paths above a partition path, without ''."""
    places = [place for place, character in enumerate(path) if character == "/"]
    return [path[:place] for place in places]


def _refusal(path: str) -> str:
    """Why a path cannot be that of a partition; '' if it can."""
    names = path.split("/")
    if _META_FOLDER in names:
        return f"which has a folder {_META_FOLDER}, the name of the metadata folder of tables"
    if not {"", ".", ".."}.isdisjoint(names):
        return "which has an empty part, '.' or '..'"
    if ":" in names[0]:
        return "which Hudi reads as a URI with a scheme: create the table with url_encode_partitions=True"
    if len(names) > MAX_DEPTH:
        return f"which has {len(names)} folders, at most {MAX_DEPTH} are read"
    longest = max(len(name.encode(errors="replace")) for name in names)
    if longest > _MAX_NAME_BYTES:
        return f"which has a folder name of {longest} bytes, at most {_MAX_NAME_BYTES} fit"
    try:
        checked_path(path)
    except CorruptFile:
        return f"which is no path of a folder, or longer than {MAX_PATH_BYTES} bytes"
    return ""


def escaped(text: str) -> str:
    """The text as `escapePathName` writes it: `%XX` for special characters, everything else as it is."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)
