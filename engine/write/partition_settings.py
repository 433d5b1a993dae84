"""How a table makes partition paths, by its key generator, and the refusal of those that are not written."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.engine.write.current_table import CurrentTable
from penstock.proto.errors import ConfigurationError, TableError, UnsupportedFeature
from penstock.table.config.properties import TableProperties
from penstock.table.files.listing import PARTITION_MARKER
from penstock.table.storage.filesystem import FileInfo
from penstock.writer.rows.partition_paths import PartitionPaths, parents_of
from penstock.writer.rows.timestamp_partitions import PREFIX, TimePartitions, recorded_option, time_partitions

SIMPLE_KEYS: Final = ("SIMPLE", "SIMPLE_AVRO", "SIMPLEKEYGENERATOR", "SIMPLEAVROKEYGENERATOR")
COMPLEX_KEYS: Final = ("COMPLEX", "COMPLEX_AVRO", "COMPLEXKEYGENERATOR", "COMPLEXAVROKEYGENERATOR")
_UNPARTITIONED: Final = (
    "NON_PARTITION",
    "NON_PARTITION_AVRO",
    "NONPARTITIONEDKEYGENERATOR",
    "NONPARTITIONEDAVROKEYGENERATOR",
)
_TIMES: Final = (
    "TIMESTAMP",
    "TIMESTAMP_AVRO",
    "TIMESTAMPBASEDKEYGENERATOR",
    "TIMESTAMPBASEDAVROKEYGENERATOR",
)
_CUSTOM: Final = ("CUSTOM", "CUSTOM_AVRO", "CUSTOMKEYGENERATOR", "CUSTOMAVROKEYGENERATOR")
_FIELDS: Final = "hoodie.table.partition.fields"


def partition_paths(properties: TableProperties, time_options: Mapping[str, str], where: str) -> PartitionPaths:
    """How the table makes partition paths.

    time_options: the form of time partitions, if the table does not record it. UnsupportedFeature, beginning with
    `where`, for a key generator that is not written; ConfigurationError for time partitions whose form is neither
    recorded nor given, or is given and does not fit; TableError for a key generator that does not fit the columns.
    """
    kind, fields, raw = properties.keygen_name, properties.partition_fields, properties.raw
    known = (*SIMPLE_KEYS, *COMPLEX_KEYS, *(_TIMES + _CUSTOM if fields else _UNPARTITIONED))
    if kind and kind not in known:
        raise UnsupportedFeature(f"{where}: partitions of key generator {kind} are not written yet")
    if not kind and len(fields) > 1:
        raise TableError(f"{where} records no key generator for {len(fields)} partition columns")
    slash_dates = raw.get("hoodie.datasource.write.slash.separated.date.partitioning", "")
    if slash_dates.strip().lower() == "true":
        raise UnsupportedFeature(f"{where}: slash separated dates as partitions are not written yet")
    return PartitionPaths(
        fields=fields,
        hive_style=_flag(raw.get("hoodie.datasource.write.hive_style_partitioning", "")),
        url_encode=_flag(raw.get("hoodie.datasource.write.partitionpath.urlencode", "")),
        times=_times(properties, time_options, where),
    )


def check_new_partitions(paths: PartitionPaths, current: CurrentTable, written: Collection[str], where: str) -> None:
    """SchemaMismatch if a partition that is written is below or above another one, or below the folder of a former
    one: readers do not look for partitions below a partition."""
    existing = current.slices.by_partition
    searched = {parent for path in existing for parent in parents_of(path)}
    new = {parent for path in written if path not in existing for parent in parents_of(path)} - searched
    storage = current.table.storage
    former = [path for path in sorted(new) if any(map(_marks_partition, storage.list_dir(path)))]
    paths.check_nesting(written, (*existing, *former), where)


def _marks_partition(info: FileInfo) -> bool:
    return info.name.startswith(PARTITION_MARKER) and not info.is_dir


def _times(properties: TableProperties, given: Mapping[str, str], where: str) -> dict[str, TimePartitions]:
    """The columns whose values are times, with the form of their paths."""
    if properties.keygen_name in _TIMES:
        names = properties.partition_fields
        if len(names) != 1:
            raise TableError(f"{where}: key generator {properties.keygen_name} with {len(names)} columns, expected one")
    elif properties.keygen_name in _CUSTOM:
        pairs = [name.strip().partition(":") for name in properties.raw.get(_FIELDS, "").split(",")]
        if unknown := [name for name, _, kind in pairs if kind.upper() not in ("SIMPLE", "TIMESTAMP")]:
            raise ConfigurationError(
                f"{where}: {_FIELDS} does not say whether column {unknown[0]!r} is SIMPLE or TIMESTAMP, as tables of "
                "version 9 do: it cannot be written"
            )
        names = tuple(name for name, _, kind in pairs if kind.upper() == "TIMESTAMP")
    else:
        names = ()
    if not names:
        if given:
            raise ConfigurationError(
                f"{where}: got time_partitions, and no partition column of the table is a TIMESTAMP"
            )
        return {}
    return dict.fromkeys(names, time_partitions(_time_options(properties, given, where), where))


def _time_options(properties: TableProperties, given: Mapping[str, str], where: str) -> dict[str, str]:
    """The recorded options and the given ones. ConfigurationError for one that differs from what is recorded."""
    options = dict(properties.raw)
    for name, value in given.items():
        short = name.removeprefix(PREFIX)
        recorded = recorded_option(options, short)
        if recorded not in ("", value.strip()):
            raise ConfigurationError(
                f"{where}: time_partitions has {short[:80]}={value[:80]!r}, and the table records {recorded[:80]!r}: "
                "leave it out; keys would be written into other partitions"
            )
        options[PREFIX + short] = value
    return options


def _flag(text: str) -> bool:
    return text.strip().lower() == "true"
