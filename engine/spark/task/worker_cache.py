"""Caches the scans of recent plans in a Python worker process, across its tasks.

Spark reuses its Python workers, so a task calls `describe_plan` only if no earlier task of its process did. One task at
a time runs in a worker, so there is no lock. `penstock.proto.client.client` caches the connections.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from penstock.proto.enumerator import Enumerator
from penstock.proto.model.splits import Scan

MAX_SCANS: Final = 32

K = TypeVar("K")
V = TypeVar("V")


class LastUsed(Generic[K, V]):
    """At most `capacity` values by key; evicts the least recently used one."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, make: Callable[[], V]) -> V:
        """The value of `key`, created with `make` if it is not cached. If `make` raises, nothing is cached."""
        if key not in self._values:
            value = make()
            while len(self._values) >= self._capacity:
                self._values.popitem(last=False)
            self._values[key] = value
        self._values.move_to_end(key)
        return self._values[key]


_scans: Final[LastUsed[tuple[str, str], Scan]] = LastUsed(MAX_SCANS)


def scan_of(enumerator: Enumerator, server: str, plan_id: str) -> Scan:
    """The scan of a plan, requested from the server once per process (plan ids are never reused)."""
    return _scans.get((server, plan_id), lambda: enumerator.describe_plan(plan_id))
