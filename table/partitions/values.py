"""Partition columns out of partition paths. Pure.

Sources: Hudi `HoodieSparkUtils.parsePartitionColumnValues`, `PartitionPathEncodeUtils` (Hive's escapes). Not here:
the cast of a value to its column's type (reader).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.table.config.properties import TableProperties

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The path segment of a null value, from table version 5 on. Older ones wrote `default`; this build reads none."""

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_PATH_KEYGENS: Final = frozenset(
    {
        "",
        "SIMPLE",
        "SIMPLE_AVRO",
        "COMPLEX",
        "COMPLEX_AVRO",
        "AUTO_RECORD",
        "SPARK_SQL",
        "SPARK_SQL_UUID",
        "SPARK_SQL_MERGE_INTO",
        "SIMPLEKEYGENERATOR",
        "SIMPLEAVROKEYGENERATOR",
        "COMPLEXKEYGENERATOR",
        "COMPLEXAVROKEYGENERATOR",
        "SQLKEYGENERATOR",
        "UUIDKEYGENERATOR",
        "MERGEINTOKEYGENERATOR",
    }
)


def partition_values(partition: str, fields: Sequence[str]) -> tuple[str | None, ...] | None:
    """The value of each partition field in a partition's path, unescaped; None for the null partition.

    `<field>=` in front of a segment is cut off, whether the table says hive style or not. One field and several
    segments: the whole path is the value. None overall if the number of segments does not fit, or a segment bears
    another field's name: the columns must then be read from the file.
    """
    if not fields:
        return ()
    if not partition:
        return None
    segments = [partition] if len(fields) == 1 else partition.split("/")
    if len(segments) != len(fields):
        return None
    found: list[str | None] = []
    for segment, name in zip(segments, fields, strict=True):
        head, _, tail = segment.partition("=")
        own = head.lower() == name.lower()
        if not own and head.lower() in (field.lower() for field in fields) and tail:
            return None
        value = tail if own and "=" in segment else segment
        found.append(None if value == DEFAULT_PARTITION else unescape(value))
    return tuple(found)


def unescape(text: str) -> str:
    """`%XX` replaced by the character of that code, always, as Hive and Spark do; other `%` stay."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def path_value_fields(properties: TableProperties, partitions: Iterable[str] = ()) -> tuple[str, ...]:
    """The partition columns whose values come from the path: all of them, or () if they must be read from the file.

    From the path with simple and complex key generators (their SQL kin included), and always if files leave the columns
    out; from the file with timestamp-based, custom and the user's own ones, with slash-separated dates, and if any of
    `partitions` does not fit the fields.
    """
    fields = properties.partition_fields
    keygen = properties.keygen_name
    slash_dates = properties.raw.get("hoodie.datasource.write.slash.separated.date.partitioning", "")
    in_files = keygen not in _PATH_KEYGENS or slash_dates.strip().lower() == "true"
    if in_files and not properties.drop_partition_columns:
        return ()
    return () if any(partition_values(partition, fields) is None for partition in partitions) else fields
