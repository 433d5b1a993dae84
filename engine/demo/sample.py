"""The table that the demo reads, and the rows that real Hudi returned for it: shipped as package data.

Made by `tools/make_demo_table.py` of the source tree. Belongs here: what is in that folder. Not here: how it is read.
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
    """One completed instant: what it did, and Hudi's rows of its range (rows of the table then, last written by it)."""

    what: str
    requested_time: str
    order_key: str
    is_data: bool
    rows: pa.Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """The table's name, the Hudi release that wrote it, its instants in commit order, its rows."""

    table: str
    hudi: str
    commits: tuple[SampleCommit, ...]
    snapshot: pa.Table

    @property
    def data_commits(self) -> tuple[SampleCommit, ...]:
        """Instants that are no table service."""
        return tuple(commit for commit in self.commits if commit.is_data)


def packaged_data() -> Traversable:
    """The folder that came with the package."""
    return files("penstock.engine.demo") / "orders"


def load_sample(folder: Traversable) -> Sample:
    """Everything in the folder but the table itself."""
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
    """The table as Hudi left it, in a new folder; the folder's path."""
    with (folder / "table.zip").open("rb") as packed, zipfile.ZipFile(packed) as archive:
        archive.extractall(into)
    return into


def unpack_new(folder: Traversable, parent: pathlib.Path) -> pathlib.Path:
    """The table in `parent`, under its own name; the folder's path. ConfigurationError if something is there already:
    nothing is written over."""
    into = parent / str(json.loads((folder / "manifest.json").read_text())["table"])
    try:
        into.mkdir(parents=True)
    except FileExistsError as error:
        raise ConfigurationError(f"{str(into)!r} is there already: give another folder, or remove it") from error
    return unpack_table(folder, into)


def _rows(file: Traversable) -> pa.Table:
    with file.open("rb") as opened:
        return pq.read_table(pa.BufferReader(opened.read()))
