"""The store of these tests: its account, URIs of its tables, and uploads of golden tables."""

from __future__ import annotations

import pathlib
from typing import Any, Final

import pyarrow.fs as pafs

ACCOUNT: Final = "lab"
KEY: Final = "cGVuc3RvY2sgdGVzdHM6IG5vIHNlY3JldCBvZiBhbnlib2R5"
CONTAINER: Final = "lake"


def uri(store: str, name: str, more: str = "") -> str:
    """The URI of a table, with more parameters of its query."""
    return f"abfs://{ACCOUNT}@{store}/{CONTAINER}/{name}?enable_tls=false{more}"


def direct(store: str) -> Any:
    """The store's file system, for uploads of tests."""
    return pafs.AzureFileSystem(
        ACCOUNT, account_key=KEY, blob_storage_authority=store, dfs_storage_authority=store,
        blob_storage_scheme="http", dfs_storage_scheme="http",
    )  # fmt: skip


def copy_in(source: pathlib.Path, store: str, name: str) -> None:
    """Uploads a local folder."""
    filesystem = direct(store)
    for file in sorted(source.rglob("*")):
        if file.is_file():
            with filesystem.open_output_stream(f"{CONTAINER}/{name}/{file.relative_to(source).as_posix()}") as output:
                output.write(file.read_bytes())
