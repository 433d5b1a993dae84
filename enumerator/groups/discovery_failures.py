"""Failed discoveries of consumer groups: when each is retried, and when a group stops.

Discovery of a group is retried if the table does not exist (yet), storage fails or denies access, or memory is short.
The delays double up to a minute, and the position of the group does not change. Every other Penstock error stops the
group with that error. Any other exception affects only its group: it is logged, counted and reported with the group,
and discovery is retried after a delay.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from penstock.enumerator.coordinator.coordinator import Coordinator
from penstock.enumerator.core import events as ev
from penstock.enumerator.core.records import GroupKey
from penstock.enumerator.groups.group_tables import FollowedGroup
from penstock.enumerator.log import log_event
from penstock.enumerator.observer import DiscoveryFailed
from penstock.enumerator.tables.table_checks import RETRY
from penstock.proto.errors import OutOfMemory, PenstockError, StorageDenied, TableNotFound, code_and_text

MOST_CONTRADICTIONS: Final = 6
"""Failed discoveries in a row; with their delays about half a minute."""


@dataclass(slots=True)
class Trouble:
    """Failed discoveries of a group."""

    count: int = 0
    """Failures in a row."""
    until_ms: int = 0
    """When discovery is retried."""
    text: str = ""
    """Text of the last error."""
    code: str = ""
    """Code of the last error."""
    waiting: bool = False
    """Whether the table does not exist yet."""


@dataclass(slots=True)
class DiscoveryFailures:
    """Failed discoveries of all groups. Any thread; one discovery per table at a time."""

    coordinator: Coordinator
    """Holds the state of the groups."""
    clock_ms: Callable[[], int]
    """The clock of delays."""
    troubles: dict[GroupKey, Trouble] = field(default_factory=dict)
    """Failed discoveries, by group."""

    def is_delayed(self, key: GroupKey, now_ms: int) -> bool:
        """Whether the delay after the last failure of the group is not over."""
        return self.delayed_until_ms(key) > now_ms

    def delayed_until_ms(self, key: GroupKey) -> int:
        """When the delay after the last failure of the group ends; 0 without a failure."""
        trouble = self.troubles.get(key)
        return 0 if trouble is None else trouble.until_ms

    def waiting(self) -> set[GroupKey]:
        """The groups whose table does not exist yet."""
        return {key for key, trouble in tuple(self.troubles.items()) if trouble.waiting}

    def retry(self, key: GroupKey, error: BaseException) -> None:
        """Counts the failure; discovery of the group is retried after a delay."""
        trouble = self.troubles.setdefault(key, Trouble())
        trouble.count += 1
        trouble.code, trouble.text = code_and_text(error)
        trouble.waiting = isinstance(error, TableNotFound)
        delay_ms = round(RETRY.backoff_ms(trouble.count, chance=0))
        trouble.until_ms = self.clock_ms() + delay_ms
        self.coordinator.observer.observe(DiscoveryFailed(key.table, key.group, trouble.code))
        log_event("table not there yet" if trouble.waiting else "discovery failed",
                  level=logging.WARNING if isinstance(error, PenstockError) else logging.ERROR,
                  table=key.table, group=key.group, failures=trouble.count, again_in_ms=delay_ms,
                  code=trouble.code, reason=trouble.text[:500],
                  exc_info=None if isinstance(error, PenstockError) else error)  # fmt: skip

    def retry_or_stop(self, group: FollowedGroup, error: PenstockError) -> None:
        """Retries after contradictory reads; stops the group after MOST_CONTRADICTIONS in a row. Either the range was
        lost and could be planned a moment later, or a completed instant refers to a missing file that no service
        removed: the file may be invisible for a time (a stale listing, an upload, a restored backup)."""
        trouble = self.troubles.get(group.key, Trouble())
        if trouble.code == error.code and trouble.count >= MOST_CONTRADICTIONS:
            self.stop(group, error)
        else:
            self.retry(group.key, error)

    def stop(self, group: FollowedGroup, error: PenstockError) -> None:
        """Stops the group with the error."""
        key, start = group.key, group.start
        log_event("group stopped", level=logging.ERROR, table=key.table, group=key.group, at=start,
                  code=error.code, reason=str(error)[:1000])  # fmt: skip
        stopped = ev.CannotGoOn(key=key, number=group.number, start=start, code=error.code, text=str(error))
        self.coordinator.handle(stopped)
        self.coordinator.observer.observe(DiscoveryFailed(key.table, key.group, error.code))


def is_repeated(error: PenstockError) -> bool:
    """Whether a retry may succeed without a decision of an operator about the group."""
    return error.retryable or isinstance(error, StorageDenied | TableNotFound | OutOfMemory)
