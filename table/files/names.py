"""Names of data files: base files and log files, taken apart (Hudi `FSUtils`, `HoodieLogFile`). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.proto.model.positions import InstantTime
from penstock.table.files.external_names import is_external, parse_external_name


@dataclass(frozen=True, slots=True)
class BaseName:
    """`<file id>_<write token>_<instant>.<extension>`; `extension` without the dot.

    Of a file that another writer made (`table.files.external_names`) `file_id` is its path in the partition's
    folder, and `write_token` is ''.
    """

    file_id: str
    write_token: str
    instant: InstantTime
    extension: str


@dataclass(frozen=True, slots=True)
class LogName:
    """`.<file id>_<instant>.log.<version>_<write token>[.cdc]`.

    `instant` is that of the base file the log belongs to in tables up to version 7, the writing delta commit's own
    from version 8 on, and the writing one's for `.cdc` files. `write_token` is '' in old names.
    """

    file_id: str
    instant: InstantTime
    version: int
    write_token: str
    is_cdc: bool

    @property
    def order(self) -> tuple[str, int, str, bool]:
        """The place of the log in its slice: instant, version as a number, token (none first), `.cdc` last."""
        return (self.instant, self.version, self.write_token, self.is_cdc)


_MAX_NAME = 255
_BASE = re.compile(
    r"(?P<file_id>[^_./\x00]+)_(?P<token>[^_./\x00]+)_(?P<instant>[0-9]{1,24})\.(?P<extension>parquet|orc|hfile|lance)"
)
_LOG = re.compile(
    r"\.(?P<file_id>[^_./\x00]+)_(?P<instant>[0-9]{1,24})\.log\.(?P<version>[0-9]{1,9})"
    r"(?:_(?P<token>[0-9]+-[0-9]+-[0-9]+)(?P<cdc>\.cdc)?)?"
)


def parse_file_name(name: str) -> BaseName | LogName | None:
    """What a file of a partition folder is by its name (no folders); None if it is no data file.

    No data file: markers, checksums, `.hoodie_partition_metadata`, whatever else lies there. A file that another
    writer made is one under the name that metadata gives it, with the instant that registered it.
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
        return LogName(
            file_id=log["file_id"],
            instant=InstantTime(log["instant"]),
            version=int(log["version"]),
            write_token=log["token"] or "",
            is_cdc=log["cdc"] is not None,
        )
    base = _BASE.fullmatch(name)
    if base is None:
        return None
    return BaseName(base["file_id"], base["token"], InstantTime(base["instant"]), base["extension"])
