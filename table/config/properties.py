"""`hoodie.properties`: found, checked, and as typed fields.

Belongs here: keys, defaults, recovery (Hudi `HoodieTableConfig`). Not here: what a combination of settings means for
merging (`merge_rules`), the file's syntax (`java_properties`).
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.proto.errors import CorruptFile, TableError, TableNotFound, UnsupportedFeature
from penstock.table.config.java_properties import parse_properties
from penstock.table.storage.filesystem import Storage, checked_path, redacted_uri

META_FOLDER: Final = ".hoodie"
PROPERTIES_FILE: Final = f"{META_FOLDER}/hoodie.properties"
BACKUP_FILE: Final = f"{META_FOLDER}/hoodie.properties.backup"
OLDEST_VERSION: Final = 6
NEWEST_VERSION: Final = 9

COPY_ON_WRITE: Final = "COPY_ON_WRITE"
MERGE_ON_READ: Final = "MERGE_ON_READ"

_LIMIT_BYTES: Final = 4 << 20
_ROUNDS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProperties:
    """What `hoodie.properties` says, with Hudi's defaults; empty text where a key is absent.

    `base_path` is for error texts. Folders are relative to the base path. `partition_fields` come without the
    `:SIMPLE` suffixes of custom key generators. `raw` holds every key, known or not.
    """

    base_path: str
    name: str
    database: str
    table_type: str
    version: int
    layout: int
    timeline_folder: str
    history_folder: str
    timezone: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    merge_mode: str
    merge_strategy: str
    payload_class: str
    legacy_payload_class: str
    partial_update_mode: str
    keygen_class: str
    keygen_type: str
    hive_style_partitioning: bool
    populate_meta_fields: bool
    drop_partition_columns: bool
    base_file_format: str
    log_file_format: str
    cdc_enabled: bool
    create_schema: str
    raw: Mapping[str, str] = field(repr=False)

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table can have log files."""
        return self.table_type == MERGE_ON_READ

    @property
    def keygen_name(self) -> str:
        """The class name of the key generator without its package, else its type; upper case."""
        return (self.keygen_class.rpartition(".")[2] or self.keygen_type).upper()


def load_properties(storage: Storage) -> TableProperties:
    """The table's properties.

    A missing or damaged file is replaced by its backup, and both are read again once: a writer replaces the file
    under its readers. TableNotFound if neither exists; CorruptFile if neither can be used; UnsupportedFeature for a
    table version below 6 or above 9, an unknown layout or table type.
    """
    problems: list[str] = []
    for _ in range(_ROUNDS):
        problems.clear()
        for path in (PROPERTIES_FILE, BACKUP_FILE):
            try:
                return parse_table_properties(storage.read_bytes(path, _LIMIT_BYTES), storage.base_path, path)
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
        return f"no table at {where}: the folder exists but is no Hudi table, it has no {META_FOLDER} folder"
    return (
        f"no table at {where}: the folder has {META_FOLDER} but neither {PROPERTIES_FILE} nor its backup; "
        "expected a Hudi table that was created completely"
    )


def parse_table_properties(data: bytes, base_path: str, path: str = PROPERTIES_FILE) -> TableProperties:
    """The typed form of the file's bytes. CorruptFile and UnsupportedFeature as for `load_properties`."""
    where = f"{path} of table {redacted_uri(base_path)}"
    try:
        raw = parse_properties(data)
    except ValueError as error:
        raise CorruptFile(f"{where} cannot be read: {error}") from error
    _check_identity(raw, where)
    version = _whole_number(raw, "hoodie.table.version", "0", where)
    said = f"table {redacted_uri(base_path)} says so in {path}"
    if version < OLDEST_VERSION:
        raise UnsupportedFeature(
            f"table version {version}: {said}; this build reads versions {OLDEST_VERSION} to {NEWEST_VERSION}"
        )
    if version > NEWEST_VERSION:
        raise TableError(
            f"table version {version}: {said}; Hudi 1.2 knows none above {NEWEST_VERSION}, and this build reads "
            f"versions {OLDEST_VERSION} to {NEWEST_VERSION}"
        )
    layout = _whole_number(raw, "hoodie.timeline.layout.version", "2" if version >= 8 else "1", where)
    if layout not in (1, 2):
        raise TableError(f"timeline layout {layout}: {said}; a table of version {version} has layout 1 or 2")
    table_type = raw.get("hoodie.table.type", COPY_ON_WRITE).strip().upper()
    if table_type not in (COPY_ON_WRITE, MERGE_ON_READ):
        raise TableError(f"table type {table_type!r}: {said}; expected {COPY_ON_WRITE} or {MERGE_ON_READ}")
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
        partition_fields=tuple(name.partition(":")[0] for name in _names(raw, "hoodie.table.partition.fields")),
        ordering_fields=_names(raw, "hoodie.table.ordering.fields", "hoodie.table.precombine.field"),
        merge_mode=raw.get("hoodie.record.merge.mode", "").strip().upper(),
        merge_strategy=_first(raw, "hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy"),
        payload_class=_first(raw, "hoodie.compaction.payload.class", "hoodie.datasource.write.payload.class"),
        legacy_payload_class=_first(raw, "hoodie.table.legacy.payload.class"),
        partial_update_mode=_first(raw, "hoodie.table.partial.update.mode").upper(),
        keygen_class=_first(raw, "hoodie.table.keygenerator.class"),
        keygen_type=_first(raw, "hoodie.table.keygenerator.type").upper(),
        hive_style_partitioning=_flag(raw, "hoodie.datasource.write.hive_style_partitioning", False),
        populate_meta_fields=_flag(raw, "hoodie.populate.meta.fields", True),
        drop_partition_columns=_flag(raw, "hoodie.datasource.write.drop.partition.columns", False),
        base_file_format=(
            _first(raw, "hoodie.table.base.file.format", "hoodie.table.ro.file.format").upper() or "PARQUET"
        ),
        log_file_format=(
            _first(raw, "hoodie.table.log.file.format", "hoodie.table.rt.file.format").upper() or "HOODIE_LOG"
        ),
        cdc_enabled=_flag(raw, "hoodie.table.cdc.enabled", False),
        create_schema=raw.get("hoodie.table.create.schema", ""),
        raw=raw,
    )


def _check_identity(raw: Mapping[str, str], where: str) -> None:
    """The file has a name and, if it has a checksum, the one of that name (CRC32 of `<database>.<table>`)."""
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
    """The first of the keys that has a value, trimmed."""
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
