"""Who carries out a plan: one process at a time; what another one still does is never seen."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pytest

from penstock.engine.table_services.compaction import compact
from penstock.proto.errors import StorageError, WriteConflict
from penstock.table.files.markers import marker_folder
from penstock.table.files.names import base_file_name
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.transaction.heartbeat import heartbeat_path, start_heartbeat
from tests.unit.engine.table_services.serviced_lake import LOGS, OPENS, commit_of, rows_of, upsert, with_logs
from tests.unit.engine.write.killed_storage import as_other_process
from tests.unit.engine.write.recorded_storage import Kind, Lake
from tests.unit.engine.write.test_kills import leftovers

both = pytest.mark.parametrize("kind", LOGS, ids=["9", "6"])


@pytest.fixture
def lake(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> Lake:
    return with_logs(tmp_path / "t", kind, monkeypatch)


def planned(lake: Lake) -> str:
    (plan,) = compact(str(lake.path), schedule_only=True)
    return plan.instant


def inflight(lake: Lake, instant: str) -> pathlib.Path:
    return lake.timeline_folder / f"{instant}.compaction.inflight"


class Interrupted(LocalStorage):
    """Local files; `meanwhile` runs when the first data file is complete but not yet closed."""

    def __init__(self, root: pathlib.Path, meanwhile: Callable[[], object], *, at: int = 1) -> None:
        super().__init__(str(root))
        self.meanwhile, self.left = meanwhile, at

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        with super().new_file(path) as file:
            yield file
            self.left -= 1
            if not self.left:
                self.meanwhile()


@both
def test_running_compaction_is_refused(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    instant, before = planned(lake), rows_of(lake.path)
    errors: list[str] = []

    def meanwhile() -> None:
        monkeypatch.undo()
        with pytest.raises(WriteConflict) as caught:
            compact(str(lake.path))
        errors.append(str(caught.value))

    monkeypatch.setattr(OPENS, lambda path: Interrupted(lake.path, meanwhile))
    (result,) = compact(str(lake.path))
    assert errors and f"another process runs compaction {instant}" in errors[0]
    assert result.instant == instant and rows_of(lake.path) == before
    assert leftovers(lake.path) == []


@both
def test_run_without_heartbeat_may_be_hudis(lake: Lake) -> None:
    instant, before = planned(lake), rows_of(lake.path)
    inflight(lake, instant).write_bytes(b"")
    files = lake.everything()
    with pytest.raises(WriteConflict, match=r"inflight without a heartbeat.*sole_writer=True"):
        compact(str(lake.path))
    assert lake.everything() == files
    (result,) = compact(str(lake.path), sole_writer=True)
    assert result.instant == instant and rows_of(lake.path) == before
    assert leftovers(lake.path) == []


@both
@pytest.mark.parametrize("is_old", [False, True], ids=["dead", "expired"])
def test_plan_of_a_dead_process_is_taken_over(lake: Lake, monkeypatch: pytest.MonkeyPatch, is_old: bool) -> None:
    """Its files are removed by its markers, whatever their content."""
    instant, before = planned(lake), rows_of(lake.path)
    group = next(stat for stat in lake.table().compaction_plan(lake.table().timeline().pending[0]))
    left = base_file_name(group.file_id, "1-0-7", instant)
    marker = lake.path / marker_folder(instant) / group.partition / f"{left}.marker.MERGE"
    marker.parent.mkdir(parents=True)
    for file in (lake.path / group.partition / left, marker, inflight(lake, instant)):
        file.write_bytes(b"")
    with monkeypatch.context() as patch:
        if not is_old:
            as_other_process(patch)
        start_heartbeat(LocalStorage(str(lake.path)), instant)
    if is_old:
        os.utime(lake.path / heartbeat_path(instant), (time.time() - 121,) * 2)
    (result,) = compact(str(lake.path))
    assert result.instant == instant and rows_of(lake.path) == before
    assert f"{group.partition}/{left}" not in lake.files()
    assert leftovers(lake.path) == []


@both
@pytest.mark.parametrize("at", [1, 3], ids=["first file", "last file"])
def test_paused_run_is_never_seen(lake: Lake, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """A process is paused while it writes a file, another one takes the plan over and completes it, the first goes on.

    The instant is complete then, and a file of it would be one of the table.
    """
    instant, before = planned(lake), rows_of(lake.path)
    results = []

    def meanwhile() -> None:
        monkeypatch.undo()
        os.utime(lake.path / heartbeat_path(instant), (time.time() - 121,) * 2)
        results.extend(compact(str(lake.path)))

    monkeypatch.setattr(OPENS, lambda path: Interrupted(lake.path, meanwhile, at=at))
    with pytest.raises(WriteConflict, match="another process has taken over"):
        compact(str(lake.path))
    (result,) = results
    named = {stat.path for stat in commit_of(lake.path, instant).stats}
    assert result.instant == instant and rows_of(lake.path) == before
    assert {file for file in lake.files() if file.endswith(f"_{instant}.parquet")} == named
    upsert(lake.path, ("k1", 99, "oslo"))
    assert leftovers(lake.path) == []


@both
def test_files_that_a_paused_run_left_are_removed(lake: Lake) -> None:
    """It was killed after it had created a file of an instant that another run had completed."""
    before = rows_of(lake.path)
    (result,) = compact(str(lake.path))
    stat = commit_of(lake.path, result.instant).stats[0]
    late = base_file_name(stat.file_id, "9-0-9", result.instant)
    path = lake.path / stat.partition / late
    path.write_bytes((lake.path / stat.path).read_bytes())
    marker = lake.path / marker_folder(result.instant) / stat.partition / f"{late}.marker.MERGE"
    marker.parent.mkdir(parents=True)
    marker.write_bytes(b"")
    upsert(lake.path, ("new", 1, "bern"))
    assert not path.exists() and (lake.path / stat.path).exists()
    assert rows_of(lake.path).num_rows == before.num_rows + 1
    assert leftovers(lake.path) == []


@both
def test_run_whose_files_hudi_removed_is_not_completed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer of Hudi without heartbeats rolls an inflight compaction back by its markers, and runs it itself."""
    instant, before = planned(lake), rows_of(lake.path)

    def meanwhile() -> None:
        storage = LocalStorage(str(lake.path))
        for file in lake.files():
            if file.endswith(f"_{instant}.parquet"):
                storage.remove(file)
        storage.remove_folder(marker_folder(instant))

    monkeypatch.setattr(OPENS, lambda path: Interrupted(lake.path, meanwhile))
    with pytest.raises(WriteConflict, match="removed its files"):
        compact(str(lake.path))
    monkeypatch.undo()
    assert rows_of(lake.path) == before
    assert [item.requested_time for item in lake.table().timeline().pending] == [instant]
    compact(str(lake.path))
    assert rows_of(lake.path) == before
    assert leftovers(lake.path) == []


