"""What one server takes: threads, messages, calls at a time, deadlines. Numbers and one check, no gRPC."""

from __future__ import annotations

from typing import Final

from penstock.proto.errors import ConfigurationError, StorageError

WORKERS: Final = 16
"""Threads that answer the short calls: no I/O, a lock for microseconds."""
PLANNING_WORKERS: Final = 4
"""Threads that open and describe tables: they list storage, and readers must not wait behind them."""
MAX_CALLS: Final = 1000
"""Calls waiting or under way; beyond it gRPC answers RESOURCE_EXHAUSTED at once."""
MAX_REQUEST_BYTES: Final = 4 << 20
MAX_ANSWER_BYTES: Final = 64 << 20
MAX_DEADLINE_S: Final = 3600.0


def require_deadline(remaining_s: float | None) -> None:
    """ConfigurationError for a call without a deadline, or with one further off than MAX_DEADLINE_S; StorageError for
    one that waited for a thread until its caller gave up: it must not cost any work."""
    if remaining_s is None or remaining_s > MAX_DEADLINE_S:
        raise ConfigurationError(
            f"the call has no deadline within {MAX_DEADLINE_S:.0f} s: set one, so that a lost answer ends"
        )
    if remaining_s <= 0:
        raise StorageError("the deadline passed before the call was begun: the server is overloaded")
