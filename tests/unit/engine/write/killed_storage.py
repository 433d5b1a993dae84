"""A table's files whose process is killed at a chosen write: nothing happens afterwards, not even clean-up."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import BinaryIO

import pytest

from penstock.table.storage.local_writes import LocalStorage
from penstock.writer.transaction import heartbeat, lock


class Killed(BaseException):
    """The process is dead."""


class KilledStorage(LocalStorage):
    """Local files. `step` counts the calls that change something; the call of number `kill_at` kills, before it changes
    anything, or after it did with `after`."""

    def __init__(self, root: pathlib.Path, kill_at: int, *, after: bool) -> None:
        super().__init__(str(root))
        self.kill_at, self.after = kill_at, after
        self.step = 0
        self.dead = False

    @contextlib.contextmanager
    def _stepping(self) -> Iterator[None]:
        self.step += 1
        kills = self.step == self.kill_at
        if self.dead or (kills and not self.after):
            self.dead = True
            raise Killed
        try:
            yield
        finally:
            if kills:
                self.dead = True
                raise Killed

    def create(self, path: str, data: bytes) -> None:
        with self._stepping():
            super().create(path, data)

    def replace(self, path: str, data: bytes) -> None:
        with self._stepping():
            super().replace(path, data)

    @contextlib.contextmanager
    def new_file(self, path: str) -> Iterator[BinaryIO]:
        """A kill "before" leaves a file with half of its content."""
        with self._stepping(), super().new_file(path) as file:
            yield file

    def touch(self, path: str) -> bool:
        with self._stepping():
            return super().touch(path)

    def remove(self, path: str) -> bool:
        with self._stepping():
            return super().remove(path)

    def remove_folder(self, path: str) -> None:
        with self._stepping():
            super().remove_folder(path)


def as_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks and heartbeats are those of a process that has ended, when others look at them."""
    own = lock.this_process()
    ended = lock.LockOwner(own.host, own.pid, own.started + 1)
    monkeypatch.setattr(lock, "this_process", lambda: ended)
    monkeypatch.setattr(heartbeat, "this_process", lambda: ended)
