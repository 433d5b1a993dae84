"""Reads one assigned split batch by batch, one batch ahead, so that the last batch is recognized as such."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

from penstock.proto.errors import PenstockError
from penstock.proto.model.groups import AssignedSplit, Member
from penstock.proto.model.reports import SplitReport
from penstock.reader.read_split import SplitBatch, SplitTally

ReadSplit = Callable[[AssignedSplit, int, SplitTally], Generator[SplitBatch, None, None]]
"""Reads an assigned split from an ordinal on, and counts into the tally."""


class SplitReader:
    """Reads `assigned` from its start. Used by one thread. Shares nothing with other splits.

    One batch is read ahead. If that fails, the batch before it is returned nevertheless; the next `take` reads again
    from there, and raises if it fails again. So a caller may repeat `take` after any error.
    """

    def __init__(
        self,
        assigned: AssignedSplit,
        owner: Member,
        read: ReadSplit,
        new_tally: Callable[[AssignedSplit], SplitTally],
    ) -> None:
        """`owner`: the member that commits the split."""
        self.assigned = assigned
        self.owner = owner
        self.is_begun = False
        self._read = read
        self._new_tally = new_tally
        self._tally = SplitTally()
        self._reading: Generator[SplitBatch, None, None] | None = None
        self._ahead: SplitBatch | None = None
        self.next_ordinal = assigned.start
        self.ended = False
        self.rows = 0

    def take(self) -> SplitBatch | None:
        """The next batch; None if there is none. Afterwards `ended` says whether it was the last."""
        try:
            if self._reading is None:
                self._tally = self._new_tally(self.assigned)
                self._reading = self._read(self.assigned, self.next_ordinal, self._tally)
                self._ahead = next(self._reading, None)
        except BaseException:
            self.close()
            raise
        batch = self._ahead
        if batch is None:
            self.ended = True
            self.close()
            return None
        try:
            self._ahead = next(self._reading, None)
            self.ended = self._ahead is None
        except PenstockError:
            self.close()
        except BaseException:  # `batch` is not returned: it is read again
            self.close()
            raise
        self.next_ordinal = batch.next_ordinal
        self.rows += batch.batch.num_rows
        if self.ended:
            self.close()
        return batch

    def report(self) -> SplitReport:
        """The report of the split, with the number of rows returned."""
        return replace(self._tally.report(), rows=self.rows)

    def close(self) -> None:
        """Closes the split's files. May be called again; `take` opens them again."""
        reading, self._reading, self._ahead = self._reading, None, None
        if reading is not None:
            reading.close()
