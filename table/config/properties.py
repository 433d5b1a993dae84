"""Reads and checks `hoodie.properties`, and gives its keys as typed fields with Hudi's defaults.

Source: Hudi `HoodieTableConfig`. `java_properties` has the syntax of the file, `merge_rules` the settings of the merge.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from penstock.proto.errors import CorruptFile, TableError, TableNotFound, UnsupportedFeature
from penstock.proto.value_classes import dataclass
from penstock.table.config.java_properties import parse_properties
from penstock.table.storage.filesystem import Storage, checked_path
from penstock.table.storage.uris import redacted_uri

META_FOLDER: Final = ".hoodie"
PARTITION_FIELDS: Final = "hoodie.table.partition.fields"
"""The partition columns; of a custom key generator each with its kind, as `column:SIMPLE` or `column:TIMESTAMP`."""
PROPERTIES_FILE: Final = f"{META_FOLDER}/hoodie.properties"
BACKUP_FILE: Final = f"{META_FOLDER}/hoodie.properties.backup"
OLDEST_VERSION: Final = 6
NEWEST_VERSION: Final = 9
NATIVE_LOG_VERSION: Final = 10
"""The version of Hudi 1.3, which is not released (docs/development/native-logs.md)."""

COPY_ON_WRITE: Final = "COPY_ON_WRITE"
MERGE_ON_READ: Final = "MERGE_ON_READ"

MAX_PROPERTIES_BYTES: Final = 4 << 20
_ROUNDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """The settings in `hoodie.properties`, with Hudi's defaults; '' for a text whose key is absent."""

    base_path: str
    """The table's base path, for error texts."""
    name: str
    """`hoodie.table.name`."""
    database: str
    """`hoodie.database.name`."""
    table_type: str
    """COPY_ON_WRITE or MERGE_ON_READ."""
    version: int
    """Table version, OLDEST_VERSION to NEWEST_VERSION."""
    layout: int
    """Timeline layout, 1 or 2."""
    timeline_folder: str
    """Folder of the active timeline, relative to the base path."""
    history_folder: str
    """Folder of the archive (layout 1) or of the LSM history (layout 2), relative to the base path."""
    timezone: str
    """Zone of the timeline's instants: UTC or LOCAL."""
    record_key_fields: tuple[str, ...]
    """Columns of the record key."""
    partition_fields: tuple[str, ...]
    """Partition columns, without the `:SIMPLE` suffixes of custom key generators."""
    ordering_fields: tuple[str, ...]
    """Columns that order records of one key."""
    merge_mode: str
    """`hoodie.record.merge.mode`, upper case."""
    merge_strategy: str
    """Id of the merge strategy."""
    payload_class: str
    """Class name of the payload."""
    partial_update_mode: str
    """`hoodie.table.partial.update.mode`, upper case."""
    keygen_class: str
    """Class name of the key generator."""
    keygen_type: str
    """Type of the key generator, upper case."""
    populate_meta_fields: bool
    """Whether rows have Hudi's meta columns."""
    drop_partition_columns: bool
    """Whether data files leave the partition columns out."""
    base_file_format: str
    """PARQUET, ORC, HFILE or LANCE."""
    log_file_format: str
    """HOODIE_LOG."""
    create_schema: str
    """Avro JSON of the schema that the table was created with."""
    raw: Mapping[str, str] = field(repr=False)
    """Every key with its text, known or not."""

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table can have log files."""
        return self.table_type == MERGE_ON_READ

    @property
    def bootstrap_base_path(self) -> str:
        """The folder of the source files, as Hudi wrote it: a URI or an absolute path. '' for other tables."""
        return self.raw.get("hoodie.bootstrap.base.path", "").strip()

    @property
    def keygen_name(self) -> str:
        """The class name of the key generator without its package, else its type; upper case."""
        return (self.keygen_class.rpartition(".")[2] or self.keygen_type).upper()


def load_properties(storage: Storage) -> TableProperties:
    """Reads the table's properties.

    If the file is missing or damaged, its backup is read; both are tried twice, because a writer may replace the file
    at the same time. TableNotFound if neither exists; CorruptFile if both are damaged; UnsupportedFeature for a table
    version below 6 and version 10; TableError for one above 10, an unknown layout or table type.
    """
    problems: list[str] = []
    for _ in range(_ROUNDS):
        problems.clear()
        for path in (PROPERTIES_FILE, BACKUP_FILE):
            try:
                return parse_table_properties(storage.read_bytes(path, MAX_PROPERTIES_BYTES), storage.base_path, path)
            except FileNotFoundError:
                continue
            except CorruptFile as error:
                problems.append(str(error))
    if problems:
        raise CorruptFile("; ".join(problems))
    raise TableNotFound(_not_found(storage))


def _not_found(storage: Storage) -> str:
    where = redacted_uri(storage.base_path)
    base = storage.file_info("")
    if base is None:
        return f"no table at {where}: the folder does not exist; check the path"
    if not base.is_dir:
        return f"no table at {where}: a file is there; expected a table's base folder"
    if storage.file_info(META_FOLDER) is None:
        return f"no table at {where}: the folder exists but is not a Hudi table: it has no {META_FOLDER} folder"
    return (
        f"no table at {where}: the folder has {META_FOLDER} but neither {PROPERTIES_FILE} nor its backup; "
        "expected a Hudi table that was created completely"
    )


def parse_table_properties(data: bytes, base_path: str, path: str = PROPERTIES_FILE) -> TableProperties:
    """The typed settings of the file's bytes. Errors as `load_properties`."""
    where = f"{path} of table {redacted_uri(base_path)}"
    try:
        raw = parse_properties(data)
    except ValueError as error:
        raise CorruptFile(f"{where} cannot be read: {error}") from error
    _check_identity(raw, where)
    version = _whole_number(raw, "hoodie.table.version", "0", where)
    source = f"table {redacted_uri(base_path)}, {path}"
    if version < OLDEST_VERSION:
        raise UnsupportedFeature(
            f"table version {version}: {source}; this build reads versions {OLDEST_VERSION} to {NEWEST_VERSION}"
        )
    if version == NATIVE_LOG_VERSION:
        raise UnsupportedFeature(
            f"table version {version} (native log files: each log file is a Parquet file): {source}; this build reads "
            f"versions {OLDEST_VERSION} to {NEWEST_VERSION}; let Hudi write version 9 (hoodie.write.table.version=9)"
        )
    if version > NATIVE_LOG_VERSION:
        raise TableError(
            f"table version {version}: {source}; no Hudi has one above {NATIVE_LOG_VERSION}, and this build reads "
            f"versions {OLDEST_VERSION} to {NEWEST_VERSION}"
        )
    layout = _whole_number(raw, "hoodie.timeline.layout.version", "2" if version >= 8 else "1", where)
    if layout not in (1, 2):
        raise TableError(f"timeline layout {layout}: {source}; a table of version {version} has layout 1 or 2")
    table_type = raw.get("hoodie.table.type", COPY_ON_WRITE).strip().upper()
    if table_type not in (COPY_ON_WRITE, MERGE_ON_READ):
        raise TableError(f"table type {table_type!r}: {source}; expected {COPY_ON_WRITE} or {MERGE_ON_READ}")
    timeline, history = _folders(raw, layout)
    return TableProperties(
        base_path=base_path,
        name=raw["hoodie.table.name"],
        database=raw.get("hoodie.database.name", ""),
        table_type=table_type,
        version=version,
        layout=layout,
        timeline_folder=timeline,
        history_folder=history,
        timezone=raw.get("hoodie.table.timeline.timezone", "LOCAL").strip().upper(),
        record_key_fields=_names(raw, "hoodie.table.recordkey.fields"),
        partition_fields=tuple(name.partition(":")[0] for name in _names(raw, PARTITION_FIELDS)),
        ordering_fields=_names(raw, "hoodie.table.ordering.fields", "hoodie.table.precombine.field"),
        merge_mode=raw.get("hoodie.record.merge.mode", "").strip().upper(),
        merge_strategy=_first(raw, "hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy"),
        payload_class=_first(raw, "hoodie.compaction.payload.class", "hoodie.datasource.write.payload.class"),
        partial_update_mode=_first(raw, "hoodie.table.partial.update.mode").upper(),
        keygen_class=_first(raw, "hoodie.table.keygenerator.class"),
        keygen_type=_first(raw, "hoodie.table.keygenerator.type").upper(),
        populate_meta_fields=_flag(raw, "hoodie.populate.meta.fields", True),
        drop_partition_columns=_flag(raw, "hoodie.datasource.write.drop.partition.columns", False),
        base_file_format=(
            _first(raw, "hoodie.table.base.file.format", "hoodie.table.ro.file.format").upper() or "PARQUET"
        ),
        log_file_format=(
            _first(raw, "hoodie.table.log.file.format", "hoodie.table.rt.file.format").upper() or "HOODIE_LOG"
        ),
        create_schema=raw.get("hoodie.table.create.schema", ""),
        raw=raw,
    )


