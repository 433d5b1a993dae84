"""The folder of a bootstrapped table's source files (`hoodie.bootstrap.base.path`), and the paths of files in it.

Both come from the table, so they are untrusted: a path must stay inside the folder, and a table on a remote store must
not lead a reader to its local files.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.proto.errors import CorruptFile
from penstock.table.storage.filesystem import (
    Storage,
    checked_path,
    folder_uri,
    open_storage,
    redacted_uri,
    uri_scheme,
)

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

    A path without a scheme is on the store of the table. On the table's own store, the credentials and the query of the
    table's URI (region, endpoint) apply. ConfigurationError for a path that cannot be opened. CorruptFile for a
    relative path, and for a local path of a table on a remote store.
    """
    return open_storage(located_sources(table_path, stated))


def located_sources(table_path: str, stated: str) -> str:
    """The path or URI that `open_sources` opens. Errors as there."""
    where = f"bootstrap base path {redacted_uri(stated)[:300]!r} of table {redacted_uri(table_path)}"
    table_scheme, scheme = uri_scheme(table_path), uri_scheme(stated)
    if not scheme and not stated.startswith("/"):
        raise CorruptFile(f"{where} is relative: expected an absolute path or a URI")
    if table_scheme in ("", "file"):
        return _parts(stated)[1] if scheme in ("", "file") else stated
    if scheme == "file":
        raise CorruptFile(
            f"{where} is refused: the table is on a remote store and must not name files of the machine that reads it"
        )
    table_root, query = _root(table_path), table_path.partition("?")[2]
    suffix = f"?{query}" if query and "?" not in stated else ""
    if not scheme:
        return f"{table_root}{stated}{suffix}"
    if _stores(table_path)[0] != _stores(stated)[0]:
        return stated
    if _stores(table_path) == _stores(stated):
        stated = table_root + stated[len(_root(stated)) :]
    return stated + suffix


def _root(uri: str) -> str:
    """Scheme and authority of a URI; '' for a local path."""
    match = _ROOT.match(uri)
    return match[0] if match is not None else ""


def _stores(uri: str) -> tuple[str, str]:
    """The scheme in pyarrow's spelling, and the bucket or host without credentials."""
    scheme = folder_uri(uri).partition(":")[0]
    return scheme, _root(uri).partition("//")[2].rpartition("@")[2]


def _parts(uri: str) -> tuple[str, str]:
    """The store of a URI ('' for a local path and one without a scheme), and the path in it."""
    scheme = uri_scheme(uri)
    path = uri[len(_root(uri)) :]
    return ("", path) if scheme in ("", "file") else ("//".join(_stores(uri)), path)
