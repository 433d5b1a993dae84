"""Measures the writes of tables: what has not ended, for how long, and what has ended since the last measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from penstock.enumerator.core.writes.state import TableWrites, Write
from penstock.enumerator.write_events import TableWritesMeasured, WritesMeasured
from penstock.proto.model.writes import WriteId, WriteState


class WriteMeter:
    """One thread measures, any thread reports a conflict."""

    def __init__(self) -> None:
        self._since_ms: dict[tuple[WriteId, WriteState], int] = {}
        """When a live write was first seen in its state: after a restart, that of the restart."""
        self._ended: dict[str, frozenset[WriteId]] | None = None
        self._conflicts: Counter[str] = Counter()

    def conflict(self, table: str) -> None:
        """A lease was refused."""
        self._conflicts[table] += 1

    def measure(self, tables: Mapping[str, TableWrites], now_ms: int) -> WritesMeasured:
        """The writes of all tables now. The first measure counts no end: another process may have counted it."""
        ended = {table: frozenset(writes.ended) for table, writes in tables.items()}
        before = ended if self._ended is None else self._ended
        live = [write for writes in tables.values() for write in writes.live.values()]
        self._since_ms = {(each.id, each.state): self._since_ms.get((each.id, each.state), now_ms) for each in live}
        conflicts, self._conflicts, self._ended = self._conflicts, Counter(), ended
        measured = {}
        for table, writes in tables.items():
            new = ended[table] - before.get(table, frozenset())
            measured[table] = TableWritesMeasured(
                writes=Counter(each.state for each in writes.live.values()),
                groups=sum(each.held.size for each in writes.live.values()),
                oldest_s=self._oldest_s(list(writes.live.values()), now_ms),
                ended=Counter(_end_of(writes.ended[each]) for each in new),
                conflicts=conflicts[table],
            )
        return WritesMeasured(measured)

    def _oldest_s(self, live: Sequence[Write], now_ms: int) -> dict[WriteState, float]:
        ages: dict[WriteState, float] = {}
        for each in live:
            age_s = (now_ms - self._since_ms[each.id, each.state]) / 1000
            ages[each.state] = max(age_s, ages.get(each.state, 0.0))
        return ages


def _end_of(write: Write) -> str:
    return WriteState.COMPLETED.value if write.end is None else write.end.value
