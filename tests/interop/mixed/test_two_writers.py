"""Hudi and Penstock write one table at once, under Hudi's lock file and with optimistic concurrency control: a conflict
is refused, nothing acknowledged is lost, and nothing of a refused write is visible."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from penstock.engine.write.rollback import rollback
from penstock.proto.errors import WriteConflict
from penstock.table.hudi_table import open_table
from penstock.table.storage.local_writes import LocalStorage
from tests.interop.mixed.histories import row_difference
from tests.interop.mixed.shapes import Row, Shape, shape_of
from tests.interop.mixed.writers import Writers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

TWO_WRITERS = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms": "2000",
    "hoodie.write.lock.num_retries": "1",
    "hoodie.write.lock.client.num_retries": "1",
}
ALONE = {"hoodie.write.concurrency.mode": "SINGLE_WRITER", "hoodie.clean.failed.writes.policy": "EAGER"}
"""Hudi's defaults."""
FIRST = (Row(1, 10, 1, "oslo"), Row(2, 10, 2, "riga"))
HUDIS, PENSTOCKS = Row(1, 20, 11, "oslo"), Row(1, 30, 12, "oslo")
"""Two rows of one key, so of one file group."""
ELSEWHERE = Row(2, 30, 13, "riga")
"""A row of another file group."""
TABLES = [
    (version, merge_on_read, buckets) for version in (9, 6) for merge_on_read in (True, False) for buckets in (1, 0)
]
IN_CI = [(9, True, 1), (6, False, 0)]
PARAMETERS = [pytest.param(one, marks=() if one in IN_CI else pytest.mark.long) for one in TABLES]


