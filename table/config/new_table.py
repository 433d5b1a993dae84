"""The properties of a table that Penstock creates, of version 6 or 9. Pure.

Source: Hudi `HoodieTableMetaClient.TableBuilder`, `HoodieTableConfig.create`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import ConfigurationError
from penstock.table.config.change_logging import CDC_ENABLED, LOGGING_MODE, ChangeLogging
from penstock.table.config.properties import COPY_ON_WRITE, MERGE_ON_READ

_GENERATOR_CLASSES: Final[Mapping[str, str]] = {
    "SIMPLE": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "TIMESTAMP": "TimestampBasedKeyGenerator",
    "CUSTOM": "CustomKeyGenerator",
}
"""Type of a key generator -> its class in `org.apache.hudi.keygen`."""
_PARTITION_KINDS: Final = ("SIMPLE", "TIMESTAMP")
_MODEL: Final = "org.apache.hudi.common.model."
_MERGER_STRATEGY: Final = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
_MAX_NAME: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """A table to create."""

    name: str
    """Its name."""
    database: str
    """Its database; '' for none."""
    table_type: str
    """COPY_ON_WRITE or MERGE_ON_READ."""
    version: int
    """Table version: 6 (timeline layout 1) or 9 (layout 2)."""
    record_key_fields: tuple[str, ...]
    """Columns of the record key; `a.b` is a nested column."""
    partition_fields: tuple[str, ...]
    """Partition columns; for the key generator CUSTOM each with its kind, as `column:SIMPLE` or `column:TIMESTAMP`."""
    ordering_fields: tuple[str, ...]
    """Columns that order records of one key; () to merge by commit time."""
    key_generator: str
    """SIMPLE, COMPLEX, NON_PARTITION, TIMESTAMP or CUSTOM."""
    hive_style: bool
    """Whether folders of partitions are named `column=value`."""
    url_encode: bool
    """Whether values in partition paths are URL-encoded."""
    create_schema_json: str
    """Avro JSON of the schema, without meta columns; '' to record none."""
    change_logging: ChangeLogging | None = None
    """What writers log of changed rows; None for nothing."""


def new_table_properties(table: NewTable) -> dict[str, str]:
    """The entries of the table's `hoodie.properties`, which say all that Hudi 0.15 (version 6) and 1.2 check.

    The timeline's zone is UTC. ConfigurationError for what no table may have: another version or type, an empty or
    damaging name, no key column, columns that repeat or are not in the schema, and fields that the key generator does
    not allow. `schema.avro_text` forms the schema.
    """
    _check(table)
    properties = {
        "hoodie.table.name": table.name,
        "hoodie.table.type": table.table_type,
        "hoodie.table.version": str(table.version),
        "hoodie.table.checksum": str(zlib.crc32(f"{table.database}.{table.name}".encode())),
        "hoodie.table.base.file.format": "PARQUET",
        "hoodie.table.recordkey.fields": ",".join(table.record_key_fields),
        "hoodie.datasource.write.hive_style_partitioning": _flag(table.hive_style),
        "hoodie.datasource.write.partitionpath.urlencode": _flag(table.url_encode),
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.populate.meta.fields": "true",
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.partition.metafile.use.base.format": "false",
        CDC_ENABLED: _flag(table.change_logging is not None),
    }
    if table.change_logging is not None:
        properties[LOGGING_MODE] = table.change_logging.upper()
    if table.database:
        properties["hoodie.database.name"] = table.database
    if table.create_schema_json:
        properties["hoodie.table.create.schema"] = table.create_schema_json
    return properties | (_of_version_9(table) if table.version == 9 else _of_version_6(table))


def new_metadata_properties(name: str) -> dict[str, str]:
    """The entries of the `hoodie.properties` of the metadata table, of version 9, for a table of this name."""
    own_name = f"{name}_metadata"
    return {
        "hoodie.table.name": own_name,
        "hoodie.table.type": MERGE_ON_READ,
        "hoodie.table.version": "9",
        "hoodie.table.initial.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.checksum": str(zlib.crc32(f".{own_name}".encode())),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": "key",
        "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
        "hoodie.populate.meta.fields": "false",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.archivelog.folder": "history",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
    }


def _of_version_9(table: NewTable) -> dict[str, str]:
    merge_mode = "EVENT_TIME_ORDERING" if table.ordering_fields else "COMMIT_TIME_ORDERING"
    ordering = {"hoodie.table.ordering.fields": ",".join(table.ordering_fields)} if table.ordering_fields else {}
    return {
        "hoodie.table.initial.version": "9",
        "hoodie.timeline.layout.version": "2",
        "hoodie.table.partition.fields": ",".join(table.partition_fields),
        "hoodie.table.keygenerator.type": table.key_generator,
        "hoodie.record.merge.mode": merge_mode,
        "hoodie.archivelog.folder": "history",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.table.multiple.base.file.formats.enable": "false",
        "hoodie.table.format": "native",
        **ordering,
    }


def _of_version_6(table: NewTable) -> dict[str, str]:
    """Version 6 has no merge mode, and knows the kinds of partition columns from its writers only."""
    payload = "DefaultHoodieRecordPayload" if table.ordering_fields else "OverwriteWithLatestAvroPayload"
    ordering = {"hoodie.table.precombine.field": table.ordering_fields[0]} if table.ordering_fields else {}
    return {
        "hoodie.timeline.layout.version": "1",
        "hoodie.table.partition.fields": ",".join(_column(field) for field in table.partition_fields),
        "hoodie.table.keygenerator.class": f"org.apache.hudi.keygen.{_GENERATOR_CLASSES[table.key_generator]}",
        "hoodie.compaction.payload.class": _MODEL + payload,
        "hoodie.compaction.record.merger.strategy": _MERGER_STRATEGY,
        "hoodie.archivelog.folder": "archived",
        **ordering,
    }


def _check(table: NewTable) -> None:
    if table.version not in (6, 9):
        raise ConfigurationError(
            f"table version {table.version}: Penstock creates tables of version 6 (Hudi 0.14, 0.15) and 9 (1.1 and "
            f"later){'; 8 is that of Hudi 1.0' if table.version == 8 else ''}"
        )
    if table.table_type not in (COPY_ON_WRITE, MERGE_ON_READ):
        raise ConfigurationError(f"table type {table.table_type!r}: expected {COPY_ON_WRITE} or {MERGE_ON_READ}")
    _check_name("table name", table.name)
    if table.database:
        _check_name("database name", table.database)
    if table.version == 6 and len(table.ordering_fields) > 1:
        raise ConfigurationError(
            f"ordering fields {', '.join(table.ordering_fields)}: a table of version 6 has one; got "
            f"{len(table.ordering_fields)}; use version 9"
        )
    if not table.record_key_fields:
        raise ConfigurationError("record key: got no columns, expected at least one")
    _check_generator(table)
    _check_columns(table)


def _check_name(what: str, name: str) -> None:
    """A name is a part of paths and of SQL, and one line of the properties."""
    if not name or name != name.strip() or len(name) > _MAX_NAME:
        raise ConfigurationError(f"{what} {name[:100]!r}: expected 1 to {_MAX_NAME} characters, no blank at either end")
    bad = next((char for char in name if not char.isprintable() or char in "/\\:;`'\"<>|?*"), None)
    if bad is not None or name in (".", ".."):
        raise ConfigurationError(f"{what} {name[:100]!r}: got the character {bad or '.'!r}, which a name must not have")


def _check_generator(table: NewTable) -> None:
    generator, keys, partitions = table.key_generator, len(table.record_key_fields), len(table.partition_fields)
    expected = {
        "SIMPLE": keys == 1 and partitions == 1,
        "COMPLEX": partitions > 0,
        "NON_PARTITION": partitions == 0,
        "TIMESTAMP": keys == 1 and partitions == 1,
        "CUSTOM": partitions > 0,
    }
    if generator not in expected:
        raise ConfigurationError(f"key generator {generator[:60]!r}: expected one of {', '.join(expected)}")
    if not expected[generator]:
        raise ConfigurationError(
            f"key generator {generator} does not allow {keys} key and {partitions} partition columns: SIMPLE and "
            "TIMESTAMP have one of each, COMPLEX and CUSTOM have partition columns, NON_PARTITION has none"
        )
    for field in table.partition_fields:
        kind = field.partition(":")[2]
        if (kind not in _PARTITION_KINDS) if generator == "CUSTOM" else ":" in field:
            raise ConfigurationError(
                f"partition column {field[:100]!r} with key generator {generator}: expected "
                + ("<column>:SIMPLE or <column>:TIMESTAMP" if generator == "CUSTOM" else "a column without a kind")
            )


def _check_columns(table: NewTable) -> None:
    columns = _schema_columns(table)
    for what, fields in (
        ("record key", table.record_key_fields),
        ("partition", map(_column, table.partition_fields)),
        ("ordering", table.ordering_fields),
    ):
        for field in _distinct(what, fields):
            if columns is not None and field.partition(".")[0] not in columns:
                raise ConfigurationError(
                    f"{what} column {field[:100]!r} is not in the schema of the new table {table.name}, which has "
                    f"{', '.join(columns)[:300]}"
                )


def _schema_columns(table: NewTable) -> tuple[str, ...] | None:
    """The columns of the recorded schema; None without one."""
    if not table.create_schema_json:
        return None
    try:
        return tuple(str(field["name"]) for field in json.loads(table.create_schema_json)["fields"])
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ConfigurationError(
            f"schema of the new table {table.name}: got {table.create_schema_json[:100]!r}, expected an Avro record"
        ) from None


def _distinct(what: str, fields: Iterable[str]) -> tuple[str, ...]:
    """The columns; ConfigurationError for one that repeats, or that a comma-separated list cannot hold."""
    known = tuple(fields)
    for place, field in enumerate(known):
        if not field or field != field.strip() or "," in field or ":" in field or not field.isprintable():
            raise ConfigurationError(f"{what} column {field[:100]!r}: expected a column name without ',' and ':'")
        if field in known[:place]:
            raise ConfigurationError(f"{what} column {field[:100]!r} is given twice")
    return known


def _column(field: str) -> str:
    """A partition column without its kind."""
    return field.partition(":")[0]


def _flag(value: bool) -> str:
    return "true" if value else "false"
