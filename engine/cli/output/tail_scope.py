"""Records in a folder of `penstock tail --output-dir` the scope of its files: table, query, columns, filter and format.

A split whose file exists is committed without being read. This is correct only if the file has the rows and columns
that the command would write now, so a command with another scope is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, Final

from penstock.engine.cli.output.rows import RowFormat
from penstock.proto.errors import ConfigurationError
from penstock.proto.options.registry import ParsedOptions

SCOPE_FILE: Final = ".penstock-scope.json"
VERSION: Final = 1
MAX_BYTES: Final = 4 << 20

Scope = dict[str, str | int | list[str]]
"""Settings by name, without those that are empty or off."""


class FolderState(Enum):
    """Whether a folder has files and a record of their scope."""

    RECORDED = "recorded"
    """It has a record."""
    EMPTY = "empty"
    """It has neither files nor a record."""
    UNRECORDED = "unrecorded"
    """It has files and no record: an earlier release wrote them."""


def scope_of(table: str, options: ParsedOptions, form: RowFormat) -> Scope:
    """The settings that determine the rows and columns in the file of a split, and the division into splits."""
    query = options.query if "query" in options.explicit else "incremental"
    scope: Scope = {
        "table": table,
        "query": query,
        "cdcFormat": options.cdc_format if query == "cdc" else "",
        "columns": list(options.columns),
        "meta": "off" if options.meta == "off" else "",
        "where": options.where,
        "format": form.value,
        "splitBytes": options.split_bytes,
        "deleteField": options.delete_field,
        "deleteMarker": options.delete_marker,
        "onCorrupt": "skip" if options.on_corrupt == "skip" else "",
        "columnsByName": "on" if options.columns_by_name == "on" else "",
        "completionTime": (options.timeline_timezone or "on") if options.completion_time == "on" else "",
        "hybrid": options.hybrid or "",
        "kafkaTopic": options.kafka_topic or "",
        "kafkaValueFormat": options.kafka_value_format if options.hybrid else "",
    }
    return {name: value for name, value in scope.items() if value}


class ScopedFolder:
    """A folder whose files have one scope. The constructor raises ConfigurationError if they have another one."""

    def __init__(self, path: Path, scope: Scope) -> None:
        self.path, self._scope = path, scope
        self._state = _check_folder(path, scope)

    def take_over(self, warn: Callable[[str], None]) -> None:
        """Records the scope. To be called after the server accepted it for the group, and before a file is written."""
        if self._state is FolderState.UNRECORDED:
            warn(
                f"--output-dir {self.path}: an earlier release wrote files there without a record of table, query, "
                "columns and filter: they are taken as written with the current ones; only the number of rows and the "
                "columns are compared"
            )
        if self._state is not FolderState.RECORDED:
            _record(self.path, self._scope)
            self._state = FolderState.RECORDED


def _check_folder(folder: Path, scope: Scope) -> FolderState:
    """The state of the folder. ConfigurationError: its files have another scope, or its record is damaged."""
    path = folder / SCOPE_FILE
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        has_files = any(file.suffix in _SUFFIXES and not file.name.startswith(".") for file in folder.iterdir())
        return FolderState.UNRECORDED if has_files else FolderState.EMPTY
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}: this user must be able to read it") from error
    recorded = _decoded(path, data)
    differing = sorted(name for name in {*recorded, *scope} if recorded.get(name) != scope.get(name))
    if differing:
        settings = "; ".join(
            f"{name} was {_value_text(recorded.get(name))}, is {_value_text(scope.get(name))}" for name in differing
        )
        raise ConfigurationError(
            f"--output-dir {folder}: its files were written with other settings ({settings}): splits whose file "
            "exists would be committed without being written. Give another folder, or the earlier settings; to write "
            "everything again, empty the folder (and reset the group, or use another one)"
        )
    return FolderState.RECORDED


def _record(folder: Path, scope: Scope) -> None:
    """Writes the record. It is complete and synced to disk when this returns."""
    path = folder / SCOPE_FILE
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    text = json.dumps({"version": VERSION, "digest": _digest(scope), "scope": scope}, indent=2)
    with partial.open("w", encoding="utf-8") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


_SUFFIXES: Final = {f".{form.value}" for form in RowFormat}


def _decoded(path: Path, data: bytes) -> dict[str, Any]:
    damaged = ConfigurationError(
        f"{path}: expected the record of the settings of the folder's files, got something else: restore it, or give "
        "another folder"
    )
    if len(data) > MAX_BYTES:
        raise damaged
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise damaged from None
    if not isinstance(record, dict):
        raise damaged
    if record.get("version") != VERSION:
        raise ConfigurationError(
            f"{path}: version {record.get('version')!r:.20}, expected {VERSION}: use the release of Penstock that "
            "wrote the folder, or a newer one"
        )
    scope = record.get("scope")
    if not isinstance(scope, dict) or record.get("digest") != _digest(scope):
        raise damaged
    return scope


def _digest(scope: Scope) -> str:
    return hashlib.sha256(json.dumps(scope, sort_keys=True).encode()).hexdigest()


def _value_text(value: object) -> str:
    return "not given" if value is None else json.dumps(value, ensure_ascii=False)[:200]
