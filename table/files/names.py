"""Parses and forms the names of base files and log files (Hudi `FSUtils`, `HoodieLogFile`). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from penstock.proto.errors import InvariantViolation
from penstock.proto.model.positions import InstantTime
from penstock.table.files.external_names import MARK, is_external, parse_external_name


class BaseName(NamedTuple):
    """`<file id>_<write token>_<instant>.<extension>`."""

    file_id: str
    """The file group; for a file of another writer (`table.files.external_names`) its path inside the partition."""
    write_token: str
    """'' for a file of another writer."""
    instant: InstantTime
    """Requested time of the instant that wrote or registered the file."""
    extension: str
    """Without the dot."""


class LogName(NamedTuple):
    """`.<file id>_<instant>.log.<version>_<write token>[.cdc]`."""

    file_id: str
    """The file group."""
    instant: InstantTime
    """Up to table version 7, the instant of the base file that the log belongs to; from version 8 on, and for `.cdc`
    files, the delta commit that wrote it."""
    version: int
    """Number of the log within its slice."""
    write_token: str
    """'' in old names."""
    is_cdc: bool
    """Whether it is a change-data-capture log."""

    @property
    def order(self) -> tuple[str, int, str, bool]:
        """Sort key of the logs of a slice: instant, version, write token ('' first), `.cdc` last."""
        return (self.instant, self.version, self.write_token, self.is_cdc)


_MAX_NAME = 255
_MAX_SHARED: Final = 4096
_BASE_PARTS: Final = r"([^_./\x00]+)_([^_./\x00]+)_([0-9]{1,24})\.(parquet|orc|hfile|lance)"
"""File id, write token, instant, extension."""
_LOG_PARTS: Final = r"\.([^_./\x00]+)_([0-9]{1,24})\.log\.([0-9]{1,9})(?:_([0-9]+-[0-9]+-[0-9]+)(\.cdc)?)?"
"""File id, instant, version, write token, mark of a change-data-capture log."""
_BASE = re.compile(_BASE_PARTS)
_LOG = re.compile(_LOG_PARTS)
_EACH = re.compile(f"/((?:{_BASE_PARTS}|{_LOG_PARTS}))(?=/)")
"""A data file's name between two '/'."""


def parse_file_name(name: str) -> BaseName | LogName | None:
    """The parts of a data file's name (without folders); None for any other file.

    Other files are markers, checksums, `.hoodie_partition_metadata` and the like. A file of another writer is a data
    file by its marked name in metadata, with the instant that registered it.
    """
    if is_external(name):
        external = parse_external_name(name)
        if external is None:
            return None
        return BaseName(external.file_id, "", InstantTime(external.instant), external.extension)
    if len(name) > _MAX_NAME:
        return None
    if name.startswith("."):
        log = _LOG.fullmatch(name)
        if log is None:
            return None
        file_id, instant, version, token, cdc = log.groups()
        return LogName(file_id, _instant(instant), int(version), _text(token or ""), cdc is not None)
    base = _BASE.fullmatch(name)
    if base is None:
        return None
    file_id, token, instant, extension = base.groups()
    return BaseName(file_id, _text(token), _instant(instant), _text(extension))


def data_file_names(names: Sequence[str]) -> list[tuple[str, BaseName | LogName]]:
    """The data files among the names, in the same order, with the parts of each as `parse_file_name` returns them. One
    search of all names takes less time than a call for each."""
    text = f"/{'/'.join(names)}/"
    # names that the search does not parse as `parse_file_name` does: with a '/', of another writer, too long
    if text.count("/") != len(names) + 1 or MARK in text or max(map(len, names), default=0) > _MAX_NAME:
        return [(name, parts) for name in names if (parts := parse_file_name(name)) is not None]
    return [
        (name, BaseName(file_id, _text(token), _instant(instant), _text(extension)))
        if file_id
        else (name, LogName(of_log, _instant(log_instant), int(version), _text(log_token), bool(cdc)))
        for name, file_id, token, instant, extension, of_log, log_instant, version, log_token, cdc in _EACH.findall(
            text
        )
    ]


# One object for the parts that many names have in common: most of the memory of a parsed name, and its checks.
_instant = lru_cache(_MAX_SHARED)(InstantTime)
_text = lru_cache(_MAX_SHARED)(str)


def base_file_name(file_id: str, write_token: str, instant: str, extension: str = "parquet") -> str:
    """The name of a base file: the inverse of `parse_file_name`.

    InvariantViolation for parts that do not form such a name, such as a file id with `_` or `.`.
    """
    name = f"{file_id}_{write_token}_{instant}.{extension}"
    if parse_file_name(name) != BaseName(file_id, write_token, InstantTime(instant), extension):
        raise InvariantViolation(f"base file name {name[:300]!r} is not <file id>_<write token>_<instant>.{extension}")
    return name


def log_file_name(file_id: str, instant: str, version: int, write_token: str, *, is_cdc: bool = False) -> str:
    """The name of a log file: the inverse of `parse_file_name`; see `LogName` for the parts.

    InvariantViolation for parts that do not form such a name, such as a write token other than three numbers.
    """
    name = f".{file_id}_{instant}.log.{version}_{write_token}{'.cdc' if is_cdc else ''}"
    parts = LogName(
        file_id=file_id, instant=InstantTime(instant), version=version, write_token=write_token, is_cdc=is_cdc
    )
    if parse_file_name(name) != parts or not write_token:
        raise InvariantViolation(f"log file name {name[:300]!r} is not .<file id>_<instant>.log.<version>_<token>")
    return name


def absolute_path(base_path: str, partition: str, name: str) -> str:
    """The path of a file as Hudi stores it in plans: absolute, local ones without a scheme."""
    base = base_path.removeprefix("file://") if base_path.startswith("file:///") else base_path
    return "/".join(part for part in (base.rstrip("/"), partition, name) if part)
