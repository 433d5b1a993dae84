"""Changes `hoodie.properties` of a table.

Source: Hudi `HoodieTableConfig`, whose order of the steps this is. A backup exists from before the file is removed
until the new one is complete. Readers and writers of Hudi and Penstock read the backup meanwhile, and the next writer
goes on after a process that was killed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from penstock.proto.errors import CorruptFile, WriteConflict
from penstock.table.config.java_properties import format_properties
from penstock.table.config.properties import (
    BACKUP_FILE,
    MAX_PROPERTIES_BYTES,
    PROPERTIES_FILE,
    load_properties,
    parse_table_properties,
)
from penstock.table.storage.local_writes import WritableStorage
from penstock.table.storage.uris import redacted_uri

_COMMENTS: Final = ("Updated by Penstock",)


def change_properties(storage: WritableStorage, changes: Mapping[str, str]) -> None:
    """Sets these keys. The others stay. Call it under the table's lock.

    WriteConflict if another writer changes the file at the same time; errors of `load_properties`.
    """
    _recover(storage)
    raw = load_properties(storage).raw
    before, after = (format_properties(values, _COMMENTS) for values in (raw, {**raw, **changes}))
    _create(storage, BACKUP_FILE, before)
    storage.remove(PROPERTIES_FILE)
    _create(storage, PROPERTIES_FILE, after)
    storage.remove(BACKUP_FILE)


def _recover(storage: WritableStorage) -> None:
    """Completes or undoes the change of a process that was killed."""
    try:
        backup = storage.read_bytes(BACKUP_FILE, MAX_PROPERTIES_BYTES)
    except FileNotFoundError:
        return
    if not _is_valid(storage):
        parse_table_properties(backup, storage.base_path, BACKUP_FILE)
        storage.remove(PROPERTIES_FILE)
        _create(storage, PROPERTIES_FILE, backup)
    storage.remove(BACKUP_FILE)


def _is_valid(storage: WritableStorage) -> bool:
    with contextlib.suppress(FileNotFoundError, CorruptFile):
        parse_table_properties(storage.read_bytes(PROPERTIES_FILE, MAX_PROPERTIES_BYTES), storage.base_path)
        return True
    return False


def _create(storage: WritableStorage, path: str, data: bytes) -> None:
    """Creates the file. A checksum that Hadoop stored beside an earlier one was removed with it."""
    try:
        storage.create(path, data)
    except FileExistsError:
        raise WriteConflict(
            f"table {redacted_uri(storage.base_path)}: another writer changes {PROPERTIES_FILE} at the same time: "
            "nothing was written; write again"
        ) from None
