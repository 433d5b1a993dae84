"""The settings of catalogs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from penstock.enumerator.server.config.fields import BY_FIELDS, Ranges, camel, within
from penstock.proto.errors import ConfigurationError

MAX_CATALOGS: Final = 100
"""Catalogs of a server. Each has a thread."""
_CATALOG_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogSettings:
    """A catalog whose tables are served as `NAME.TABLE`, under `[catalog.NAME]`. `NAME = "PATH"` under `[catalog]` is
    the short form of `path`. Exactly one of `path`, `file` and `hive` is given."""

    __pydantic_config__: ClassVar[dict[str, object]] = BY_FIELDS
    ranges: ClassVar[Ranges] = {"refresh_interval_ms": (1_000, 86_400_000), "poll_interval_ms": (10, 86_400_000)}

    path: str = field(default="", repr=False)
    """A folder of tables, or a glob of folders such as `/lake/*/*`: a local path or URI. The name of a table consists
    of the parts that the wildcards matched, joined by dots."""
    file: str = field(default="", repr=False)
    """A TOML file, local or a URI, with lines `NAME = "PATH"` under `[tables]`. It is read again for each listing."""
    hive: str = field(default="", repr=False)
    """`HOST:PORT` of a Hive Metastore (Thrift). Its Hudi tables are served as `NAME.DATABASE.TABLE`. Needs the extra
    `hive`."""
    include: tuple[str, ...] = ("*",)
    """Shell patterns of names without the name of the catalog; a table must match one of them."""
    exclude: tuple[str, ...] = ()
    """Shell patterns of names without the name of the catalog; a table must match none of them."""
    refresh_interval_ms: int = 30_000
    """How often the catalog is listed. A listing is spread over half of the interval."""
    poll_interval_ms: int | None = None
    """How often its tables are checked for new commits; default: `pollIntervalMs` of the server."""

    def __post_init__(self) -> None:
        given = [name for name in ("path", "file", "hive") if getattr(self, name)]
        if len(given) != 1:
            raise ConfigurationError(
                f"catalog: got {', '.join(given) or 'none'} of path, file and hive, expected exactly one"
            )
        if not self.include:
            raise ConfigurationError("catalog: include: got an empty list, which allows no table; omit the key")
        for pattern in (*self.include, *self.exclude):
            if not 0 < len(pattern) <= 400:
                raise ConfigurationError("catalog: include and exclude: expected patterns of 1 to 400 characters")
        for name, (least, most) in self.ranges.items():
            value = getattr(self, name)
            if value is not None:
                within(f"catalog: {camel(name)}", value, least, most)


def check_catalogs(names: Iterable[str]) -> None:
    """ConfigurationError for too many catalogs, or a name that a table's name cannot begin with."""
    names = tuple(names)
    if len(names) > MAX_CATALOGS:
        raise ConfigurationError(f"catalog: got {len(names)} catalogs, expected at most {MAX_CATALOGS}")
    for name in names:
        if not _CATALOG_NAME.fullmatch(name):
            raise ConfigurationError(
                f"catalog: name {name[:80]!r}: expected 1 to 64 letters, digits and _ - ., beginning with a letter"
            )
