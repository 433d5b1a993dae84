"""Servers, stores and readers with one defect each, for the suites of faults. Each names the invariant that detects
it."""

from __future__ import annotations

import pathlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, cast
from unittest.mock import patch

import pyarrow as pa
import pytest

from penstock.engine.consumer import Consumer
from penstock.engine.group import split_work
from penstock.engine.group.batch import ConsumedBatch
from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core import members, split_assignment
from penstock.enumerator.core.records import Record
from penstock.enumerator.core.results import Committed, CoordinatorSettings, Decision
from penstock.enumerator.core.state import State
from penstock.enumerator.store.protocol import Store, StoredRecord
from penstock.enumerator.store.sqlite.store import SqliteStore
from penstock.proto.errors import Fenced, StorageError, UnknownSplit
from penstock.proto.model.splits import Scan, Split
from penstock.reader.read_split import SplitBatch, read_split
from tests.faults.forgetful_disk import ForgetfulDisk
from tests.faults.local_server import OPTIONS, WAIT_MS, DeliveringReader, local_server
from tests.faults.served import CASE, check_changes
from tests.faults.test_fault_03_disk_error_once import with_errors_once
from tests.faults.test_fault_03_slow_disk import under_a_slow_disk
from tests.faults.test_fault_05_paused_reader import paused_beyond_its_lease
from tests.faults.test_fault_30_stepped_clocks import under_stepped_clocks, wall_of_reader, wall_of_server
from tests.faults.test_fault_35_unreliable_network import FAULTS_EACH, over_an_unreliable_network
from tests.faults.test_fault_36_power_failure import open_store, under_power_failures
from tests.simulation.broken_functions import any_epoch, choose_any

commit, overdue, handle = split_assignment.commit, members.overdue, Coordinator.handle


