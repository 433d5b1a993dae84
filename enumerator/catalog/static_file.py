"""The catalog in a file: `NAME = "PATH"` lines of TOML, on any storage; each listing reads it again."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from typing import Final

from penstock.enumerator.catalog.adapter import Item, ListedTable, RefusedTable
from penstock.proto.errors import ConfigurationError
from penstock.table.storage.filesystem import Storage, open_storage
from penstock.table.storage.uris import redacted_uri

MAX_FILE_BYTES: Final = 8 << 20
"""Largest file of tables."""
MAX_NESTED_CHARS: Final = 400
"""Longest name of nested TOML tables."""
MAX_DOTS: Final = 100
"""Most dots in one line of the file: the time and memory that the parser needs grow with the square of the parts of a
name."""


class FileCatalog:
    """A `CatalogAdapter` of a TOML file with a table `[tables]` of names and paths. Names may contain dots.

    `open_` opens the storage of the folder of the file.
    """

    def __init__(self, path: str, open_: Callable[[str], Storage] = open_storage) -> None:
        text, mark, query = path.partition("?") if "://" in path else (path, "", "")
        folder, _, self._name = text.rpartition("/")
        if not self._name:
            raise ConfigurationError(f"file {redacted_uri(path)[:200]!r}: expected the path of a TOML file")
        self._folder = (folder or ("/" if text.startswith("/") else ".")) + mark + query
        self._described, self._open = redacted_uri(path)[:300], open_

    def listing(self) -> Iterator[Item]:
        """See `CatalogAdapter.listing`. ConfigurationError if the file does not exist or is not such a file."""
        try:
            data = self._open(self._folder).read_bytes(self._name, MAX_FILE_BYTES)
        except FileNotFoundError:
            raise ConfigurationError(f"file of tables {self._described} does not exist") from None
        dots, line = max((text.count(b"."), -number) for number, text in enumerate(data.split(b"\n"), 1))
        if dots > MAX_DOTS:
            raise ConfigurationError(
                f"file of tables {self._described}: line {-line} has {dots} dots: expected at most {MAX_DOTS}"
            )
        try:
            tables = tomllib.loads(data.decode()).get("tables", {})
        except (ValueError, RecursionError) as error:  # also of bytes that are no text, and of too long numbers
            raise ConfigurationError(f"file of tables {self._described} is not TOML: {str(error)[:200]}") from None
        if not isinstance(tables, dict):
            raise ConfigurationError(f'file of tables {self._described}: expected [tables] with lines NAME = "PATH"')
        yield from _items(tables, "")


def _items(tables: dict[str, object], prefix: str) -> Iterator[Item]:
    """Items of a TOML table. An unquoted name with dots is nested in TOML."""
    for key in sorted(tables):
        value, name = tables[key], f"{prefix}{key}"
        if isinstance(value, str):
            yield ListedTable(name, value)
        elif isinstance(value, dict) and len(name) < MAX_NESTED_CHARS:
            yield from _items(value, f"{name}.")
        else:
            yield RefusedTable(name[:200], f"got {type(value).__name__}, expected a path")
