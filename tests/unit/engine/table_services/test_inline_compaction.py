"""Compaction after a write: when it is due, and that its failure is none of the write."""

from __future__ import annotations

import logging
import pathlib

import pytest

import penstock
from penstock.engine.table_services.compaction import compact
from penstock.proto.errors import ConfigurationError, StorageError
from tests.unit.engine.table_services.serviced_lake import LOGS, OPENS, rows_of
from tests.unit.engine.table_services.test_runs import Interrupted
from tests.unit.engine.write.recorded_storage import FIRST, Kind, Lake, arrow
from tests.unit.engine.write.test_kills import leftovers

both = pytest.mark.parametrize("kind", LOGS, ids=["9", "6"])


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Lake:
    lake = Lake(tmp_path / "t", kind, monkeypatch)
    lake.write(FIRST)
    return lake


def written(lake: Lake, seq: int, compact_after: int | None = 3) -> penstock.WriteResult:
    return penstock.write(str(lake.path), arrow([("k1", seq, "oslo")]), compact_after=compact_after)


@both
def test_table_is_compacted_after_so_many_delta_commits(lake: Lake) -> None:
    compacted = [len(written(lake, seq).compacted) for seq in range(2, 9)]
    assert compacted == [0, 1, 0, 0, 1, 0, 0], "the first write is a delta commit too"
    assert rows_of(lake.path)["seq"].to_pylist().count(8) == 1
    assert written(lake, 9, None).compacted == ()


@both
def test_pending_compaction_is_carried_out(lake: Lake) -> None:
    written(lake, 2, None)
    (plan,) = compact(str(lake.path), schedule_only=True)
    assert written(lake, 3, 99).compacted[0] == plan.instant
    assert leftovers(lake.path) == []


@both
def test_write_is_complete_if_the_compaction_fails(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def meanwhile() -> None:
        raise StorageError("no space")

    monkeypatch.setattr(OPENS, lambda path: Interrupted(lake.path, meanwhile))
    with caplog.at_level(logging.WARNING):
        result = written(lake, 9, 1)
    assert result.instant and result.compacted == ()
    assert f"write {result.instant} is complete, and no compaction followed: no space" in caplog.text
    assert rows_of(lake.path)["seq"].to_pylist().count(9) == 1
    monkeypatch.undo()
    assert len(written(lake, 10, 99).compacted) >= 1


def test_copy_on_write_table_is_never_due(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Lake(tmp_path / "t", (9, "copy_on_write", "simple"), monkeypatch)
    lake.write(FIRST)
    assert written(lake, 2, 1).compacted == ()


@both
def test_number_of_commits_is_checked_before_the_write(lake: Lake) -> None:
    before = lake.everything()
    with pytest.raises(ConfigurationError, match="compact_after"):
        written(lake, 2, 0)
    assert lake.everything() == before