@dataclass(frozen=True, slots=True)
class Trial:
    """What a scenario takes from its test."""

    golden: Any
    folder: pathlib.Path
    monkeypatch: pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Broken:
    """A defect, in the scenario's parts or patched into the product, and the invariant that detects it."""

    name: str
    invariant: str
    scenario: Callable[[Trial], object]
    patches: tuple[tuple[object, str, Any], ...] = ()

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Applies the patches for the duration of the context."""
        with ExitStack() as stack:
            for target, name, value in self.patches:
                stack.enter_context(patch.object(target, name, value))
            yield


class WritesAfterCommit(DeliveringReader):
    """Rows are written when their commit was answered. One that failed is repeated, and its rows are not written."""

    joins_after = 1_000_000

    def deliver(self, consumed: ConsumedBatch) -> None:
        self.commit(consumed)
        self.deliveries.write(consumed.split_id, consumed.first_ordinal, consumed.batch)


class NumbersItsRows(DeliveringReader):
    """Rows have numbers of the reader instead of their record ids."""

    written = 1_000_000

    def deliver(self, consumed: ConsumedBatch) -> None:
        self.deliveries.write(f"{self.reader_id} {consumed.split_id}", self.written, consumed.batch)
        self.written += consumed.batch.num_rows
        self.commit(consumed)


class WritesInsertsOnly(DeliveringReader):
    """Each change is written as an insert."""

    def deliver(self, consumed: ConsumedBatch) -> None:
        place = consumed.batch.schema.get_field_index("op")
        inserts = pa.array(["i"] * consumed.batch.num_rows, consumed.batch.schema.field(place).type)
        changed = consumed.batch.set_column(place, "op", inserts)
        self.deliveries.write(consumed.split_id, consumed.first_ordinal, changed)
        self.commit(consumed)


def read_backwards(scan: Scan, split: Split, start: int = 0, **more: Any) -> Iterator[SplitBatch]:
    """A reader that returns the rows of a split in another order."""
    parts = list(read_split(scan, split, **more))
    for part, row in list(zip(parts, reversed(parts), strict=True))[start:]:
        yield replace(part, batch=row.batch)


def read_without_the_end(scan: Scan, split: Split, **more: Any) -> Iterator[SplitBatch]:
    """A reader that leaves out the last batch of each split."""
    yield from list(read_split(scan, split, **more))[:-1]


def all_changes(trial: Trial) -> None:
    """One reader consumes the whole table."""
    with local_server(trial.golden.table(CASE)) as server:
        server.create_group()
        reader = Consumer(server.address, "t", group="g", reader_id="r", **OPTIONS)
        batches: list[pa.RecordBatch] = []
        with reader:
            while not server.is_finished():
                server.discover()
                while (consumed := reader.poll(WAIT_MS)) is not None:
                    batches.append(consumed.batch)
                    reader.commit(consumed)
        check_changes(trial.golden, batches)


def commit_unfenced(
    state: State, event: ev.CommitSplits, now_ms: int, settings: CoordinatorSettings
) -> Decision[Committed]:
    """Commits of readers that are not members are answered."""
    try:
        return commit(state, event, now_ms, settings)
    except Fenced:
        return Decision((), Committed(()))


def commit_refused_otherwise(
    state: State, event: ev.CommitSplits, now_ms: int, settings: CoordinatorSettings
) -> Decision[Committed]:
    """Readers that are not members get an error that does not say so."""
    try:
        return commit(state, event, now_ms, settings)
    except Fenced as error:
        raise UnknownSplit(str(error)) from error


class NeverSynced(sqlite3.Connection):
    """Commits to an existing state return before they are on the disk."""

    def __init__(self, database: str, *arguments: Any, **more: Any) -> None:
        super().__init__(database, *arguments, **more)
        self._setting = "synchronous = FULL" if ".new?" in database else "synchronous = OFF"

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return super().execute(sql.replace("synchronous = FULL", self._setting), *arguments)


class WithoutTransactions(sqlite3.Connection):
    """Each statement is a transaction."""

    def execute(self, sql: str, *arguments: Any) -> sqlite3.Cursor:
        return super().execute("SELECT 1" if sql in ("BEGIN IMMEDIATE", "COMMIT") else sql, *arguments)


class OneByOne:
    """A store that appends the records of a transaction one by one."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def append(self, appended: Sequence[StoredRecord], *more: Any) -> None:
        """See `Store`."""
        for record in appended[:-1]:
            self._store.append([record])
        self._store.append(appended[-1:], *more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def one_by_one(directory: pathlib.Path, disk: ForgetfulDisk) -> Store:
    """The store above."""
    store: Any = OneByOne(open_store(directory, disk))
    return cast("Store", store)


def rolls_back(store: SqliteStore, error: BaseException) -> None:
    """A store that accepts writes after a failed one."""
    if store._writer.in_transaction:
        store._writer.execute("ROLLBACK")


class IgnoresErrors(OneByOne):
    """A store whose failed writes are acknowledged."""

    def append(self, appended: Sequence[StoredRecord], *more: Any) -> None:
        """See `Store`."""
        with suppress(StorageError):
            self._store.append(appended, *more)


def ignoring_errors(directory: pathlib.Path, disk: ForgetfulDisk) -> Store:
    """The store above."""
    store: Any = IgnoresErrors(open_store(directory, disk))
    return cast("Store", store)


def commits_at_once(coordinator: Coordinator, event: ev.Event[Any], plan: Any = None) -> Any:
    """Commits are answered before they are durable."""
    if isinstance(event, ev.CommitSplits):
        return coordinator._decided(event, plan)[0]
    return handle(coordinator, event, plan)


def without_suspension(state: State, before_ms: int, now_ms: int, settings: CoordinatorSettings) -> list[Record]:
    """Leases end although the server could not answer."""
    return overdue(state, now_ms, now_ms, settings)


def network(kind: type[DeliveringReader], faults_each: int = FAULTS_EACH) -> Callable[[Trial], object]:
    """Readers of this kind over an unreliable network."""
    return lambda trial: over_an_unreliable_network(trial.golden, kind, faults_each)


BROKEN = (
    Broken(
        "a store that goes on after an error",
        "down after a failed write",
        lambda trial: with_errors_once(trial.folder),
        ((SqliteStore, "_give_up", rolls_back),),
    ),
    Broken(
        "errors of the disk taken for success",
        "acknowledged in spite of EIO",
        lambda trial: with_errors_once(trial.folder, ignoring_errors),
    ),
    Broken(
        "answers before the sync",
        "no answer before it is durable",
        lambda trial: under_a_slow_disk(trial.golden, trial.folder),
        ((Coordinator, "handle", commits_at_once),),
    ),
    Broken(
        "leases that end while the server waits",
        "a slow disk ends no lease",
        lambda trial: under_a_slow_disk(trial.golden, trial.folder),
        ((members, "overdue", without_suspension),),
    ),
    Broken(
        "commits that are not synced",
        "acknowledged transactions are durable",
        lambda trial: under_power_failures(trial.folder, ForgetfulDisk(NeverSynced)),
    ),
    Broken(
        "statements without a transaction",
        "a power failure is no damage",
        lambda trial: under_power_failures(trial.folder, ForgetfulDisk(WithoutTransactions)),
    ),
    Broken(
        "records appended one by one",
        "transactions are whole",
        lambda trial: under_power_failures(trial.folder, ForgetfulDisk(), one_by_one),
    ),
    Broken("rows are written after their commit", "no row is lost", network(WritesAfterCommit)),
    Broken("rows without record ids", "no row is doubled", network(NumbersItsRows)),
    Broken("rows with another operation", "no row is changed", network(WritesInsertsOnly, 0)),
    Broken(
        "file groups in no order",
        "order of a key",
        network(DeliveringReader, 0),
        ((split_assignment, "choose", choose_any),),
    ),
    Broken(
        "splits without their last batch",
        "the table's changes",
        all_changes,
        ((split_work, "read_split", read_without_the_end),),
    ),
    Broken(
        "a split in another order",
        "one content",
        lambda trial: paused_beyond_its_lease(trial.golden, trial.folder, "other"),
        ((split_work, "read_split", read_backwards),),
    ),
    Broken(
        "commits without a lease",
        "one commit",
        lambda trial: paused_beyond_its_lease(trial.golden, trial.folder, "other"),
        ((split_assignment, "commit", commit_unfenced),),
    ),
    Broken(
        "commits of an older epoch",
        "one commit",
        lambda trial: paused_beyond_its_lease(trial.golden, trial.folder, "same id"),
        ((members, "member_of", any_epoch), (split_assignment, "member_of", any_epoch)),
    ),
    Broken(
        "another error than Fenced",
        "a stale commit is fenced",
        lambda trial: paused_beyond_its_lease(trial.golden, trial.folder, "same id"),
        ((split_assignment, "commit", commit_refused_otherwise),),
    ),
    Broken(
        "leases of the server by its wall clock",
        "lease under a stepped clock",
        lambda trial: under_stepped_clocks(trial.golden, trial.folder, trial.monkeypatch, server_clock=wall_of_server),
    ),
    Broken(
        "lease of the reader by its wall clock",
        "lease under a stepped clock",
        lambda trial: under_stepped_clocks(trial.golden, trial.folder, trial.monkeypatch, reader_clock=wall_of_reader),
    ),
)
