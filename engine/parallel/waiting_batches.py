"""The decoded batches of several tasks that wait for one consumer: a monitor that bounds and orders them.

Readers call `admit`, `put`, `end`, `fail` and `no_task`, the consumer `take`, both `stop`.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import field

import pyarrow as pa

from penstock.proto.value_classes import dataclass


@dataclass(slots=True)
class _Lane:
    """The batches of one task that wait."""

    batches: deque[pa.RecordBatch] = field(default_factory=deque)
    ended: bool = False


class WaitingBatches:
    """Batches by the position of their task, which is a number from 0. Any thread.

    `ordered`: the consumer takes all batches of a task, and then those of the next one. Else it takes batches as they
    arrive; those of one task keep their order.

    At most `most_bytes` wait, and one batch more if the consumer has nothing else to take: so a large batch, or the
    task whose turn it is, can always continue. At most `most_tasks` tasks are admitted that were not taken to their
    end: so a task that takes long does not let the results of others pile up.
    """

    def __init__(self, *, ordered: bool, most_bytes: int, most_tasks: int) -> None:
        self._ordered, self._most_bytes, self._most_tasks = ordered, most_bytes, most_tasks
        self._changed = threading.Condition()
        self._lanes: dict[int, _Lane] = {}
        self._arrived: deque[int] = deque()
        self._bytes = self._admitted = self._done = 0
        self._errors: dict[int, BaseException] = {}
        self._complete = self._stopped = False

    @property
    def done(self) -> int:
        """The number of tasks that were taken to their end."""
        return self._done

    @property
    def waiting_bytes(self) -> int:
        """The bytes of all batches that wait."""
        return self._bytes

    def admit(self) -> int | None:
        """Waits until one more task may be read. Returns its position; None: no further task is needed."""
        with self._changed:
            self._changed.wait_for(lambda: self._admits_none() or self._admitted - self._done < self._most_tasks)
            if self._admits_none():
                return None
            position = self._admitted
            self._admitted += 1
            self._lanes[position] = _Lane()
            return position

    def put(self, position: int, batch: pa.RecordBatch) -> bool:
        """Waits until there is room for the batch. False: neither it nor the rest of its task is needed."""
        size_bytes = batch.nbytes
        with self._changed:
            self._changed.wait_for(lambda: not self._needs(position) or self._has_room(position, size_bytes))
            if not self._needs(position):
                return False
            self._lanes[position].batches.append(batch)
            if not self._ordered:
                self._arrived.append(position)
            self._bytes += size_bytes
            self._changed.notify_all()
            return True

    def end(self, position: int) -> None:
        """The task was read to its end."""
        with self._changed:
            if not self._stopped:
                self._lanes[position].ended = True
                self._retire(position)
            self._changed.notify_all()

    def fail(self, position: int, error: BaseException) -> None:
        """The task failed. `take` raises the error: ordered after all batches before it, else at once."""
        with self._changed:
            if not self._stopped:
                self._errors[position] = error
            self._changed.notify_all()

    def no_task(self, position: int) -> None:
        """The read has no task for this position, and so none for a later one."""
        with self._changed:
            self._lanes.pop(position, None)
            self._complete = True
            self._changed.notify_all()

    def take(self) -> pa.RecordBatch | None:
        """Waits for the next batch; None after the last one. After an error nothing more may be taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._turn() is not None or self._is_exhausted())
            position = self._turn()
            if position is None:
                return None
            lane = self._lanes[position]
            if position in self._errors and not (self._ordered and lane.batches):
                raise self._errors[position]
            if not self._ordered:
                self._arrived.popleft()
            batch = lane.batches.popleft()
            self._bytes -= batch.nbytes
            self._retire(position)
            self._changed.notify_all()
            return batch

    def stop(self) -> None:
        """Nothing more is taken: drops all batches, and readers return at their next call."""
        with self._changed:
            self._stopped = True
            self._lanes.clear()
            self._arrived.clear()
            self._errors.clear()
            self._bytes = 0
            self._changed.notify_all()

    def _turn(self) -> int | None:
        """The position from which the consumer takes now; None: it waits."""
        if self._ordered:
            lane = self._lanes.get(self._done)
            return self._done if lane is not None and (lane.batches or self._done in self._errors) else None
        if self._errors:
            return next(iter(self._errors))
        return self._arrived[0] if self._arrived else None

    def _is_exhausted(self) -> bool:
        return self._complete and not self._lanes

    def _admits_none(self) -> bool:
        return self._stopped or self._complete or bool(self._errors)

    def _needs(self, position: int) -> bool:
        """Whether the consumer may still take batches of the task: not after an error that comes before them."""
        if self._stopped:
            return False
        return not self._errors or (self._ordered and position < min(self._errors))

    def _has_room(self, position: int, size_bytes: int) -> bool:
        if self._bytes + size_bytes <= self._most_bytes:
            return True
        return position == self._done and not self._lanes[position].batches if self._ordered else not self._arrived

    def _retire(self, position: int) -> None:
        """Removes lanes that were taken to their end, so that other tasks may be admitted."""
        if self._ordered:
            position = self._done
        while (lane := self._lanes.get(position)) is not None and lane.ended and not lane.batches:
            del self._lanes[position]
            self._done += 1
            position = self._done if self._ordered else -1
