"""The table that the demo reads, and the rows that real Hudi returned for it. Both are package data.

`tools/make_demo_table.py` of the source tree writes them.
"""

from __future__ import annotations

import json
import pathlib
import zipfile
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.proto.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleCommit:
    """One completed instant of the table."""

    what: str
    """What the instant did, in words."""
    requested_time: str
    """The requested time of the instant."""
    order_key: str
    """The order key of the instant."""
    is_data: bool
    """False for a table service."""
    rows: pa.Table
    """The rows that Hudi returned for the range of this instant: rows of the table then, last written by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The table of the demo."""

    table: str
    """The name of the table."""
    hudi: str
    """The Hudi release that wrote it."""
    commits: tuple[SampleCommit, ...]
    """Its instants, in commit order."""
    snapshot: pa.Table
    """The rows that Hudi returned for its snapshot."""

    @property
    def data_commits(self) -> tuple[SampleCommit, ...]:
        """The instants that are not table services."""
        return tuple(commit for commit in self.commits if commit.is_data)


def packaged_data() -> Traversable:
    """The folder with the package data."""
    return files("penstock.engine.demo") / "orders"


def load_sample(folder: Traversable) -> Sample:
    """Reads the folder, except for the table itself."""
    manifest = json.loads((folder / "manifest.json").read_text())
    commits = tuple(
        SampleCommit(
            what=commit["what"],
            requested_time=commit["requested"],
            order_key=commit["completion"] or commit["requested"],
            is_data=commit["is_data"],
            rows=_rows(folder / commit["rows"]),
        )
        for commit in manifest["commits"]
    )
    snapshot = _rows(folder / manifest["snapshot"])
    return Sample(table=manifest["table"], hudi=manifest["hudi"], commits=commits, snapshot=snapshot)


def unpack_table(folder: Traversable, into: pathlib.Path) -> pathlib.Path:
    """Unpacks the table, as Hudi wrote it, into a new folder. Returns the path of the folder."""
    with (folder / "table.zip").open("rb") as packed, zipfile.ZipFile(packed) as archive:
        archive.extractall(into)
    return into


def unpack_new(folder: Traversable, parent: pathlib.Path) -> pathlib.Path:
    """Unpacks the table into a folder of its name in `parent`. Returns its path. Overwrites nothing: raises
    ConfigurationError if the folder exists."""
    into = parent / str(json.loads((folder / "manifest.json").read_text())["table"])
    try:
        into.mkdir(parents=True)
    except FileExistsError as error:
        raise ConfigurationError(f"{str(into)!r} exists already: give another folder, or remove it") from error
    return unpack_table(folder, into)


def _rows(file: Traversable) -> pa.Table:
    with file.open("rb") as opened:
        return pq.read_table(pa.BufferReader(opened.read()))
