"""The catalog of folders: a folder whose sub-folders are tables, or a glob of folders, on any storage."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from penstock.enumerator.catalog.adapter import Item, ListedTable, RefusedTable, UnreadablePart
from penstock.proto.errors import ConfigurationError, PenstockError, StorageDenied, TableNotFound
from penstock.table.storage.filesystem import Storage, open_storage
from penstock.table.storage.uris import redacted_uri

MAX_FOLDERS: Final = 100_000
"""Folders that one listing checks; the rest is a problem."""
PROPERTIES: Final = ".hoodie/hoodie.properties"
"""The file by which a folder is a Hudi table."""
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]+:")
_WILDCARD: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class FolderPattern:
    """A parsed path or glob."""

    root: str
    """The folder before the first wildcard."""
    segments: tuple[str, ...]
    """The parts below it: patterns and names, at least one."""
    query: str = ""
    """The query of a URI, with its `?`."""

    def path_of(self, folder: str) -> str:
        """The path or URI of a folder below the root."""
        return f"{self.root.rstrip('/')}/{folder}{self.query}"


def parse_folders(path: str) -> FolderPattern:
    """Parses `/lake/*`, `s3://bucket/lake/*/*?region=eu-west-1`, or a folder, which means its sub-folders.

    `*`, `[…]` and, in local paths, `?` match within one part of the path. ConfigurationError for `**`, for a wildcard
    in a bucket's name, and for a path without a folder.
    """
    is_uri = bool(_URI.match(path))
    text, mark, query = path.partition("?") if is_uri else (path, "", "")
    scheme, _, rest = text.partition("://") if is_uri else ("", "", text)
    parts = rest.rstrip("/").split("/")
    first = next((index for index, part in enumerate(parts) if _WILDCARD.search(part)), len(parts))
    segments = tuple(parts[first:]) or ("*",)
    described = redacted_uri(path)[:200]
    if any("**" in segment or segment in ("", ".", "..") for segment in segments):
        raise ConfigurationError(
            f"{described!r}: `**` and empty parts are not supported: name each level, as in /lake/*/*"
        )
    if not path or (is_uri and first == 0):
        raise ConfigurationError(f"{described!r}: expected a folder before the first wildcard")
    root = "/".join(parts[:first])
    if is_uri:
        root = f"{scheme}://{root}"
    return FolderPattern(root or ("/" if rest.startswith("/") else "."), segments, mark + query)


class FolderCatalog:
    """A `CatalogAdapter` of folders. The name of a table consists of the parts that wildcards matched, joined by dots.

    A listing costs one list request for each folder above the tables, and one look for `hoodie.properties` in each
    folder that may be a table. Folders whose names begin with `.` or `_` are ignored. `open_` opens the storage.
    """

    def __init__(self, path: str, open_: Callable[[str], Storage] = open_storage) -> None:
        self._pattern, self._open = parse_folders(path), open_
        self._storage: Storage | None = None
        self._local = _local_folder(self._pattern.root)

    def listing(self) -> Iterator[Item]:
        """See `CatalogAdapter.listing`. TableNotFound if the root folder does not exist; StorageError."""
        if self._storage is None:
            self._storage = self._open(self._pattern.root + self._pattern.query)
        root = self._storage.file_info("")
        if root is None or not root.is_dir:
            raise TableNotFound(
                f"folder {redacted_uri(self._pattern.root)[:300]} does not exist: expected a folder of tables"
            )
        for checked, item in enumerate(self._matches(self._storage, "", "", self._pattern.segments)):
            if checked >= MAX_FOLDERS:
                yield UnreadablePart("", f"more than {MAX_FOLDERS} folders: the first ones in order are served")
                return
            yield item

    def _matches(self, storage: Storage, folder: str, name: str, segments: tuple[str, ...]) -> Iterator[Item]:
        """Items below a folder, whose name so far is `name`, for the remaining segments."""
        segment, rest = segments[0], segments[1:]
        if not _WILDCARD.search(segment):
            inside = f"{folder}/{segment}".lstrip("/")
            yield from self._matches(storage, inside, name, rest) if rest else self._table(storage, inside, name)
            return
        try:
            infos = storage.list_dir(folder)
        except PenstockError as error:
            if not folder:
                raise
            yield _problem(name, error)
            return
        yield None
        if folder and any(info.name == ".hoodie" for info in infos):
            return  # a table above the level of tables: its partitions are no tables
        for info in infos:
            if info.is_dir and not info.name.startswith((".", "_")) and fnmatchcase(info.name, segment):
                longer = f"{name}.{info.name}".lstrip(".")
                if rest:
                    yield from self._matches(storage, info.path, longer, rest)
                else:
                    yield from self._table(storage, info.path, longer)

    def _table(self, storage: Storage, folder: str, name: str) -> Iterator[Item]:
        try:
            is_table = storage.file_info(f"{folder}/{PROPERTIES}") is not None
        except PenstockError as error:
            yield _problem(name, error)
            return
        yield ListedTable(name, self._pattern.path_of(folder), self._link_to(folder)) if is_table else None

    def _link_to(self, folder: str) -> str:
        """The path of the folder, without symbolic links below the root; '' if it is the same one."""
        if self._local is None:
            return ""
        root = os.path.realpath(self._local)
        real = os.path.realpath(os.path.join(root, folder))  # noqa: PTH118 - `Path` drops no links
        inside = os.path.relpath(real, root)
        return "" if inside == folder else self._pattern.path_of(inside)


def _local_folder(root: str) -> str | None:
    """The root as a local path; None in an object store."""
    if root.startswith("file:"):
        return url2pathname(urlsplit(root).path)
    return None if _URI.match(root) else root


def _problem(name: str, error: PenstockError) -> Item:
    """The item for a folder that cannot be read. If a retry may help, its tables stay."""
    is_temporary = error.retryable or isinstance(error, StorageDenied)
    return UnreadablePart(name, str(error)) if is_temporary else RefusedTable(name, str(error))
