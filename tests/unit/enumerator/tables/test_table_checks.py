"""The intervals of table checks, and failures at start, as in docs/operations.md."""

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
    """A table `t`, a clock, and the error of opening the table."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.error: BaseException | None = None
        self.during: Callable[[], object] = lambda: None
        self.checks = TableChecks(lambda: ["t"], self.open, lambda: self.now_ms, NO_OBSERVER)

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


def test_table_is_checked_every_minute_and_with_growing_delays_after_failures() -> None:
    world = World()
    assert world.checks.due() == ["t"]
    assert world.pause_ms() == 60_000
    world.error = MemoryError("table too large")
    assert [world.pause_ms() for _ in range(9)] == [500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]
    assert "MemoryError" in world.checks.trouble_of("t")[1]
    world.error = None
    assert world.pause_ms() == 60_000
    assert world.checks.trouble_of("t") == ("", "")


def test_table_without_an_answer_from_storage_is_in_trouble_after_ten_seconds() -> None:
    world, codes = World(), list[str]()

    def hang() -> None:
        for _ in range(2):
            world.now_ms += 5_000
            codes.append(world.checks.trouble_of("t")[0])

    world.during = hang
    world.checks.check("t")
    assert codes == ["", "STORAGE"]


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
def test_server_starts_unless_every_table_fails_with_a_permanent_error(
    errors: tuple[PenstockError | None, ...], groups: tuple[str, ...], starts: bool
) -> None:
    by_name = dict(zip("ab", errors, strict=True))

    def open_table(name: str) -> None:
        error = by_name[name]
        if error is not None:
            raise error

    checks = TableChecks(lambda: by_name, open_table, lambda: 0, NO_OBSERVER)
    for name in checks.due():
        checks.check(name)
    coordinator = SimpleNamespace(read=lambda view: view(SimpleNamespace(groups=groups)))
    service: Any = SimpleNamespace(checks=checks, coordinator=coordinator)
    if starts:
        assembly._check_tables(service)
    else:
        with pytest.raises(TableNotFound):
            assembly._check_tables(service)
