"""Which partitions a table's metadata table has, and their removal in Hudi's own way.

Source: Hudi `HoodieTableMetadataUtil.deleteMetadataTable`, `deleteMetadataTablePartition`, `HoodieTable.
deleteMetadataIndexIfNecessary`. The properties change first: no reader looks for a folder that is being removed. Hudi's
next write with its metadata table on builds what is missing again.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from penstock.proto.errors import CorruptFile, PenstockError
from penstock.table.config.properties import META_FOLDER, TableProperties
from penstock.table.metadata.files import FILES
from penstock.table.metadata.metadata_table import METADATA_FOLDER
from penstock.table.storage.filesystem import checked_path
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri
from penstock.writer.metadata_table.table_properties import change_properties

log = logging.getLogger("penstock.writer")

PARTITIONS: Final = "hoodie.table.metadata.partitions"
INFLIGHT: Final = "hoodie.table.metadata.partitions.inflight"
_INDEX_DEFINITIONS: Final = "hoodie.table.index.defs.path"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]{0,254}")
_MAX_DEFINITIONS_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class ListedPartitions:
    """The partitions of the metadata table, by the properties of the data table."""

    complete: tuple[str, ...]
    """Those that readers use."""
    inflight: tuple[str, ...]
    """Those that a writer of Hudi is building."""

    @staticmethod
    def of(properties: TableProperties) -> ListedPartitions:
        """The partitions of a table. CorruptFile for a name that is no folder's."""
        return ListedPartitions(_names(properties, PARTITIONS), _names(properties, INFLIGHT))

    @property
    def exists(self) -> bool:
        """Whether the table has a metadata table."""
        return bool(self.complete or self.inflight)

    @property
    def others(self) -> tuple[str, ...]:
        """The complete partitions besides `files`."""
        return tuple(name for name in self.complete if name != FILES)


def _names(properties: TableProperties, key: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in properties.raw.get(key, "").split(",") if name.strip())
    for name in names:
        if not _NAME.fullmatch(name):
            raise CorruptFile(
                f"table {redacted_uri(properties.base_path)}: {key} has {name[:100]!r}, expected names of folders"
            )
    return names


def drop_partitions(storage: WritableStorage, properties: TableProperties, names: Collection[str]) -> None:
    """Removes these partitions of the metadata table, `files` is not among them. Call it under the table's lock."""
    kept = [name for name in ListedPartitions.of(properties).complete if name not in names]
    change_properties(storage, {PARTITIONS: ",".join(sorted(kept))})
    for name in sorted(names):
        storage.remove_folder(f"{METADATA_FOLDER}/{name}")
    _remove_definitions(storage, properties, names)
    log.warning(
        "table %s: removed the partitions %s of its metadata table, which this release does not keep current: Hudi's "
        "next write builds those of its options again; indexes that were created by SQL must be created again",
        redacted_uri(storage.base_path),
        ", ".join(sorted(names)),
    )


def drop_metadata_table(storage: WritableStorage, properties: TableProperties, reason: str) -> None:
    """Removes the metadata table of the table, if it has one. Call it under the table's lock."""
    listed = ListedPartitions.of(properties)
    remove_metadata_table(storage, properties)
    if listed.exists:
        log.warning(
            "table %s: removed its metadata table (%s): readers list folders, and Hudi's next write with "
            "hoodie.metadata.enable=true builds it again: %s",
            redacted_uri(storage.base_path),
            ", ".join({*listed.complete, *listed.inflight}),
            reason,
        )


def remove_metadata_table(storage: WritableStorage, properties: TableProperties) -> None:
    """Removes the metadata table of the table, if it has one. Call it under the table's lock."""
    listed = ListedPartitions.of(properties)
    if listed.exists:
        change_properties(storage, {PARTITIONS: "", INFLIGHT: ""})
    storage.remove_folder(METADATA_FOLDER)
    _remove_definitions(storage, properties, {*listed.others, *listed.inflight})


def _remove_definitions(storage: WritableStorage, properties: TableProperties, names: Collection[str]) -> None:
    """Removes the definitions of these indexes. A failure leaves definitions without an index, which Hudi ignores."""
    given = properties.raw.get(_INDEX_DEFINITIONS, "").strip()
    if not given or not names:
        return
    try:
        path = checked_path(given)
        if not path.startswith(f"{META_FOLDER}/"):
            raise CorruptFile(f"{_INDEX_DEFINITIONS} is {given[:200]!r}, expected a file in {META_FOLDER}")
        definitions = json.loads(storage.read_bytes(path, _MAX_DEFINITIONS_BYTES))
        indexes = definitions["indexDefinitions"]
        kept = {name: value for name, value in indexes.items() if name not in names}
        if len(kept) == len(indexes):
            return
        folder, _, name = path.rpartition("/")
        storage.remove(f"{folder}/.{name}.crc")  # of the old content
        storage.replace(path, json.dumps({**definitions, "indexDefinitions": kept}, indent=2).encode())
    except FileNotFoundError:
        return
    except (PenstockError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        log.warning(
            "table %s: definitions of removed indexes stay: %s", redacted_uri(storage.base_path), str(error)[:300]
        )