@pytest.fixture(params=PARAMETERS, ids=lambda table: f"v{table[0]}-{'mor' if table[1] else 'cow'}-{table[2]}")
def writers(hudi: Any, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> Writers:
    """A table with two rows in two partitions."""
    version, merge_on_read, buckets = request.param
    shape: Shape = replace(
        shape_of(0),
        version=version,
        merge_on_read=merge_on_read,
        buckets=buckets,
        index="bucket" if buckets else "simple",
        partitioned=True,
        two_keys=False,
        number_key=False,
        ordering="long",
        small_files=True,
        by_penstock=True,
        metadata=False,
    )
    writers = Writers(hudi, tmp_path / "mixed", shape)
    writers.options |= TWO_WRITERS | {"hoodie.table.type": "MERGE_ON_READ" if merge_on_read else "COPY_ON_WRITE"}
    writers.create()
    writers.by_penstock("upsert", FIRST)
    return writers


def values(writers: Writers) -> set[int]:
    """The values of the rows, which both read."""
    penstocks, hudis = writers.read(), writers.hudi.read(writers.path)
    assert not row_difference(hudis, penstocks)
    found = penstocks["qty"].to_pylist()
    assert len(found) == len(set(found))
    return set(found)


def goes_on(writers: Writers, *rows: int) -> None:
    """Both write on, and neither finds something that the other left."""
    writers.by_hudi("upsert", (Row(7, 50, 71, "oslo"),))
    writers.by_penstock("upsert", (Row(8, 50, 81, "oslo"),))
    assert values(writers) == {*rows, 71, 81}
    left = [path for path in (writers.path / ".hoodie/.temp").glob("*") if path.name.isdigit()]
    assert not left and not (writers.path / ".hoodie/lock").exists()


def during_hudis_write(writers: Writers, rows: tuple[Row, ...], action: Callable[[], object]) -> Exception | None:
    """Runs the action while Hudi's write reads its rows, after it was requested. Hudi's error, if any."""
    gate, errors = writers.path.with_name("gate"), []
    reached = gate.with_name("gate.reached")

    def write() -> None:
        try:
            writers.by_hudi("upsert", rows, gate=gate)
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        while not reached.exists() and thread.is_alive():
            thread.join(0.02)
        action()
    finally:
        gate.touch()
        thread.join()
    return errors[0] if errors else None


@pytest.mark.exhaustive
def test_hudi_is_refused_after_penstock_changed_its_file_group(writers: Writers) -> None:
    error = during_hudis_write(
        writers, (HUDIS,), lambda: writers.by_penstock("upsert", (PENSTOCKS,), sole_writer=False)
    )
    assert error is not None and "ConflictException" in str(error)
    assert values(writers) == {2, 12}
    goes_on(writers, 2, 12)


@pytest.mark.exhaustive
def test_write_that_hudi_left_without_a_heartbeat_is_rolled_back_by_name(writers: Writers) -> None:
    """Hudi removes the heartbeat of a write that lost a conflict. Without a rollback its next writer that believes to
    be alone fails."""
    during_hudis_write(writers, (HUDIS,), lambda: writers.by_penstock("upsert", (PENSTOCKS,), sole_writer=False))
    (lost,) = (each.requested_time for each in open_table(str(writers.path)).timeline().pending)
    with pytest.raises(WriteConflict, match=f"{lost} is pending without a heartbeat"):
        writers.by_penstock("upsert", (ELSEWHERE,), sole_writer=False)
    with pytest.raises(RuntimeError, match="please rollback greater commits first"):
        writers.by_hudi("upsert", (ELSEWHERE,), **ALONE)
    assert rollback(str(writers.path), lost) == (lost,)
    writers.by_hudi("upsert", (ELSEWHERE,), **ALONE)
    assert values(writers) == {12, 13}
    goes_on(writers, 12, 13)


@pytest.mark.exhaustive
def test_both_write_different_partitions_at_once(writers: Writers) -> None:
    error = during_hudis_write(
        writers, (HUDIS,), lambda: writers.by_penstock("upsert", (ELSEWHERE,), sole_writer=False)
    )
    assert error is None
    assert values(writers) == {11, 13}
    goes_on(writers, 11, 13)


@pytest.fixture
def before_completion(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """Actions that run when Penstock has written its first data file, each once."""
    actions: list[Callable[[], object]] = []
    new_file = LocalStorage.new_file

    def interrupted(storage: LocalStorage, path: str) -> Any:
        while actions:
            actions.pop()()
        return new_file(storage, path)

    monkeypatch.setattr(LocalStorage, "new_file", interrupted)
    yield actions
    assert not actions


@pytest.mark.exhaustive
def test_penstock_is_refused_after_hudi_changed_its_file_group(
    writers: Writers, before_completion: list[Callable[[], object]]
) -> None:
    before_completion.append(lambda: writers.by_hudi("upsert", (HUDIS,)))
    with pytest.raises(WriteConflict, match="another writer changes"):
        writers.by_penstock("upsert", (PENSTOCKS,), sole_writer=False)
    assert values(writers) == {2, 11}
    goes_on(writers, 2, 11)


@pytest.mark.exhaustive
def test_penstock_completes_after_hudi_changed_another_partition(
    writers: Writers, before_completion: list[Callable[[], object]]
) -> None:
    before_completion.append(lambda: writers.by_hudi("upsert", (ELSEWHERE,)))
    writers.by_penstock("upsert", (PENSTOCKS,), sole_writer=False)
    assert values(writers) == {12, 13}
    goes_on(writers, 12, 13)


@pytest.mark.exhaustive
def test_hudi_that_rolls_back_running_penstock_is_noticed(
    writers: Writers, before_completion: list[Callable[[], object]]
) -> None:
    """A writer of Hudi with its default policy believes to be alone, and rolls back what is pending."""
    before_completion.append(lambda: writers.by_hudi("upsert", (ELSEWHERE,), **ALONE))
    with pytest.raises(WriteConflict, match="rolled back instant"):
        writers.by_penstock("upsert", (PENSTOCKS,), sole_writer=False)
    assert values(writers) == {1, 13}
    goes_on(writers, 1, 13)


@pytest.mark.exhaustive
def test_lock_of_penstock_stops_hudi(writers: Writers) -> None:
    (writers.path / ".hoodie/lock").write_bytes(b"")
    impatient = {f"hoodie.write.lock.{name}": "100" for name in ("wait_time_ms", "client.wait_time_ms_between_retry")}
    with pytest.raises(RuntimeError, match="Lock"):
        writers.by_hudi("upsert", (HUDIS,), **impatient)
    (writers.path / ".hoodie/lock").unlink(missing_ok=True)
    assert values(writers) == {1, 2}
    goes_on(writers, 1, 2)
