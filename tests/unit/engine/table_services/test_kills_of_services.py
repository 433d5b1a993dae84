"""A process that is killed, or a full disk, at any step of a service: rows stay, and the next run goes on."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest

from penstock.engine.table_services.clustering import cluster
from penstock.engine.table_services.compaction import compact
from penstock.proto.errors import StorageError
from penstock.table.storage.local_writes import LocalStorage
from tests.unit.engine.table_services.serviced_lake import OPENS, rows_of, upsert, with_logs, with_small_files
from tests.unit.engine.write.killed_storage import Killed, as_other_process
from tests.unit.engine.write.recorded_storage import Kind
from tests.unit.engine.write.test_full_disk import FullDisk
from tests.unit.engine.write.test_kills import HalfFiles, is_whole, leftovers

CASES: tuple[tuple[Kind, str], ...] = (
    ((9, "merge_on_read", "bucket"), "compact"),
    ((6, "merge_on_read", "bucket"), "compact"),
    ((9, "merge_on_read", "simple"), "cluster"),
    ((6, "copy_on_write", "simple"), "cluster"),
)
each = pytest.mark.parametrize(("kind", "service"), CASES, ids=lambda value: str(value[0]) if value[1:] else value)


def run(service: str, path: pathlib.Path, *, sole_writer: bool = False) -> None:
    if service == "compact":
        compact(str(path), sole_writer=sole_writer)
    else:
        cluster(str(path), sort_by=["id"], sole_writer=sole_writer)


def copies(
    folder: pathlib.Path, kind: Kind, service: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[int, pathlib.Path]]:
    """The numbers from 1 on, each with a copy of a table on which the service has something to do."""
    with monkeypatch.context() as patch:
        made: Callable[..., object] = with_logs if service == "compact" else with_small_files
        made(folder / "table", kind, patch, partition_by=())
    for step in range(1, 1000):
        path = folder / f"table{step}"
        shutil.copytree(folder / "table", path)
        yield step, path
        shutil.rmtree(path)


def check_goes_on(path: pathlib.Path, service: str, step: int, *, sole_writer: bool = False) -> None:
    """The next run completes, in every second case after a write; nothing of the killed run is left."""
    if step % 2:
        upsert(path, ("k1", 50, "oslo"), ("k80", 50, "oslo"), ("new", 1, "bern"), sole_writer=sole_writer)
    before = rows_of(path)
    assert before["seq"].to_pylist().count(50) == 2 * (step % 2)
    run(service, path, sole_writer=sole_writer)
    assert rows_of(path) == before, f"after a kill at step {step}"
    assert leftovers(path) == [], f"after a kill at step {step}"


@pytest.mark.sampled(1)
@each
def test_kill_at_each_step_changes_no_row(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, service: str
) -> None:
    halves = completed = 0
    for step, path in copies(tmp_path, kind, service, monkeypatch):
        before = rows_of(path)
        storage = HalfFiles(path, step)
        with monkeypatch.context() as patch:
            as_other_process(patch)
            patch.setattr(OPENS, lambda path, storage=storage: storage)
            try:
                run(service, path)
            except Killed:
                pass
            else:
                assert storage.step < step
                break
        halves += sum(not is_whole(file) for file in path.rglob("*.parquet"))
        assert rows_of(path) == before, f"part of a {service} at step {step}"
        pending = [name for name in leftovers(path) if name.endswith((".requested", ".inflight"))]
        completed += not pending
        check_goes_on(path, service, step)
    assert step > 15 and halves > 0 and completed > 1


@pytest.mark.parametrize(("kind", "service"), [CASES[0], CASES[3]], ids=["compact", "cluster"])
def test_full_disk_at_each_step_fails_the_service_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: Kind, service: str
) -> None:
    failed = 0
    for step, path in copies(tmp_path, kind, service, monkeypatch):
        before = rows_of(path)
        storage: LocalStorage = FullDisk(path, step)
        with monkeypatch.context() as patch:
            patch.setattr(OPENS, lambda path, storage=storage: storage)
            try:
                run(service, path)
            except StorageError as error:
                assert "No space left" in str(error)
            else:
                break
        failed += 1
        assert rows_of(path) == before, f"part of a {service} at step {step}"
        check_goes_on(path, service, step, sole_writer=True)
    assert failed > 5
