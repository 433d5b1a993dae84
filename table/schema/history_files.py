"""The files of schema-on-read histories, in `.hoodie/.schema`. Source: Hudi `FileBasedInternalSchemaStorageManager`."""

from __future__ import annotations

import re
from typing import Final

from penstock.proto.errors import CorruptFile, StorageError
from penstock.proto.model.positions import InstantTime
from penstock.table.config.properties import META_FOLDER
from penstock.table.schema.avro import MAX_JSON_BYTES
from penstock.table.storage.filesystem import Storage
from penstock.table.storage.uris import redacted_uri

_FOLDER: Final = f"{META_FOLDER}/.schema"
_COMPLETED: Final = re.compile(r"(\d{1,30})(?:_\d{1,30})?\.schemacommit")


def history_files(storage: Storage) -> tuple[tuple[InstantTime, str], ...]:
    """(requested time, file name) of the histories, oldest first. Each file is complete."""
    names = (info.name for info in storage.list_dir(_FOLDER))
    matches = ((_COMPLETED.fullmatch(name), name) for name in names)
    return tuple(sorted((InstantTime(match[1]), name) for match, name in matches if match))


def read_history_file(storage: Storage, file_name: str) -> str:
    """The text of a history. CorruptFile if it is too large or not UTF-8, StorageError if it was deleted."""
    path = f"{_FOLDER}/{file_name}"
    where = f"schema history {path} of table {redacted_uri(storage.base_path)}"
    try:
        return storage.read_bytes(path, MAX_JSON_BYTES).decode()
    except FileNotFoundError as error:
        raise StorageError(f"{where} was deleted; a retry may succeed") from error
    except UnicodeDecodeError as error:
        raise CorruptFile(f"{where} is not UTF-8: {error}") from None
