"""The tables of a server or of a folder."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.proto.errors import ConfigurationError, PenstockError, TableNotFound
from penstock.proto.model.access import ServerAccess, checked_address
from penstock.table.storage.filesystem import Storage, open_storage
from penstock.table.storage.uris import redacted_uri

_TIMELINE = ".hoodie"


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table of a server or of a folder."""

    location: str
    """The path or URI, or the name on the server."""
    error: str = ""
    """Why the table cannot be opened, or ''."""


def is_address(source: str) -> bool:
    """Whether the text is HOST:PORT, and so names a server and not a folder."""
    try:
        checked_address(source)
    except ConfigurationError:
        return False
    return True


def tables_of(source: str, access: ServerAccess) -> dict[str, ListedTable]:
    """The tables of a server (HOST:PORT) or of a folder, by name, sorted. Errors: `penstock.errors`; TableNotFound if
    there is none."""
    tables = _served(source, access) if is_address(source) else _in_folder(source)
    return dict(sorted(tables.items()))


def _served(address: str, access: ServerAccess) -> dict[str, ListedTable]:
    from penstock.engine.group.connect import group_enumerator_for

    status = group_enumerator_for(address, access).describe_server()
    if not status.tables:
        raise TableNotFound(f"server {address} serves no table: expected at least one")
    return {each.table: ListedTable(each.table, each.error or each.error_code) for each in status.tables}


def _in_folder(folder: str) -> dict[str, ListedTable]:
    storage = open_storage(folder)
    names = [entry.name for entry in storage.list_dir("") if entry.is_dir and not entry.name.startswith(".")]
    listed = {name: _listed(storage, name) for name in names}
    tables = {name: table for name, table in listed.items() if table is not None}
    if not tables:
        is_table = storage.file_info(_TIMELINE) is not None
        raise TableNotFound(
            f"folder {redacted_uri(folder)} contains no Hudi table: expected folders that contain {_TIMELINE}"
            + ("; the folder is itself a table, so give the folder that contains it" if is_table else "")
        )
    return tables


def _listed(storage: Storage, name: str) -> ListedTable | None:
    """The table in the folder of that name; None: the folder contains no timeline."""
    location = _within(storage.base_path, name)
    try:
        return ListedTable(location) if storage.file_info(f"{name}/{_TIMELINE}") is not None else None
    except PenstockError as error:
        return ListedTable(location, str(error))


def _within(folder: str, name: str) -> str:
    """The path or URI of a folder in `folder`; the parameters of a URI stay at its end."""
    if "://" not in folder:
        return f"{folder}/{name}"
    path, mark, parameters = folder.partition("?")
    return f"{path.rstrip('/')}/{name}{mark}{parameters}"
