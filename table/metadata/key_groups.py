"""The file group of a metadata partition that holds a key, by the key's hash. Pure.

Source: Hudi `HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from penstock.table.files.slices import VisibleFiles

_GROUP: Final = re.compile(r"(?:record-index|bloom-filters)-(\d{4,9})-0", re.ASCII)


def keys_by_group(groups: Sequence[VisibleFiles], keys: Collection[str]) -> Mapping[VisibleFiles, Collection[str]]:
    """The keys to look up in each file group of the metadata partition."""
    numbers = [_number(files) for files in groups]
    if sorted(number for number in numbers if number is not None) != list(range(len(groups))):
        return dict.fromkeys(groups, keys)
    by_number: dict[int, list[str]] = {}
    for key in keys:
        by_number.setdefault(group_number(key, len(groups)), []).append(key)
    return {files: by_number[n] for files, n in zip(groups, numbers, strict=True) if n is not None and n in by_number}


def group_number(key: str, groups: int) -> int:
    """The number of the file group with the key, of so many in the metadata partition."""
    value = 0
    for unit in memoryview(key.encode("utf-16-le", "surrogatepass")).cast("H"):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return (value if value < 1 << 31 else (1 << 32) - value) % groups


def _number(files: VisibleFiles) -> int | None:
    name = _GROUP.fullmatch(files.files[0].name.file_id)
    return int(name[1]) if name else None
