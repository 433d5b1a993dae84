"""Hostile tables: a real table that is changed on disk, and the storage of a table that hangs or fails."""

from __future__ import annotations

import errno
import json
import pathlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.table.storage.filesystem import ArrowStorage

# --- ways to be hostile: on disk


def newest_commit(table: pathlib.Path) -> pathlib.Path:
    """The metadata of the newest completed write."""
    return max((table / ".hoodie").glob("*.deltacommit"))


def counts_beyond_64_bits(table: pathlib.Path) -> None:
    """Three write stats whose total of rows exceeds uint64."""
    path = newest_commit(table)
    commit = json.loads(path.read_text())
    for stats in commit["partitionToWriteStats"].values():
        logs = [stat for stat in stats if ".log." in stat["path"]]
        if logs:
            logs[0]["numWrites"] = 2**63 - 1
            stats += [dict(logs[0]), dict(logs[0])]
    path.write_text(json.dumps(commit))


def nested_commit(table: pathlib.Path) -> None:
    newest_commit(table).write_text("[" * 200_000)


def commit_of_bytes(table: pathlib.Path) -> None:
    newest_commit(table).write_bytes(bytes(range(256)) * 40)


def paths_outside(table: pathlib.Path) -> None:
    path = newest_commit(table)
    commit = json.loads(path.read_text())
    for stats in commit["partitionToWriteStats"].values():
        for stat in stats:
            stat["path"] = "../../" + stat["path"]
    path.write_text(json.dumps(commit))


def schema_without_end(table: pathlib.Path) -> None:
    for path in (table / ".hoodie").glob("*.deltacommit"):
        commit = json.loads(path.read_text())
        commit["extraMetadata"]["schema"] = '{"type":"record","name":"r","fields":[' * 5_000
        path.write_text(json.dumps(commit))


def newer_version(table: pathlib.Path) -> None:
    path = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in path.read_text().splitlines() if "table.version" not in line and "checksum" not in line]
    path.write_text("\n".join([*lines, "hoodie.table.version=99", ""]))


def no_properties(table: pathlib.Path) -> None:
    (table / ".hoodie" / "hoodie.properties").unlink()


def file_gone(table: pathlib.Path) -> None:
    for path in table.rglob(".*.log.*"):
        path.unlink()


def names_in_the_listing(table: pathlib.Path) -> None:
    for number in range(300):
        (table / ".hoodie" / f"{'9' * 17}{number}.deltacommit").write_bytes(b"")
        (table / "p=a" / f".{'x' * 150}_{number}.log.99999999999999999999_0-0-0").write_bytes(b"")


ON_DISK: tuple[Callable[[pathlib.Path], None], ...] = (
    counts_beyond_64_bits,
    nested_commit,
    commit_of_bytes,
    paths_outside,
    schema_without_end,
    newer_version,
    no_properties,
    file_gone,
    names_in_the_listing,
)

FOR_READERS = (counts_beyond_64_bits,)
"""Harmless for the server, which bounds the numbers; a reader names the file."""


# --- ways to be hostile: storage


@dataclass
class StorageFaults:
    """The behaviour of each operation on the storage of table `bad`."""

    error: BaseException | None = None
    go_on: threading.Event | None = None

    def inject(self) -> None:
        if self.go_on is not None:
            self.go_on.wait(60)
        if self.error is not None:
            raise self.error


STORAGE: dict[str, Callable[[], StorageFaults]] = {
    "hangs": lambda: StorageFaults(go_on=threading.Event()),
    "refuses": lambda: StorageFaults(PermissionError(errno.EACCES, "Access Denied")),
    "fails": lambda: StorageFaults(OSError(errno.EIO, "Input/output error")),
    "memory": lambda: StorageFaults(MemoryError()),
    "overflow": lambda: StorageFaults(OverflowError("Python integer out of bounds for uint64")),
}


def inject(monkeypatch: pytest.MonkeyPatch, storage_faults: StorageFaults) -> None:
    """Replaces the file system calls of the storage of table `bad`."""
    for name in ("list_dir", "read_bytes", "open_input", "file_info"):
        real = getattr(ArrowStorage, name)

        def struck(storage: ArrowStorage, path: str, *arguments: Any, real: Any = real) -> Any:
            if storage.base_path.rstrip("/").endswith("/bad"):
                storage._guarded(path, storage_faults.inject)
            return real(storage, path, *arguments)

        monkeypatch.setattr(ArrowStorage, name, struck)
