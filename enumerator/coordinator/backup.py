"""Backup and restore of a state directory: an online copy, and a state that no earlier process can write to.

Shell: files, SQLite's online copy. Belongs here: what a restored state forgets, and its first epoch. Not here: how a
directory is opened and led (`store.opening`), what its records mean (`core`).

A backup is older than what the server did last. Readers of that time believe in splits and epochs of which the backup
holds nothing. So a restored state has no members, forgets the plans of reads that are under way, and gives out epochs
that no server on this state ever gave out: an earlier member is FENCED, a reader of an earlier plan gets UnknownPlan.
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
from penstock.enumerator.core.codec import encode_record
from penstock.enumerator.core.records import Durable, Gone, NumbersUsed, PlansForgotten, ReaderGone
from penstock.enumerator.core.state import State
from penstock.enumerator.store.check import StateReport, check_state, unchanged
from penstock.enumerator.store.connections import connect
from penstock.enumerator.store.errors import told
from penstock.enumerator.store.lock import Clocks, look_at_lock, take_lock
from penstock.enumerator.store.open import open_sqlite
from penstock.enumerator.store.row_format import DATABASE, REPLACED, WAL
from penstock.proto.errors import ConfigurationError, StateDamaged, StorageError

EPOCHS_A_SECOND: Final = 1 << 20
"""More than a server can give out: each append is a sync of the disk."""
LEAST_JUMP: Final = 1 << 32
"""Where the wall clock says less than the state's own epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """`moved_to`: the folder with what was in the directory before; None if there was no state in it."""

    report: StateReport
    groups: int
    readers: int
    plans: int
    first_epoch: int
    moved_to: Path | None


def back_up(directory: Path | str, file: Path | str) -> StateReport:
    """Copies the state into one file, beside a server that runs or without, and checks every record and piece of the
    copy. The file appears whole or not at all.

    ConfigurationError: no state is there, or the file is; StateDamaged: the state is, and no file is written;
    StorageError.
    """
    directory, file = Path(directory), Path(file)
    if not (directory / DATABASE).exists():
        raise ConfigurationError(f"state directory {directory}: there is no state in it (no {DATABASE})")
    if file.exists():
        raise ConfigurationError(f"backup {file}: it is there already; name a file that is not")
    with told(file.parent, "write a backup to it"), _staging(file.parent, file.name) as staging:
        _, live = look_at_lock(directory)
        os.close(os.open(staging / DATABASE, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with (
            told(directory, "read it", checking=True),
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
    """Puts the backup into the directory, checked, without members and plans, with epochs that were never given out.

    What was in the directory is moved into a folder in it, never deleted. Nothing is changed before the backup is
    proved whole. StorageError while a server runs on the directory; ConfigurationError without a backup; StateDamaged
    and StateVersionError of the backup.
    """
    file, directory = Path(file), Path(directory)
    if not file.is_file():
        raise ConfigurationError(f"backup {file}: there is no such file")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = take_lock(directory, takeover=False, wait_ms=0, clocks=clocks)
    try:
        with told(directory, "restore a backup to it", checking=True), _staging(directory, "restore") as staging:
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
    """Records that fence every member and plan of a restored state. Pure; `now_s`: seconds since 1970.

    Epochs go on from the wall clock's seconds times EPOCHS_A_SECOND: above all that was given out after the backup, and
    above those of an earlier restore of the same backup.
    """
    made: list[Durable] = [
        ReaderGone(key=key, reader_id=reader_id, cause=Gone.EXPIRED)
        for key, group in sorted(state.groups.items())
        for reader_id in sorted(group.readers)
    ]
    if state.plans:
        made.append(PlansForgotten(tuple(state.plans)))
    last = max(state.last_number + LEAST_JUMP, now_s * EPOCHS_A_SECOND) + random_below(EPOCHS_A_SECOND)
    return [*made, NumbersUsed(last)]


def _fenced(staging: Path, now_s: int, random_below: Callable[[int], int]) -> tuple[State, int]:
    """The state of the copy as it was, and the first epoch that it will give out."""
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
            f"restore into {staging.parent}: the records that fence readers of before are left in its WAL: is the disk "
            "full? Nothing was changed; restore again"
        )
    [last] = [record.last for record in records if isinstance(record, NumbersUsed)]
    return state, last + 1


def _copied(file: Path, staging: Path) -> None:
    """The backup, with its WAL if it is a copy of the files of a state directory."""
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
    """The state that the directory held, with its WAL, in a folder of its own: a WAL must not lie beside another
    database."""
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
    """A new folder on the same disk, gone afterwards."""
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
