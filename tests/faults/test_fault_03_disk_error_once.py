"""Fault 3: one read, write, truncation or sync of the disk returns EIO, each of them in turn.

The error is raised, the store stays down until it is opened again, and every acknowledged record is there then, also if
the power fails meanwhile: writes that a failed sync was to make durable are lost, as on Linux.
"""

from __future__ import annotations

import itertools
import pathlib
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Final

from penstock.proto.errors import PenstockError, StorageError
from tests.faults.checks import fail
from tests.faults.forgetful_disk import Call, ForgetfulDisk
from tests.faults.state_steps import reopened
from tests.faults.test_fault_36_power_failure import OpenStore, open_store, records

ERRORS: Final[dict[Call, int]] = {
    "read": sqlite3.SQLITE_IOERR_READ,
    "write": sqlite3.SQLITE_IOERR_WRITE,
    "truncate": sqlite3.SQLITE_IOERR_TRUNCATE,
    "sync": sqlite3.SQLITE_IOERR_FSYNC,
}
TRANSACTIONS = 3


def with_errors_once(folder: pathlib.Path, opened: OpenStore = open_store) -> set[Call]:
    """For each call of the disk in turn, a state whose writes meet EIO there, once; CheckFailed. The calls."""
    kinds: set[Call] = set()
    for number in itertools.count():
        with closing(ForgetfulDisk()) as disk:
            calls = itertools.count()
            failed: list[Call] = []

            def before_call(call: Call, calls: itertools.count[int] = calls, failed: list[Call] = failed) -> int:
                if next(calls) != number:  # noqa: B023 - called within this turn
                    return 0
                failed.append(call)
                return ERRORS[call]

            _check_state(folder / str(number), disk, opened, before_call)
            kinds.update(failed)
            if not failed:
                return kinds


def _check_state(
    state: pathlib.Path, disk: ForgetfulDisk, opened: OpenStore, before_call: Callable[[Call], int]
) -> None:
    acknowledged: list[bytes] = []
    error: PenstockError | None = None
    with ExitStack() as stack:
        store = opened(state, disk)
        stack.callback(store.close)
        disk.before_call = before_call
        for number in range(TRANSACTIONS):
            try:
                store.append(records(number))
                if error is not None:
                    fail("down after a failed write", f"after {error}, transaction {number} was acknowledged")
                acknowledged += [record.payload for record in records(number)]
            except StorageError as raised:
                error = error or raised
        disk.before_call = lambda call: 0
        copy = disk.after_power_failure(state, state.with_name(f"{state.name} after"), lambda: False)
    for directory in (copy, state):
        stored, _ = reopened(directory)
        if stored[: len(acknowledged)] != acknowledged:
            fail("acknowledged in spite of EIO", f"{len(acknowledged)} were acknowledged, {len(stored)} are there")


def test_fault_03_one_disk_error_at_any_call_loses_no_acknowledged_record(tmp_path: pathlib.Path) -> None:
    assert with_errors_once(tmp_path) >= {"write", "sync"}
