"""A table without writes, and transactions of it on a clock that the test moves."""

from __future__ import annotations

import datetime
import pathlib

import pytest

from penstock.writer.transaction.transaction import WriteEnvironment
from tests.unit.engine.write.recorded_storage import Kind, Lake
from tests.unit.writer.transaction.begun_transactions import Clock


@pytest.fixture
def kind() -> Kind:
    return 9, "merge_on_read", "bucket"


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Lake:
    return Lake(tmp_path / "t", kind, monkeypatch)


@pytest.fixture
def clock(lake: Lake) -> Clock:
    return Clock(lake)


@pytest.fixture
def environment(clock: Clock) -> WriteEnvironment:
    return WriteEnvironment(zone=datetime.UTC, now=clock)
