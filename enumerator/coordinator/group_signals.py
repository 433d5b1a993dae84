"""`GroupSignals`: wakes the calls that wait for a change of a consumer group."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from penstock.enumerator.core.records import (
    GroupKey,
    LeaseRenewed,
    NothingGranted,
    Record,
    SplitsAssigned,
    SplitsCommitted,
    TurnTaken,
)

_NO_SPLITS: Final = (LeaseRenewed, NothingGranted, SplitsAssigned, TurnTaken)
"""Records after which a waiting reader gets no splits that it would not have got before."""


class GroupSignals:
    """Events of waiting calls, by the name of their group. Any thread.

    A group over tables has the name of the groups of its tables, so that a change of each of them wakes its readers.
    Two groups of one name on two tables wake each other's readers in vain.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: dict[str, set[threading.Event]] = {}

    @contextmanager
    def of(self, group: str) -> Iterator[threading.Event]:
        """An event that is set after each change of the groups of this name, while the block runs."""
        event = threading.Event()
        with self._lock:
            self._waiting.setdefault(group, set()).add(event)
        try:
            yield event
        finally:
            with self._lock:
                self._waiting[group].discard(event)
                if not self._waiting[group]:
                    del self._waiting[group]

    def send(self, records: Sequence[Record]) -> None:
        """Wakes the calls that these records may concern."""
        if not self._waiting:
            return
        keys = (getattr(record, "key", None) for record in records if _may_free(record))
        groups = {key.group for key in keys if isinstance(key, GroupKey)}
        with self._lock:
            for group in groups:
                for event in self._waiting.get(group, ()):
                    event.set()


def _may_free(record: Record) -> bool:
    if isinstance(record, SplitsCommitted):
        return bool(record.finished)
    return not isinstance(record, _NO_SPLITS)
