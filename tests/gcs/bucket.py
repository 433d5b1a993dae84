"""The bucket of these tests: URIs of its tables, and uploads of golden tables."""

from __future__ import annotations

import pathlib
from typing import Final
from urllib.parse import quote

import pyarrow.fs as pafs

BUCKET: Final = "lake"


def uri(store: str, name: str, scheme: str = "gs") -> str:
    """The URI of a table. pyarrow retries a failed request for at most five seconds."""
    return (
        f"{scheme}://anonymous@{BUCKET}/{name}?scheme=http&endpoint_override={quote(store, safe='')}"
        "&retry_limit_seconds=5"
    )


def copy_in(source: pathlib.Path, target: str) -> None:
    """Uploads a local folder. A folder has no object of its own, as after the upload by Hudi."""
    filesystem, root = pafs.FileSystem.from_uri(target)
    for file in sorted(source.rglob("*")):
        if file.is_file():
            with filesystem.open_output_stream(f"{root}/{file.relative_to(source).as_posix()}") as output:
                output.write(file.read_bytes())
