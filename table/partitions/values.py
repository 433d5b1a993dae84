"""The texts of partition columns in partition paths. Pure.

Sources: Hudi `HoodieSparkUtils.parsePartitionColumnValues`, `PartitionPathEncodeUtils` (Hive's escapes).
`table.partitions.scalars` casts a text to its column's type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from penstock.table.config.properties import PARTITION_FIELDS, TableProperties

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
_TIMESTAMP_KEYGENS: Final = frozenset(
    {"TIMESTAMP", "TIMESTAMP_AVRO", "TIMESTAMPBASEDKEYGENERATOR", "TIMESTAMPBASEDAVROKEYGENERATOR"}
)
_CUSTOM_KEYGENS: Final = frozenset({"CUSTOM", "CUSTOM_AVRO", "CUSTOMKEYGENERATOR", "CUSTOMAVROKEYGENERATOR"})


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

    Values come from the path with simple and complex key generators (also those of Spark SQL), in bootstrapped tables
    with every key generator, also a user's, and always if data files leave the columns out. Otherwise they come from
    the file; so they do with slash-separated dates, and if any of `partitions` does not match the fields.
    """
    fields = properties.partition_fields
    slash_dates = properties.raw.get("hoodie.datasource.write.slash.separated.date.partitioning", "")
    of_path = properties.bootstrap_base_path or properties.keygen_name in _PATH_KEYGENS
    in_files = not of_path or slash_dates.strip().lower() == "true"
    if in_files and not properties.drop_partition_columns:
        return ()
    return () if any(partition_values(partition, fields) is None for partition in partitions) else fields


def text_fields(properties: TableProperties) -> tuple[str, ...]:
    """The partition columns that are strings, whatever their type in the recorded schema: all, if data files leave them
    out; in a bootstrapped table those that a timestamp-based or custom key generator formats, except nested ones.

    Hudi 1.2.0 returns such a column of a bootstrapped table as it is in the path, in every row and every query.
    """
    if properties.drop_partition_columns:
        return properties.partition_fields
    if not properties.bootstrap_base_path or not path_value_fields(properties):
        return ()
    if properties.keygen_name in _CUSTOM_KEYGENS:
        stated = (item.partition(":") for item in properties.raw.get(PARTITION_FIELDS, "").split(","))
        formatted = tuple(name.strip() for name, _, kind in stated if kind.strip().upper() == "TIMESTAMP")
    elif properties.keygen_name in _TIMESTAMP_KEYGENS:
        formatted = properties.partition_fields
    else:
        return ()
    return tuple(name for name in formatted if "." not in name)
