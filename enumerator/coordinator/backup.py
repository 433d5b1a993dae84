"""Backup and restore of a state directory: an online copy, and a restored state that fences all earlier readers.

A backup does not contain the last actions of the server. Readers may hold splits and epochs that the backup does not
contain. Therefore a restored state has no members, drops the plans of reads in progress, and assigns epochs that no
server on this state ever assigned: an earlier member is FENCED, and a reader of an earlier plan gets UnknownPlan.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from penstock.enumerator.coordinator.coordinator import recovered
from penstock.enumerator.core.records import Durable, Gone, NumbersUsed, PlansForgotten, ReaderGone
from penstock.enumerator.core.state import State
from penstock.enumerator.core.stored.codec import encode_record
from penstock.enumerator.store.sqlite.check import StateReport, check_state, unchanged
from penstock.enumerator.store.sqlite.connections import connect
from penstock.enumerator.store.sqlite.errors import translated_errors
from penstock.enumerator.store.sqlite.lock import Clocks, read_lock, take_lock
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.enumerator.store.sqlite.row_format import DATABASE, REPLACED, WAL
from penstock.proto.errors import ConfigurationError, StateDamaged, StorageError

EPOCHS_A_SECOND: Final = 1 << 20
"""More epochs than a server can assign in a second: each append syncs the disk."""
LEAST_JUMP: Final = 1 << 32
"""The least distance from the last epoch of the backup, if the wall clock gives a lower epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """The result of a restore."""

    report: StateReport
    """The check of the backup."""
    groups: int
    """The number of consumer groups in the backup."""
    readers: int
    """The number of readers that were fenced."""
    plans: int
    """The number of plans that were dropped."""
    first_epoch: int
    """The first epoch that the restored state assigns."""
    moved_to: Path | None
    """The folder with the previous content of the directory; None if there was no state in it."""


def back_up(directory: Path | str, file: Path | str) -> StateReport:
    """Copies the state into one file, also while a server runs, and checks every record and piece of the copy. The file
    appears under its name only when it is complete.

    ConfigurationError: there is no state, or the file exists; StateDamaged: the state is damaged, and no file is
    written; StorageError.
    """
    directory, file = Path(directory), Path(file)
    if not (directory / DATABASE).exists():
        raise ConfigurationError(f"state directory {directory}: there is no state in it (no {DATABASE})")
    if file.exists():
        raise ConfigurationError(f"backup {file}: the file exists; give another name")
    with translated_errors(file.parent, "write a backup to it"), _staging(file.parent, file.name) as staging:
        _, live = read_lock(directory)
        os.close(os.open(staging / DATABASE, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with (
            translated_errors(directory, "read it", checking=True),
            unchanged(directory, live=live) as uri,
            closing(connect(uri)) as source,
            closing(sqlite3.connect(staging / DATABASE)) as copy,
        ):
            source.backup(copy)
        report = _whole(staging)
        _sync(staging / DATABASE)
        (staging / DATABASE).rename(file)
        _sync(file.parent)
    return report


def restore(
    file: Path | str,
    directory: Path | str,
    *,
    clocks: Clocks = Clocks(),  # noqa: B008 - frozen
    random_below: Callable[[int], int] = secrets.randbelow,
) -> Restored:
    """Checks the backup and restores it into the directory, without members and plans, and with unused epochs.

    The previous content of the directory is moved into a folder in it, never deleted. Nothing changes before the backup
    has been checked. StorageError while a server runs on the directory; ConfigurationError without a backup;
    StateDamaged and StateVersionError for the backup.
    """
    file, directory = Path(file), Path(directory)
    if not file.is_file():
        raise ConfigurationError(f"backup {file}: there is no such file")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = take_lock(directory, takeover=False, wait_ms=0, clocks=clocks)
    try:
        with (
            translated_errors(directory, "restore a backup to it", checking=True),
            _staging(directory, "restore") as staging,
        ):
            _copied(file, staging)
            report = _whole(staging)
            state, first_epoch = _fenced(staging, int(clocks.wall()), random_below)
            _sync(staging / DATABASE)
            moved_to = _set_aside(directory, clocks)
            (staging / DATABASE).rename(directory / DATABASE)
            _sync(directory)
    finally:
        lock.release()
    return Restored(
        report=report,
        groups=len(state.groups),
        readers=sum(len(group.readers) for group in state.groups.values()),
        plans=len(state.plans),
        first_epoch=first_epoch,
        moved_to=moved_to,
    )


def fencing_records(state: State, now_s: int, random_below: Callable[[int], int]) -> list[Durable]:
    """Records that fence every member and plan of a restored state. Pure. `now_s`: seconds since 1970 UTC.

    Epochs continue from the wall clock's seconds times EPOCHS_A_SECOND. This is above all epochs that were assigned
    after the backup, and above those of an earlier restore of the same backup.
    """
    records: list[Durable] = [
        ReaderGone(key=key, reader_id=reader_id, cause=Gone.EXPIRED)
        for key, group in sorted(state.groups.items())
        for reader_id in sorted(group.readers)
    ]
    if state.plans:
        records.append(PlansForgotten(tuple(state.plans)))
    last = max(state.last_number + LEAST_JUMP, now_s * EPOCHS_A_SECOND) + random_below(EPOCHS_A_SECOND)
    return [*records, NumbersUsed(last)]


def _fenced(staging: Path, now_s: int, random_below: Callable[[int], int]) -> tuple[State, int]:
    """The state of the copy before the fencing records, and the first epoch that it will assign."""
    store = open_sqlite(staging)
    try:
        state, orphans = recovered(store)
        records = fencing_records(state, now_s, random_below)
        store.append([encode_record(record) for record in records], (), (*orphans, *state.plans))
    finally:
        store.close()
    wal = staging / WAL
    if wal.exists() and wal.stat().st_size:
        raise StorageError(
            f"restore into {staging.parent}: the records that fence earlier readers are left in its WAL: is the disk "
            "full? Nothing was changed; restore again"
        )
    [last] = [record.last for record in records if isinstance(record, NumbersUsed)]
    return state, last + 1


def _copied(file: Path, staging: Path) -> None:
    """Copies the backup, with its WAL if the backup is a file copy of a state directory."""
    shutil.copyfile(file, staging / DATABASE)
    wal = file.with_name(f"{file.name}-wal")
    if wal.exists():
        shutil.copyfile(wal, staging / WAL)
    for path in staging.iterdir():
        path.chmod(0o600)


def _whole(staging: Path) -> StateReport:
    report = check_state(staging)
    if report.damage:
        raise StateDamaged(report.damage)
    return report


def _set_aside(directory: Path, clocks: Clocks) -> Path | None:
    """Moves the previous state with its WAL into a new folder, because a WAL must not lie beside another database."""
    files = sorted(directory.glob(f"{DATABASE}*"))
    if not files:
        return None
    stamp = datetime.fromtimestamp(clocks.wall(), UTC).strftime("%Y%m%dT%H%M%SZ")
    aside, number = directory / f"{REPLACED}{stamp}", 0
    while True:
        with suppress(FileExistsError):
            aside.mkdir(mode=0o700)
            break
        number += 1
        aside = directory / f"{REPLACED}{stamp}-{number}"
    for path in files:
        path.rename(aside / path.name)
    return aside


@contextmanager
def _staging(folder: Path, name: str) -> Iterator[Path]:
    """A temporary folder on the same disk."""
    staging = folder / f".{name}.{secrets.token_hex(4)}"
    staging.mkdir(mode=0o700)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