@both
def test_failed_run_leaves_the_plan(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    instant, before, files = planned(lake), rows_of(lake.path), lake.files()

    def meanwhile() -> None:
        raise StorageError("no space")

    monkeypatch.setattr(OPENS, lambda path: Interrupted(lake.path, meanwhile, at=2))
    with pytest.raises(StorageError):
        compact(str(lake.path))
    monkeypatch.undo()
    assert lake.files() == files
    assert leftovers(lake.path) == [f"{instant}.compaction.requested"]
    upsert(lake.path, ("k1", 99, "oslo"))
    before = rows_of(lake.path)
    compact(str(lake.path))
    assert rows_of(lake.path) == before
    assert leftovers(lake.path) == []


@pytest.mark.parametrize("kind", [(9, "merge_on_read", "simple"), (6, "merge_on_read", "simple")], ids=["9", "6"])
def test_rewritten_base_file_and_compaction_conflict(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that fills a small file of a merge-on-read table rewrites its base file. Whichever of it and a compaction
    of this group is second fails; neither loses rows."""
    lake.write([("b1", 1, "bern")])  # the only group without logs, which new keys fill
    before = rows_of(lake.path)

    def plan_meanwhile(method: str, path: str) -> None:
        if method == "new_file":
            lake.storage.before = lambda method, path: None
            upsert_elsewhere(lake, ("b1", 2, "bern"))
            if lake.layout == 2:
                compact(str(lake.path), schedule_only=True)

    lake.storage.before = plan_meanwhile
    with pytest.raises(WriteConflict, match="changes"):
        lake.write([("b2", 1, "bern")])
    assert rows_of(lake.path).num_rows == before.num_rows
    compact(str(lake.path))
    assert rows_of(lake.path)["seq"].to_pylist().count(2) == 1
    lake.write([("b2", 1, "bern")])
    assert rows_of(lake.path).num_rows == before.num_rows + 1


def upsert_elsewhere(lake: Lake, row: tuple[str, int, str]) -> None:
    """A write by another process, with its own files."""
    before = lake.storage.before
    lake.storage.before = lambda method, path: None
    upsert(lake.path, row)
    lake.storage.before = before


@pytest.mark.parametrize("kind", LOGS[:1], ids=["9"])
def test_base_file_that_came_between_plan_and_run_is_not_lost(lake: Lake) -> None:
    """Another writer rewrote a base file of the plan, without regard to it."""
    instant = planned(lake)
    table = lake.table()
    group = table.compaction_plan(table.timeline().pending[0])[0]
    compaction = [file for file in lake.timeline_folder.iterdir() if file.name.startswith(instant)]
    hidden = [file.rename(lake.path / f"{file.name}.hidden") for file in compaction]
    compact(str(lake.path))
    before = rows_of(lake.path)
    for file in hidden:
        file.rename(lake.timeline_folder / file.name.removesuffix(".hidden"))
    with pytest.raises(WriteConflict, match=f"reads base file .*{group.file_id}"):
        compact(str(lake.path), run_only=True)
    assert rows_of(lake.path) == before
