"""Checks whether each table of a server can be opened: at the start, then repeatedly, each table by itself.

`groups.discovery_threads` runs the checks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from penstock.enumerator.log import log_event
from penstock.enumerator.observer import Observer, TableChecked
from penstock.proto.errors import StorageError, code_and_text
from penstock.proto.retry import RetryPolicy

RETRY: Final = RetryPolicy(timeout_ms=None, first_delay_ms=500, longest_delay_ms=60_000)
"""Retries of a failed check or discovery; without end."""
SLOW_DISCOVERY_MS: Final = 10_000
"""A check or discovery that takes longer is reported as an error of its table, and no longer counts among those that
may run at once."""
HEALTHY_MS: Final = 60_000
"""Time from a successful check of a table to the next one."""


@dataclass(frozen=True, slots=True)
class TableHealth:
    """Result of the last check of a table."""

    error: BaseException | None = None
    """The error; None if the table could be opened."""
    failures: int = 0
    """Failed checks in a row."""
    again_ms: int = 0
    """When the next check is due."""


class TableChecks:
    """Checks of the tables that `names` returns now. Any thread; one check per table at a time. `check` raises if a
    table cannot be opened."""

    def __init__(
        self,
        names: Callable[[], Iterable[str]],
        check: Callable[[str], None],
        clock_ms: Callable[[], int],
        observer: Observer,
    ) -> None:
        self._names, self._check, self._clock_ms, self._observer = names, check, clock_ms, observer
        self.is_logging = True
        self._changed = threading.Condition()
        self._health: dict[str, TableHealth] = {}
        self._since_ms: dict[str, int] = {}

    def names(self) -> tuple[str, ...]:
        """The tables now, sorted."""
        return tuple(sorted(self._names()))

    def due(self) -> list[str]:
        """Tables whose check is due; those that were never checked come first. Forgets tables that are gone."""
        now_ms, names = self._clock_ms(), self.names()
        with self._changed:
            for gone in self._health.keys() - set(names):
                del self._health[gone]
            health = dict(self._health)
        due = [name for name in names if name not in health or health[name].again_ms <= now_ms]
        return sorted(due, key=lambda name: name in health)

    def check(self, name: str) -> bool:
        """Checks one table. Every exception is an error of that table. Returns False: no discovery is due after it."""
        with self._changed:
            before = self._health.get(name, TableHealth())
            self._since_ms[name] = self._clock_ms()
        error: BaseException | None = None
        try:
            self._check(name)
        except BaseException as raised:  # noqa: BLE001 - the other tables are served all the same
            error = raised
        failures = before.failures + 1 if error is not None else 0
        delay_ms = round(RETRY.backoff_ms(failures, chance=0)) if failures else HEALTHY_MS
        with self._changed:
            self._health[name] = TableHealth(error, failures, self._clock_ms() + delay_ms)
            self._since_ms.pop(name, None)
            self._changed.notify_all()
        self._observer.observe(TableChecked(name, "" if error is None else code_and_text(error)[0]))
        if error is not None and self.is_logging:
            _log_failure(name, error, failures)
        elif error is None and before.failures:
            log_event("table can be opened again", table=name, failures=before.failures)
        return False

    def wait_for_all(self, seconds: float) -> Mapping[str, TableHealth]:
        """Waits until each table was checked, for at most `seconds`. Returns the health of the checked tables."""
        with self._changed:
            self._changed.wait_for(lambda: self._health.keys() >= set(self.names()), seconds)
            return dict(self._health)

    def begin_logging(self) -> None:
        """Logs failures from now on, and the present failures."""
        self.is_logging = True
        with self._changed:
            failed = {name: health for name, health in self._health.items() if health.error is not None}
        for name, health in sorted(failed.items()):
            if health.error is not None:
                _log_failure(name, health.error, health.failures)

    def report_silent(self) -> None:
        """Reports tables whose check has run for more than SLOW_DISCOVERY_MS to the observer."""
        for name in self.names():
            if self._is_silent(name):
                self._observer.observe(TableChecked(name, StorageError.code))

    def trouble_of(self, name: str) -> tuple[str, str]:
        """Code and text of the table's error; ('', '') if it can be opened, or was never checked."""
        if self._is_silent(name):
            return StorageError.code, f"table {name}: opening it has not ended: storage does not answer"
        with self._changed:
            error = self._health.get(name, TableHealth()).error
        return ("", "") if error is None else code_and_text(error)

    def _is_silent(self, name: str) -> bool:
        with self._changed:
            since_ms = self._since_ms.get(name)
        return since_ms is not None and self._clock_ms() - since_ms >= SLOW_DISCOVERY_MS


def _log_failure(name: str, error: BaseException, failures: int) -> None:
    code, text = code_and_text(error)
    log_event(
        "table cannot be opened", level=logging.WARNING, table=name, failures=failures, code=code, reason=text[:500]
    )
