"""A process that is killed at any step of a write with a metadata table, of a rollback, or of a removal: both listings
are equal then, and after the next write."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable, Iterator

import pytest

from penstock.engine.write.create import create_table
from penstock.engine.write.rollback import rollback
from penstock.engine.write.write import write
from penstock.table.hudi_table import open_table
from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.metadata_table.opened import WritableMetadata
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process
from tests.unit.engine.write.test_kills import FIRST, SCHEMA, SECOND, THIRD, rows_of, table_of, upserted
from tests.unit.writer.metadata_table.metadata_tables import list_partitions, listed, listings


class KilledAfterPath(KilledStorage):
    """Counts steps from the first change of a path with this text on: the steps before have tests of their own."""

    def __init__(self, root: pathlib.Path, kill_at: int, text: str) -> None:
        super().__init__(root, kill_at, after=False)
        self.text, self.begun = text, False

    def _at(self, path: str) -> None:
        if not self.begun and self.text not in path:
            self.step -= 1
        else:
            self.begun = True

    def create(self, path: str, data: bytes) -> None:
        self._at(path)
        super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        self._at(path)
        super().replace(path, data)

    def remove(self, path: str) -> bool:
        self._at(path)
        return super().remove(path)

    def remove_folder(self, path: str) -> None:
        self._at(path)
        super().remove_folder(path)

    def touch(self, path: str) -> bool:
        self._at(path)
        return super().touch(path)

    def new_file(self, path: str):  # type: ignore[no-untyped-def]
        self._at(path)
        return super().new_file(path)


def new_table(path: pathlib.Path) -> None:
    create_table(
        str(path), SCHEMA, record_key="id", partition_by="city", ordering="seq", buckets=1, metadata_table=True
    )
    write(str(path), table_of(FIRST))


def copies(table: pathlib.Path) -> Iterator[tuple[int, pathlib.Path]]:
    """The numbers from 1 on, each with a copy of the table."""
    for step in range(1, 100):
        path = table.with_name(f"table{step}")
        shutil.copytree(table, path)
        yield step, path
        shutil.rmtree(path)


def killed(monkeypatch: pytest.MonkeyPatch, module: str, storage: KilledStorage, action: Callable[[], object]) -> bool:
    """Whether the action was killed."""
    with monkeypatch.context() as patch:
        as_other_process(patch)
        patch.setattr(f"penstock.engine.write.{module}.open_writable", lambda path: storage)
        try:
            action()
        except Killed:
            return True
        return False


def check(path: pathlib.Path, rows: set[tuple[str, int, str]], what: str) -> None:
    """Both listings have the files of completed instants; pending ones have files that only folders list."""
    pending = {item.requested_time for item in open_table(str(path)).timeline().pending}
    by_metadata, by_folders = listings(path)
    visible = {file: size for file, size in by_folders.items() if not any(time in file for time in pending)}
    assert {file: size for file, size in by_metadata.items() if file in by_folders} == by_metadata, what
    assert visible.items() <= by_metadata.items(), what
    assert rows_of(path) == rows, what


def check_next_write(path: pathlib.Path, rows: set[tuple[str, int, str]], what: str) -> None:
    """The next write leaves nothing pending, and the metadata table has all files."""
    write(str(path), table_of(THIRD))
    by_metadata, by_folders = listings(path)
    assert by_metadata == by_folders, what
    assert rows_of(path) == upserted(rows, THIRD), what
    for table in (open_table(str(path)), WritableMetadata.open(LocalStorage(str(path))).table):
        assert all(item.is_completed for item in table.timeline().instants), what


def test_kill_at_each_step_of_recording(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_table(tmp_path / "table")
    seen = set()
    for step, path in copies(tmp_path / "table"):
        storage = KilledAfterPath(path, step, "/metadata/")
        if not killed(monkeypatch, "planned_write", storage, lambda path=path: write(str(path), table_of(SECOND))):
            break
        rows = rows_of(path)
        assert rows in (FIRST, upserted(FIRST, SECOND))
        seen.add(rows == FIRST)
        check(path, rows, f"step {step}")
        check_next_write(path, rows, f"step {step}")
    assert seen == {True, False} and step > 5


def pending_write(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A write that was killed after the metadata table had its commit; its instant."""
    for step, copy in copies(path):
        storage = KilledAfterPath(copy, step, "/metadata/")
        killed(monkeypatch, "planned_write", storage, lambda copy=copy: write(str(copy), table_of(SECOND)))
        inner = WritableMetadata.open(LocalStorage(str(copy))).timeline
        pending = open_table(str(copy)).timeline().pending
        if pending and any(
            item.is_completed for item in inner.instants if item.requested_time == pending[0].requested_time
        ):
            shutil.rmtree(path)
            shutil.copytree(copy, path)
            shutil.rmtree(copy)
            return str(pending[0].requested_time)
    raise AssertionError


def test_kill_at_each_step_of_rollback(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "table"
    new_table(table)
    pending_write(table, monkeypatch)
    check(table, FIRST, "before")
    for step, path in copies(table):
        storage = KilledStorage(path, step, after=False)
        if not killed(monkeypatch, "rollback", storage, lambda path=path: rollback(str(path))):
            break
        check(path, FIRST, f"step {step}")
        check_next_write(path, FIRST, f"step {step}")
    check(path, FIRST, "rolled back")
    assert step > 12


@pytest.mark.parametrize("option", ["files", "off"])
def test_kill_at_each_step_of_removal(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    """Of a partition that is not kept, or of the metadata table. The properties are always readable."""
    new_table(tmp_path / "table")
    (tmp_path / "table/.hoodie/metadata/column_stats").mkdir()
    list_partitions(tmp_path / "table", "column_stats,files")
    seen = set()
    for step, path in copies(tmp_path / "table"):
        storage = KilledAfterPath(path, step, "hoodie.properties")
        if not killed(
            monkeypatch, "planned_write", storage, lambda path=path: write(str(path), table_of(SECOND), metadata=option)
        ):
            break
        seen.add(listed(path))
        rows = rows_of(path)
        assert rows in (FIRST, upserted(FIRST, SECOND))
        write(str(path), table_of(THIRD), metadata=option)
        assert rows_of(path) == upserted(rows, THIRD)
        assert listed(path) == ("files" if option == "files" else "")
        if option == "files":
            by_metadata, by_folders = listings(path)
            assert by_metadata == by_folders
    assert seen == {"column_stats,files", "files" if option == "files" else ""} and step > 5
