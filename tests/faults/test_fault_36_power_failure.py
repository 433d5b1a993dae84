"""Fault 36: the power of the server fails, and any part of what was not synced is lost, in any order.

The product's store runs on SQLite with a file layer that knows what was synced. At every write and sync, while a state
is created, written, reopened and compacted, the directory is copied as the power failure would leave it: with none or a
random part of the writes since the last sync. A new store reads each copy. It has every acknowledged transaction,
nothing that was not sent, and no transaction in part.
"""

from __future__ import annotations

import pathlib
import random
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial

import pytest

from penstock.enumerator.store.protocol import PlanPieces, Store, StoredRecord
from penstock.enumerator.store.sqlite.connections import pragma
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import StateDamaged
from tests.faults.checks import CheckFailed, fail
from tests.faults.forgetful_disk import Call, ForgetfulDisk
from tests.faults.state_steps import everything

Contents = tuple[list[bytes], dict[str, list[bytes]]]
OpenStore = Callable[[pathlib.Path, ForgetfulDisk], Store]


def open_store(directory: pathlib.Path, disk: ForgetfulDisk) -> Store:
    """The product's store on the disk."""
    return open_sqlite(directory, connect=disk.connect)


def records(number: int) -> list[StoredRecord]:
    """The records of a transaction."""
    return [StoredRecord("number", 1, b"%d %d" % (number, part) + b"." * 300 * part) for part in range(3)]


@dataclass
class PowerFailures:
    """Copies of a state directory at its power failures, and what a new store must read from them."""

    folder: pathlib.Path
    disk: ForgetfulDisk
    chance: random.Random = field(default_factory=lambda: random.Random(36))
    acknowledged: Contents = field(default_factory=lambda: ([], {}))
    """The contents after the last transaction that was answered."""
    sent: Contents = field(default_factory=lambda: ([], {}))
    """The contents after the transaction under way; equal to `acknowledged` if there is none."""
    failures: int = 0
    failed: CheckFailed | None = None
    """The first check that failed at a write or sync."""

    @property
    def state(self) -> pathlib.Path:
        """The state directory."""
        return self.folder / "state"

    def before_call(self, call: Call) -> int:
        """Fails the power before each write and sync: with none and with a random part of the unsynced writes."""
        part = self.chance.random()
        for survives in (lambda: False, lambda: self.chance.random() < part):
            if call != "read" and self.failed is None:
                try:
                    self.fail_power(survives)
                except CheckFailed as error:
                    self.failed = error
        return 0

    def fail_power(self, survives: Callable[[], bool]) -> None:
        """Checks what a new store reads after a power failure now."""
        self.failures += 1
        copy = self.disk.after_power_failure(self.state, self.folder / "after", survives)
        try:
            store = open_sqlite(copy)
        except StateDamaged as error:
            fail("a power failure is no damage", str(error))
        try:
            contents = everything(store)
        finally:
            store.close()
        if contents in (self.acknowledged, self.sent):
            return
        if len(contents[0]) < len(self.acknowledged[0]):
            fail(
                "acknowledged transactions are durable",
                f"{len(contents[0])} records after the power failure, {len(self.acknowledged[0])} were acknowledged",
            )
        fail("transactions are whole", f"{len(contents[0])} records, expected those of whole transactions")

    def transact(self, contents: Contents, write: Callable[[], None]) -> None:
        """A transaction after which the store has these contents."""
        self.sent = contents
        write()
        self.acknowledged = contents
        self.fail_power(lambda: False)
        if self.failed is not None:
            raise self.failed


def under_power_failures(folder: pathlib.Path, disk: ForgetfulDisk, opened: OpenStore = open_store) -> PowerFailures:
    """Creates a state, writes transactions, reopens it in the middle, and compacts its log; CheckFailed."""
    failures = PowerFailures(folder, disk)
    disk.before_call = failures.before_call
    with closing(disk), ExitStack() as open_stores:
        store = opened(failures.state, disk)
        open_stores.callback(store.close)
        payloads: list[bytes] = []
        plans: dict[str, list[bytes]] = {}
        for number in range(8):
            if number == 4:  # the new store copies the WAL into the database
                store.close()
                store = opened(failures.state, disk)
                open_stores.callback(store.close)
            appended, pieces = records(number), PlanPieces(f"plan {number}", b"scan", (b"1", b"2", b"3"))
            payloads = [*payloads, *(record.payload for record in appended)]
            kept = [pieces] if number % 3 == 0 else []
            plans = {**plans, **{plan.plan_id: [plan.scan, *plan.splits] for plan in kept}}
            failures.transact((payloads, plans), partial(store.append, appended, kept))
        failures.transact((payloads[-3:], plans), partial(store.rewrite, records(7)))
    return failures


@pytest.mark.exhaustive
def test_fault_36_power_failure_at_any_write_loses_no_acknowledged_record(tmp_path: pathlib.Path) -> None:
    assert under_power_failures(tmp_path, ForgetfulDisk()).failures > 100


def test_fault_36_disk_is_that_of_the_product(tmp_path: pathlib.Path) -> None:
    """Negative control of the disk: the store writes and syncs on it, with the settings of the product."""
    disk = ForgetfulDisk()
    store = open_sqlite(tmp_path / "state", connect=disk.connect)
    calls = disk.calls
    store.append(records(0))
    assert disk.calls > calls
    connection = store._writer
    assert (pragma(connection, "synchronous"), pragma(connection, "journal_mode")) == (2, "wal")
    store.close()
    with pytest.raises(FileNotFoundError):
        disk.after_power_failure(tmp_path / "nothing", tmp_path / "after", lambda: True)
    disk.close()
