"""Helpers of the tests of state directories: processes, copies, contents of a store."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

from penstock.enumerator.store.protocol import Store
from penstock.enumerator.store.sqlite.open import open_sqlite

PROGRAM = pathlib.Path(__file__).parent / "state_process.py"


def started(what: str, directory: pathlib.Path, *arguments: object) -> subprocess.Popen[str]:
    """A process of `state_process.py`, with its streams."""
    command = [sys.executable, str(PROGRAM), what, str(directory), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def copied(directory: pathlib.Path, to: pathlib.Path) -> pathlib.Path:
    """A copy, without SQLite's index of the WAL, as after a restart of the machine."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(directory, to, ignore=shutil.ignore_patterns("*-shm"))
    return to


def everything(store: Store) -> tuple[list[bytes], dict[str, list[bytes]]]:
    """All payloads, and the first three splits of each plan."""
    plans = {name: [store.scan(name), *store.splits(name, range(3))] for name in store.plan_ids()}
    return [record.payload for record in store.records()], plans


def reopened(directory: pathlib.Path) -> tuple[list[bytes], dict[str, list[bytes]]]:
    """The contents that a new store reads from the directory."""
    store = open_sqlite(directory)
    try:
        return everything(store)
    finally:
        store.close()
