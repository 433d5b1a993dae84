"""Folders as targets: one folder a table. Pure."""

from __future__ import annotations

import pathlib
from urllib.parse import quote


def folder_problem(table: str) -> str:
    """Why a table of this name has no folder; '': it has one."""
    if not table or table in (".", "..") or "/" in table or "\\" in table or "\0" in table:
        return "the name is not one of a folder: give `into`"
    return "the name has more than 255 bytes, the longest name of a folder" if len(table.encode()) > 255 else ""


def table_uri(place: str, table: str) -> str:
    """The URI of a table's folder in `place`, a local path or a URI, whose query stays at the end."""
    if "://" in place:
        folder, mark, query = place.partition("?")
        return f"{folder.rstrip('/')}/{quote(table, safe='')}{mark}{query}"
    return pathlib.Path(place).absolute().joinpath(table).as_uri()
