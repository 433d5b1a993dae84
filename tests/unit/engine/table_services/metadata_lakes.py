"""Tables with a metadata table, and whether it has the files that their folders have."""

from __future__ import annotations

import pathlib

import pytest

from tests.unit.engine.write.recorded_storage import FIRST, KINDS, Kind, Lake
from tests.unit.writer.metadata_table.metadata_tables import listed, listings

kinds = pytest.mark.parametrize("kind", KINDS[:2], ids=lambda kind: kind[1])


def lake_of(folder: pathlib.Path, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A table with a metadata table and one write."""
    lake = Lake(folder / "t", kind, monkeypatch, metadata_table=True)
    lake.write(FIRST)
    return lake


def check(path: pathlib.Path, what: str = "") -> None:
    """The metadata table is used, and lists the files of the folders."""
    by_metadata, by_folders = listings(path)
    assert listed(path) == "files" and by_metadata == by_folders, what
