"""The folder of a bootstrapped table's source files (`hoodie.bootstrap.base.path`), and the paths of files in it.

Both come from the table, so they are untrusted: a path must stay inside the folder, and a table leads a reader neither
to another store nor to its local files, unless the reader's environment names the folder (PENSTOCK_BOOTSTRAP_SOURCES).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from penstock.proto.errors import ConfigurationError, CorruptFile, UnsupportedFeature
from penstock.table.storage.filesystem import Storage, checked_path, open_storage
from penstock.table.storage.uris import AZURE_SCHEMES, SCHEMES, folder_uri, redacted_uri, uri_scheme

BOOTSTRAP_BASE_PATH: Final = "hoodie.bootstrap.base.path"
"""The property with the folder of the source files (`TableProperties.bootstrap_base_path`)."""
TRUSTED_SOURCES: Final = "PENSTOCK_BOOTSTRAP_SOURCES"
"""The environment variable with the folders on other stores that tables may name, separated by commas."""
_BUCKETS: Final = ("s3", "gs")
"""Stores whose buckets have one service, which the reader's settings name."""
_ROOT: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*:)?(?://[^/]*)?")


def path_in_sources(uri: str, root: str, where: str) -> str:
    """The path of a source file relative to the folder `root`. Both are as Hudi wrote them: URIs or absolute paths.

    CorruptFile, beginning with `where`, for a file that is not inside the folder. Schemes are compared only if both
    have one, and `file:/x`, `file:///x` and `/x` are the same.
    """
    file_store, file_path = _parts(uri)
    root_store, root_path = _parts(root)
    folder = root_path.rstrip("/") + "/"
    same_store = file_store == root_store or not file_store or not root_store
    if not same_store or not file_path.startswith(folder) or len(file_path) == len(folder):
        raise CorruptFile(
            f"{where}: source file {redacted_uri(uri)[:300]!r} is refused: it is outside of the bootstrap base path "
            f"{redacted_uri(root)[:300]!r} (the index is damaged or hostile)"
        )
    return checked_path(file_path[len(folder) :])


def open_sources(table_path: str, stated: str) -> Storage:
    """The storage of the source files. `stated` is the property's value, `table_path` the table's base path.

    A path without a scheme is on the store of the table. Credentials and query (region, endpoint) are those of the
    table's URI: the property comes from the table and must not choose where signed requests go. Another kind of store,
    another host of HDFS or Azure, and local files of a table on a remote store are opened inside of a folder that
    TRUSTED_SOURCES names, with the credentials and the query of that folder. CorruptFile for a relative path, for
    credentials or a query in the property, and for a local path of a table on a remote store. UnsupportedFeature for
    another kind of store than the table's, and another host of HDFS or Azure. ConfigurationError for a path that cannot
    be opened.
    """
    return open_storage(located_sources(table_path, stated, trusted_sources(os.environ)))


def trusted_sources(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The folders of TRUSTED_SOURCES. ConfigurationError for one that is neither an absolute path nor a URI of a known
    file system, for the whole of a store, for `.` and `..`, and for a local one with a host or a query."""
    folders = tuple(filter(None, (folder.strip() for folder in variables.get(TRUSTED_SOURCES, "").split(","))))
    for number, folder in enumerate(folders, 1):
        is_local = uri_scheme(folder) in ("", "file")
        known = is_local or uri_scheme(folder) in SCHEMES
        path = _without_query(folder)[len(_root(folder)) :]
        parts = unquote(path).strip("/").split("/")
        has_more = is_local and ("?" in folder or _root(folder).lower() not in ("", "file:", "file://"))
        if not known or has_more or not path.startswith("/") or {"", ".", ".."} & set(parts):
            raise ConfigurationError(
                f"{TRUSTED_SOURCES}: entry {number} of {len(folders)} is no folder: expected absolute paths or URIs "
                "such as hdfs://host:8020/lake, separated by commas"
            )
    return folders


def located_sources(table_path: str, stated: str, trusted: Sequence[str] = ()) -> str:
    """The path or URI that `open_sources` opens. `trusted`: the folders of `trusted_sources`. Errors as there."""
    where = f"bootstrap base path {redacted_uri(stated)[:300]!r} of table {redacted_uri(table_path)}"
    table_scheme, scheme = uri_scheme(table_path), uri_scheme(stated)
    if not scheme and not stated.startswith("/"):
        raise CorruptFile(f"{where} is relative: expected an absolute path or a URI")
    table_is_local, is_local = table_scheme in ("", "file"), scheme in ("", "file")
    if table_is_local and is_local:
        return _parts(stated)[1]
    if not is_local and ("?" in stated or "#" in stated or redacted_uri(stated) != stated):
        raise CorruptFile(f"{where} is refused: it has credentials or a query, which are those of the reader alone")
    if scheme and (opened := _opened_as_trusted(stated, trusted)) is not None:
        return opened
    if scheme == "file":
        raise CorruptFile(
            f"{where} is refused: the table is on a remote store and must not name files of the machine that reads it "
            f"(unless {TRUSTED_SOURCES} has the folder)"
        )
    table_root, query = _root(table_path), table_path.partition("?")[2]
    suffix = f"?{query}" if query else ""
    if is_local:
        return f"{table_root}{stated}{suffix}"
    kind, store = _stores(stated)
    table_kind, table_store = ("", "") if table_is_local else _stores(table_path)
    other_host = store.rpartition("@")[2] != table_store.rpartition("@")[2]
    if kind != table_kind or (other_host and kind not in _BUCKETS):
        raise UnsupportedFeature(
            f"{where} is on another store than the table: a reader follows it within the table's kind of store (of "
            f"HDFS and Azure: host), because its credentials go there; name the folder in {TRUSTED_SOURCES} where the "
            "table is planned and read, or copy the source files to the table's store"
        )
    path = stated[len(_root(stated)) :]
    if store == table_store:
        return f"{table_root}{path}{suffix}"
    if other_host:
        return f"{_root(stated)}{path}{suffix}"
    key = table_root.partition("//")[2].rpartition("@")[0].partition(":")[2]
    container, _, host = store.rpartition("@")
    return f"{table_scheme}://{container}{':' if key else ''}{key}@{host}{path}{suffix}"


def _opened_as_trusted(stated: str, trusted: Sequence[str]) -> str | None:
    """The stated folder on the store of the longest trusted folder that it is in; None if it is in none. `..` is
    searched for in the decoded path, because file systems decode it."""
    store, path = _parts(stated)
    if ".." in unquote(path).split("/"):
        return None
    for folder in sorted(trusted, key=lambda folder: -len(_parts(_without_query(folder))[1])):
        place = _without_query(folder)
        trusted_store, trusted_path = _parts(place)
        if store == trusted_store and _is_inside(path, trusted_path):
            if not trusted_store:
                real = os.path.realpath(path)
                return real if _is_inside(real, os.path.realpath(trusted_path)) else None
            return f"{_root(place)}{path}{folder[len(place) :]}"
    return None


def _is_inside(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _without_query(folder: str) -> str:
    return folder.partition("?")[0]


def _root(uri: str) -> str:
    """Scheme and authority of a URI; '' for a local path."""
    match = _ROOT.match(uri)
    return match[0] if match is not None else ""


def _stores(uri: str) -> tuple[str, str]:
    """The scheme in pyarrow's spelling, and the bucket or host without credentials; of Azure with the container."""
    scheme = folder_uri(uri).partition(":")[0]
    authority = _root(redacted_uri(uri)).partition("//")[2]
    return "abfs" if scheme in AZURE_SCHEMES else scheme, authority


def _parts(uri: str) -> tuple[str, str]:
    """The store of a URI ('' for a local path and one without a scheme), and the path in it."""
    scheme = uri_scheme(uri)
    path = uri[len(_root(uri)) :]
    return ("", path) if scheme in ("", "file") else ("//".join(_stores(uri)), path)
