"""The manifest of a table of Parquet files: which files are the table, its layout and its positions. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.targets.rows import layout_text, parsed_layout

FORMAT: Final = 1
WRITE_COLUMN: Final = "_write"
"""The column of each file with the number of the write."""
ROWS: Final = "rows"
REMOVED: Final = "removed"
FILES_OF_A_TIER: Final = 32
"""So many files of one source and tier become one file of the next tier."""
LARGEST_BYTES: Final = 128 << 20
"""Larger files are not written again."""
_PATH: Final = re.compile(r"(rows|removed)/[0-9]{1,19}-[0-9a-f]{32}\.parquet")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows or of removed keys."""

    file: str
    """Its path below the table's folder."""
    source: str
    """The id of the source of its rows."""
    rows: int
    """Its rows."""
    bytes: int
    """Its size."""
    tier: int = 0
    """How often its rows were written again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The state of a table after a write."""

    write: int
    """The number of the write, from 1."""
    layout: TargetLayout
    """The columns and key."""
    positions: Mapping[str, str]
    """The position of each source."""
    rows: tuple[DataFile, ...]
    """Rows. Each has the number of its write."""
    removed: tuple[DataFile, ...]
    """Keys whose rows of smaller numbers are removed."""
    obsolete: tuple[str, ...] = ()
    """Files of earlier manifests, which a reader may still read. The next rewrite deletes them."""


def manifest_text(manifest: Manifest) -> str:
    """The JSON of a manifest."""
    values: dict[str, Any] = {
        "format": FORMAT,
        "write": manifest.write,
        "key": list(manifest.layout.key),
        "layout": layout_text(manifest.layout),
        "positions": dict(manifest.positions),
        "obsolete": list(manifest.obsolete),
    }
    for kind, files in ((ROWS, manifest.rows), (REMOVED, manifest.removed)):
        values[kind] = [
            {"file": one.file, "source": one.source, "rows": one.rows, "bytes": one.bytes, "tier": one.tier}
            for one in files
        ]
    return json.dumps(values, indent=1)


def parsed_manifest(text: bytes) -> Manifest:
    """The manifest of a JSON. ValueError, KeyError, TypeError or pyarrow.ArrowException for another content."""
    values = json.loads(text)
    if values["format"] != FORMAT:
        raise ValueError(f"format {values['format']!r}, expected {FORMAT}")
    files = {
        kind: tuple(
            DataFile(_path(one["file"]), str(one["source"]), int(one["rows"]), int(one["bytes"]), int(one["tier"]))
            for one in values[kind]
        )
        for kind in (ROWS, REMOVED)
    }
    return Manifest(
        write=int(values["write"]),
        layout=parsed_layout(values["layout"]),
        positions={str(source): str(position) for source, position in values["positions"].items()},
        rows=files[ROWS],
        removed=files[REMOVED],
        obsolete=tuple(_path(one) for one in values["obsolete"]),
    )


def combinable(files: Sequence[DataFile]) -> list[list[DataFile]]:
    """The groups of files that become one file each."""
    groups: dict[tuple[str, int], list[DataFile]] = {}
    for one in files:
        if one.bytes < LARGEST_BYTES:
            groups.setdefault((one.source, one.tier), []).append(one)
    return [group for group in groups.values() if len(group) >= FILES_OF_A_TIER]


def column_problem(columns: pa.Schema) -> str:
    """Why the files cannot hold these columns; '': they can."""
    for index, one in enumerate(columns):
        if not one.name or one.name == WRITE_COLUMN or columns.get_field_index(one.name) != index:
            return f"column {one.name!r}: the name is empty, not the only one, or {WRITE_COLUMN}"
        if not is_stored(one.type):
            return f"column {one.name}: Parquet has no type for {one.type}"
    return ""


def is_stored(arrow_type: pa.DataType) -> bool:
    """Whether Parquet holds the values of the type."""
    if pa.types.is_list(arrow_type):
        return is_stored(arrow_type.value_type)
    if pa.types.is_map(arrow_type):
        return is_stored(arrow_type.key_type) and is_stored(arrow_type.item_type)
    if pa.types.is_struct(arrow_type):
        return arrow_type.num_fields > 0 and all(is_stored(one.type) for one in arrow_type.fields)
    return arrow_type in _STORED or pa.types.is_decimal128(arrow_type)


def _path(text: Any) -> str:
    if not isinstance(text, str) or not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not the path of a file of a table")
    return text


_STORED: Final = frozenset(
    {
        pa.bool_(), pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.string(), pa.binary(),
        pa.date32(), pa.time64("us"), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    }
)  # fmt: skip