def _check_identity(raw: Mapping[str, str], where: str) -> None:
    """CorruptFile unless the file has a table name and any checksum matches it (CRC32 of `<database>.<table>`)."""
    name = raw.get("hoodie.table.name", "")
    if not name:
        raise CorruptFile(f"{where} has no hoodie.table.name: got {len(raw)} keys, expected a complete properties file")
    if "hoodie.table.checksum" not in raw:
        return
    expected = zlib.crc32(f"{raw.get('hoodie.database.name', '')}.{name}".encode("utf-8", "replace"))
    got = raw["hoodie.table.checksum"].strip()
    if got != str(expected):
        raise CorruptFile(
            f"{where} is damaged: hoodie.table.checksum is {got[:40]!r}, expected {expected} (CRC32 of the database "
            f"and table name {name[:100]!r}); restore the file or its backup"
        )


def _folders(raw: Mapping[str, str], layout: int) -> tuple[str, str]:
    """The folders of the active timeline and of the archive (layout 1) or history (layout 2)."""
    if layout == 1:
        archive = _first(raw, "hoodie.archivelog.folder") or "archived"
        return META_FOLDER, checked_path(f"{META_FOLDER}/{archive}")
    timeline = f"{META_FOLDER}/{_first(raw, 'hoodie.timeline.path') or 'timeline'}"
    return checked_path(timeline), checked_path(
        f"{timeline}/{_first(raw, 'hoodie.timeline.history.path') or 'history'}"
    )


def _first(raw: Mapping[str, str], *keys: str) -> str:
    """The value of the first key that has one, trimmed."""
    return next((raw[key].strip() for key in keys if raw.get(key, "").strip()), "")


def _names(raw: Mapping[str, str], *keys: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in _first(raw, *keys).split(",") if name.strip())


def _flag(raw: Mapping[str, str], key: str, default: bool) -> bool:
    """Java's `Boolean.parseBoolean`: anything but 'true' is false."""
    text = raw.get(key, "").strip()
    return text.lower() == "true" if text else default


def _whole_number(raw: Mapping[str, str], key: str, default: str, where: str) -> int:
    text = raw.get(key, default).strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise CorruptFile(f"{where}: {key} is {text[:40]!r}, expected a whole number")
    return int(text)
