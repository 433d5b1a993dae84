"""The settings of a table that a write depends on, and the refusal of tables that cannot be written safely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import Final

import pyarrow as pa

from penstock.engine.write.partition_settings import COMPLEX_KEYS, SIMPLE_KEYS, partition_paths
from penstock.proto.errors import ConfigurationError, TableError, UnsupportedFeature
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    CustomMerge,
    EventTimeOrdering,
    MergeMode,
    OrderingMode,
    WholeRecords,
)
from penstock.reader.merge.ordering_columns import OrderingColumns
from penstock.reader.values.field_paths import field_type
from penstock.reader.values.record_keys import KeyMaker, key_maker
from penstock.table.bootstrap.sources import BOOTSTRAP_BASE_PATH
from penstock.table.config.change_logging import ChangeLogging, change_logging
from penstock.table.config.merge_rules import refuse_unsupported, rules_of_writes
from penstock.table.config.properties import TableProperties
from penstock.table.hudi_table import HudiTable
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import RecordSchema
from penstock.table.storage.uris import redacted_uri
from penstock.table.timeline.zones import named_zone
from penstock.writer.metadata_table.update import refuse_unkept
from penstock.writer.rows.key_types import check_key_type
from penstock.writer.rows.partition_paths import PartitionPaths
from penstock.writer.rows.row_operations import STORES_OPERATIONS

RECORD_KEY_OPTION: Final = "hoodie.datasource.write.recordkey.field"
"""Hudi's option of the record key. Hudi does not store it; `create_table` keeps it among the table's properties."""
VERSIONS: Final = (6, 9)
"""Versions of tables that are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteSettings:
    """What a table's properties say about its writes."""

    properties: TableProperties
    """The properties."""
    mode: OrderingMode
    """Which of two rows of a key wins."""
    paths: PartitionPaths
    """How partition paths are made."""
    key_fields: tuple[str, ...]
    """The columns of the record key."""
    key_is_named: bool
    """Whether a key of one column is `<column>:<value>`."""
    change_logging: ChangeLogging | None = None
    """What writes log of the rows that they change; None for nothing."""
    stores_operations: bool = False
    """Whether `create_table` recorded that files store the operation of each row."""

    @property
    def where(self) -> str:
        """The beginning of error texts."""
        return f"table {redacted_uri(self.properties.base_path)}"

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The columns by which rows of a key are ordered; () if the newer row always wins."""
        return self.mode.ordering_fields if isinstance(self.mode, EventTimeOrdering) else ()

    def ordering(self, schema: pa.Schema) -> OrderingColumns:
        """The ordering columns in a schema that has them."""
        names = self.ordering_fields
        types = tuple(schema.field(name).type for name in names)
        return OrderingColumns(names=names, types=types, dotted=False, deletes_win=False, place=self.where)

    def keys(self, record: RecordSchema) -> KeyMaker:
        """How record keys are made of rows with this schema. UnsupportedFeature for a type of a key column whose text
        Hudi's writers do not agree on; SchemaMismatch for one that no key has."""
        schema = arrow_schema(record)
        for name in self.key_fields:
            if (kind := field_type(schema, name)) is not None:
                check_key_type(kind, f"{self.where}: key column {name!r}")
        return key_maker(self.key_fields, record, self.where)


def parse_metadata(text: str) -> bool:
    """Whether the option says that a metadata table is kept current. ConfigurationError for another text."""
    if text not in ("files", "off"):
        raise ConfigurationError(f"metadata: got {text[:40]!r}, expected files or off")
    return text == "files"


def write_settings(table: HudiTable, time_options: Mapping[str, str], *, keeps_metadata: bool = True) -> WriteSettings:
    """The settings of a table's writes.

    time_options: `hoodie.keygen.timebased.*`, with or without this prefix, if the table does not record them.
    ConfigurationError if they do not fit the table. UnsupportedFeature as `refuse_unwritten`.
    """
    refuse_unwritten(table, keeps_metadata=keeps_metadata)
    properties = table.properties
    where = f"table {redacted_uri(properties.base_path)}"
    return WriteSettings(
        properties=properties,
        mode=_mode(properties, where),
        paths=partition_paths(properties, time_options, where),
        key_fields=_key_fields(properties, where),
        key_is_named=properties.keygen_name in COMPLEX_KEYS and len(properties.record_key_fields) == 1,
        change_logging=change_logging(properties.raw, where),
        stores_operations=properties.raw.get(STORES_OPERATIONS, "").strip().lower() == "true",
    )


def refuse_read_only(properties: TableProperties) -> None:
    """UnsupportedFeature for a table that is read, and that neither a write nor a service may change."""
    if properties.base_file_format != "PARQUET":
        raise UnsupportedFeature(
            f"table {redacted_uri(properties.base_path)}: base files in {properties.base_file_format} are read, not "
            "written; let Hudi write the table"
        )
    if properties.bootstrap_base_path:  # its skeletons have one file more than other slices
        raise UnsupportedFeature(
            f"table {redacted_uri(properties.base_path)} is a bootstrapped table ({BOOTSTRAP_BASE_PATH} is set): it is "
            "read, and neither written nor serviced; write, compact, cluster and clean it with Hudi"
        )


