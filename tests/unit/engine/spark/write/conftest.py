"""A table of each kind."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from tests.unit.engine.write.recorded_storage import Kind, Lake


@pytest.fixture
def make_lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Kind], Lake]:
    """A new table of a kind."""
    return lambda kind: Lake(tmp_path / "t", kind, monkeypatch)
