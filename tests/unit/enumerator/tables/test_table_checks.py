"""When a table of a server is opened again, and when a server does not start: the times of docs/operations.md."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.enumerator.observer import NO_OBSERVER
from penstock.enumerator.server import assembly
from penstock.enumerator.tables.table_checks import TableChecks
from penstock.proto.errors import CorruptFile, PenstockError, StorageDenied, StorageError, TableNotFound


class World:
    """A table `t`, a clock, and what opening the table raises."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.error: BaseException | None = None
        self.during: Callable[[], object] = lambda: None
        self.checks = TableChecks(["t"], self.open, lambda: self.now_ms, NO_OBSERVER)

    def open(self, name: str) -> None:
        self.during()
        if self.error is not None:
            raise self.error

    def pause_ms(self) -> int:
        """Checks the table and returns the time until it is due again."""
        self.checks.check("t")
        begin_ms = self.now_ms
        while not self.checks.due():
            self.now_ms += 250
        return self.now_ms - begin_ms


def test_a_table_is_opened_every_minute_and_after_a_failure_after_growing_pauses() -> None:
    world = World()
    assert world.checks.due() == ["t"]
    assert world.pause_ms() == 60_000
    world.error = MemoryError("table too large")
    assert [world.pause_ms() for _ in range(9)] == [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
    assert "MemoryError" in world.checks.trouble_of("t")[1]
    world.error = None
    assert world.pause_ms() == 60_000
    assert world.checks.trouble_of("t") == ("", "")


def test_a_table_whose_storage_does_not_answer_is_in_trouble_after_ten_seconds() -> None:
    world, shown = World(), list[str]()

    def hang() -> None:
        for _ in range(2):
            world.now_ms += 5_000
            shown.append(world.checks.trouble_of("t")[0])

    world.during = hang
    world.checks.check("t")
    assert shown == ["", "STORAGE"]


@pytest.mark.parametrize(
    ("errors", "groups", "starts"),
    [
        ((None, TableNotFound("a")), (), True),
        ((TableNotFound("a"), CorruptFile("b")), (), False),
        ((TableNotFound("a"), CorruptFile("b")), ("waits",), True),
        ((TableNotFound("a"), StorageError("b")), (), True),
        ((TableNotFound("a"), StorageDenied("b")), (), True),
    ],
)
def test_a_server_starts_unless_no_table_can_be_opened_and_no_repetition_helps(
    errors: tuple[PenstockError | None, ...], groups: tuple[str, ...], starts: bool
) -> None:
    by_name = dict(zip("ab", errors, strict=True))

    def open_table(name: str) -> None:
        error = by_name[name]
        if error is not None:
            raise error

    checks = TableChecks(by_name, open_table, lambda: 0, NO_OBSERVER)
    for name in checks.due():
        checks.check(name)
    coordinator = SimpleNamespace(read=lambda view: view(SimpleNamespace(groups=groups)))
    service: Any = SimpleNamespace(checks=checks, coordinator=coordinator)
    if starts:
        assembly._check_tables(service)
    else:
        with pytest.raises(TableNotFound):
            assembly._check_tables(service)