def refuse_nested_ordering(mode: MergeMode, where: str) -> None:
    """UnsupportedFeature for rows that are ordered by a field of a struct, which only reads compare."""
    nested = [name for name in mode.ordering_fields if "." in name] if isinstance(mode, EventTimeOrdering) else []
    if nested:
        raise UnsupportedFeature(
            f"{where} is ordered by {nested[0][:100]!r}, a field of a struct: rows are read, and neither written, "
            "compacted nor clustered; do this with Hudi"
        )


def refuse_unwritten(table: HudiTable, *, keeps_metadata: bool = True) -> None:
    """UnsupportedFeature, with the name of the setting, for a table whose files a write could not keep as Hudi's
    writers do: a wrong write destroys a table. Nothing is written then.

    keeps_metadata: whether a metadata table is kept current, not removed.
    """
    properties = table.properties
    where = f"table {redacted_uri(properties.base_path)}"
    refuse_unsupported(properties)
    if properties.version not in VERSIONS:
        raise UnsupportedFeature(
            f"{where}: tables of version {properties.version} are not written, those of 6 and 9 are"
        )
    refuse_read_only(properties)
    if keeps_metadata:
        refuse_unkept(properties)
    if not properties.populate_meta_fields:
        raise UnsupportedFeature(f"{where}: tables with hoodie.populate.meta.fields=false are not written yet")
    if properties.drop_partition_columns:
        raise UnsupportedFeature(
            f"{where}: tables with hoodie.datasource.write.drop.partition.columns=true are not written yet"
        )
    if table.storage.list_dir(".hoodie/.bucket_index"):
        raise UnsupportedFeature(
            f"{where} has a consistent hashing or partition-level bucket index, which is not written"
        )
    if table.storage.list_dir(".hoodie/.schema"):
        raise UnsupportedFeature(f"{where} has a schema-on-read history (.hoodie/.schema), which is not written yet")
    _mode(properties, where)


def timeline_zone(properties: TableProperties, given: str) -> tzinfo:
    """The zone in which a write names its instants.

    ConfigurationError for a LOCAL timeline if none is given: its instants are in the zone of its writers' JVMs, which
    no table records, and an instant of another zone would hide rows.
    """
    if properties.timezone == "UTC":
        if given and named_zone(given) is not UTC:
            raise ConfigurationError(
                f"timeline_timezone: got {given[:80]!r}, and table {redacted_uri(properties.base_path)} has a timeline "
                "in UTC; leave it out"
            )
        return UTC
    if not given:
        raise ConfigurationError(
            f"table {redacted_uri(properties.base_path)} has hoodie.table.timeline.timezone=LOCAL: its instants are in "
            "the zone of its writers' JVMs, which it does not record: give timeline_timezone, such as UTC, the zone in "
            "which all its writers run"
        )
    return named_zone(given)


def _mode(properties: TableProperties, where: str) -> OrderingMode:
    rules = rules_of_writes(properties)
    plain = isinstance(rules.fill, WholeRecords) and rules.delete_marker is None
    if isinstance(rules.mode, CustomMerge):
        raise UnsupportedFeature(
            f"{where}: its records are merged by {rules.mode.name[:200]}, a merger or payload class in Java: such a "
            "table is read, and not written; write and compact it with Hudi"
        )
    refuse_nested_ordering(rules.mode, where)
    match rules.mode:
        case CommitTimeOrdering() if plain:
            return rules.mode
        case EventTimeOrdering(fields, dotted, deletes_win) if plain and not dotted and not deletes_win:
            return rules.mode if fields else CommitTimeOrdering()
    raise UnsupportedFeature(
        f"{where}: its merge rule (payload class {properties.payload_class or '(none)'}, partial updates or a delete "
        "marker of its own) is not written yet; event time and commit time ordering are"
    )


def _key_fields(properties: TableProperties, where: str) -> tuple[str, ...]:
    fields = properties.record_key_fields
    if not fields:
        raise UnsupportedFeature(f"{where} has no record key (hoodie.table.recordkey.fields): Hudi generates its keys")
    check_key_form(properties.keygen_name, fields, properties.version, where)
    if properties.keygen_name in SIMPLE_KEYS and len(fields) > 1:
        raise TableError(f"{where}: a simple key generator with {len(fields)} key columns, expected one")
    return fields


def check_key_form(generator: str, fields: Sequence[str], version: int, where: str) -> None:
    """UnsupportedFeature, beginning with `where`, for keys whose form no table of this version records."""
    if generator in COMPLEX_KEYS and len(fields) == 1 and version < 9:
        raise UnsupportedFeature(
            f"{where}: a complex key generator with the one key column {fields[0]!r}, in a table of version {version}: "
            "releases of Hudi write such keys in two forms, and the table does not record which; have two key columns, "
            "one partition column or none, or version 9"
        )


def joined(names: Sequence[str]) -> str:
    """Names for an error text."""
    return ", ".join(names)[:500]
