"""One assigned split while it is read: batches one by one, the last one known as the last.

Belongs here: where a reading goes on after an error. Not here: how a split is read (`penstock.reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from penstock.proto.errors import PenstockError
from penstock.proto.model.groups import AssignedSplit
from penstock.proto.model.reports import SplitReport
from penstock.reader.read_split import SplitBatch, SplitTally

Read = Callable[[AssignedSplit, int, SplitTally], Generator[SplitBatch, None, None]]
"""Reads an assigned split from an ordinal on, counting into the tally."""


class SplitReader:
    """A reading of `assigned` from its start. One thread. Shares nothing with other splits.

    One batch is read ahead. When that fails the batch before it is handed out all the same; the next `take` reads
    again from there, and raises if it fails again. So a caller may try once more after any error.
    """

    def __init__(self, assigned: AssignedSplit, read: Read, new_tally: Callable[[AssignedSplit], SplitTally]) -> None:
        self.assigned = assigned
        self._read = read
        self._new_tally = new_tally
        self._tally = SplitTally()
        self._reading: Generator[SplitBatch, None, None] | None = None
        self._ahead: SplitBatch | None = None
        self.next_ordinal = assigned.start
        self.ended = False
        self.rows = 0

    def take(self) -> SplitBatch | None:
        """The next batch; None if there is none. `ended` then says whether there will be another."""
        try:
            if self._reading is None:
                self._tally = self._new_tally(self.assigned)
                self._reading = self._read(self.assigned, self.next_ordinal, self._tally)
                self._ahead = next(self._reading, None)
        except BaseException:
            self.close()
            raise
        taken = self._ahead
        if taken is None:
            self.ended = True
            self.close()
            return None
        try:
            self._ahead = next(self._reading, None)
            self.ended = self._ahead is None
        except PenstockError:
            self.close()
        except BaseException:  # `taken` is not handed out: it is read again
            self.close()
            raise
        self.next_ordinal = taken.next_ordinal
        self.rows += taken.batch.num_rows
        if self.ended:
            self.close()
        return taken

    def report(self) -> SplitReport:
        """How the reading went, with the rows handed on."""
        return replace(self._tally.report(), rows=self.rows)

    def close(self) -> None:
        """Lets go of the split's files. May be called again; `take` opens them anew."""
        reading, self._reading, self._ahead = self._reading, None, None
        if reading is not None:
            reading.close()
