"""The texts of partition columns in partition paths. Pure.

Sources: Hudi `HoodieSparkUtils.parsePartitionColumnValues`, `PartitionPathEncodeUtils` (Hive's escapes).
`table.partitions.scalars` casts a text to its column's type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.table.config.properties import TableProperties

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""The path segment of a null value, from table version 5 on. Older tables, which are not read, wrote `default`."""

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

    A leading `<field>=` is removed from a segment, whatever `hoodie.datasource.write.hive_style_partitioning` is. With
    one field and several segments the whole path is the value. Returns None if the number of segments does not match
    the fields, or a segment has the name of another field: the columns must then be read from the file.
    """
    if not fields:
        return ()
    if not partition:
        return None
    segments = [partition] if len(fields) == 1 else partition.split("/")
    if len(segments) != len(fields):
        return None
    values: list[str | None] = []
    for segment, name in zip(segments, fields, strict=True):
        head, _, tail = segment.partition("=")
        own = head.lower() == name.lower()
        if not own and head.lower() in (field.lower() for field in fields) and tail:
            return None
        value = tail if own and "=" in segment else segment
        values.append(None if value == DEFAULT_PARTITION else unescape(value))
    return tuple(values)


def unescape(text: str) -> str:
    """Replaces each `%XX` by the character of that code, as Hive and Spark do; other `%` stay."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def path_value_fields(properties: TableProperties, partitions: Iterable[str] = ()) -> tuple[str, ...]:
    """The partition columns whose values come from the path: all of them, or () if they must be read from the file.

    Values come from the path with simple and complex key generators (also those of Spark SQL), and always if data files
    leave the columns out. They come from the file with timestamp-based, custom and user-defined key generators, with
    slash-separated dates, and if any of `partitions` does not match the fields.
    """
    fields = properties.partition_fields
    keygen = properties.keygen_name
    slash_dates = properties.raw.get("hoodie.datasource.write.slash.separated.date.partitioning", "")
    in_files = keygen not in _PATH_KEYGENS or slash_dates.strip().lower() == "true"
    if in_files and not properties.drop_partition_columns:
        return ()
    return () if any(partition_values(partition, fields) is None for partition in partitions) else fields
