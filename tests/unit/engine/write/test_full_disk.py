"""A disk that becomes full at any step of a write: the write fails, readers see what was there, and the next write goes
on when there is space."""

from __future__ import annotations

import contextlib
import errno
import io
import pathlib
from collections.abc import Iterator
from typing import BinaryIO, cast

import pytest

from penstock.engine.write.write import write
from penstock.proto.errors import StorageError
from penstock.table.storage.local_writes import LocalStorage
from tests.unit.engine.write.test_kills import FIRST, SECOND, check_next_write, copies, rows_of, table_of


class _FullFile(io.BytesIO):
    """A file whose bytes do not fit on the disk."""

    def write(self, data: object) -> int:  # type: ignore[override]
        raise OSError(errno.ENOSPC, "No space left on device")


class FullDisk(LocalStorage):
    """Local files. From the write of number `full_at` on there is no space: a small file is not created, a data file is
    left empty. Removals succeed."""

    def __init__(self, root: pathlib.Path, full_at: int) -> None:
        super().__init__(str(root))
        self.full_at = full_at
        self.step = 0

    def _is_full(self) -> bool:
        self.step += 1
        return self.step >= self.full_at

    @contextlib.contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[tuple[pathlib.Path, pathlib.Path]]:
        if self._is_full():
            raise OSError(errno.ENOSPC, "No space left on device")
        with super()._temporary(path, data) as paths:
            yield paths

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        is_full = self._is_full()
        with super().new_file(path) as file:
            yield cast(BinaryIO, _FullFile()) if is_full else file


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_full_disk_at_each_step_fails_the_write_alone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    failed = 0
    for step, path in copies(tmp_path, version, kind):
        storage = FullDisk(path, step)
        with monkeypatch.context() as patch:
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path, storage=storage: storage)
            try:
                write(str(path), table_of(SECOND))
            except StorageError as error:
                assert "No space left" in str(error)
            else:
                assert storage.step < step, f"the write of step {step} failed, and was reported as complete"
                break
        failed += 1
        assert rows_of(path) == FIRST, f"part of a write at step {step}"
        check_next_write(path, FIRST, f"after a full disk at step {step}", sole_writer=True)
    assert failed > 5
