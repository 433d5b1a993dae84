"""The object store of these tests: its credentials, and uploads of golden tables without the proxy."""

from __future__ import annotations

import pathlib
import urllib.error
import urllib.request
from typing import Any

import pyarrow.fs as pafs

USER, SECRET, BUCKET, REGION = "lab", "labsecret", "lake", "us-east-1"


def answers(address: str) -> bool:
    """Whether a server responds to HTTP at the address."""
    try:
        urllib.request.urlopen(f"http://{address}/", timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def direct(address: str) -> Any:
    """The store's file system, for uploads of tests."""
    return pafs.S3FileSystem(
        access_key=USER, secret_key=SECRET, endpoint_override=address, scheme="http", region=REGION,
        allow_bucket_creation=True,
    )  # fmt: skip


def copy_in(source: pathlib.Path, store: str, name: str) -> None:
    """Uploads a local folder."""
    target = pafs.SubTreeFileSystem(f"{BUCKET}/{name}", direct(store))
    pafs.copy_files(str(source), "", destination_filesystem=target, use_threads=True)
