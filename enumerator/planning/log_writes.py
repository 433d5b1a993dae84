"""What completed instants say they wrote into each log file, and log files whose loss a request puts up with. Pure.

With it a reader that meets damage can tell the leftover of a failed append, which takes nothing away, from lost rows.
Not here: looking into files (reader), files that are missing otherwise (`missing`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from penstock.enumerator.log import log_event
from penstock.enumerator.planning.selection import TimelineFacts
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import FileRef, LogWrite
from penstock.table.files.slices import DataFile, VisibleFiles


@dataclass(frozen=True, slots=True)
class LogContents:
    """The writes of some log files. Made once a plan from the metadata of all active instants."""

    facts: TimelineFacts
    writes: Mapping[str, tuple[LogWrite, ...]]

    def ref(self, log: DataFile) -> FileRef:
        """The file with its writes; without them if an archived instant may have written into it.

        On layout 1 a log is named after its base file and takes the blocks of many instants, none older than that; on
        layout 2 it is one instant's, and in its name.
        """
        timeline = self.facts.timeline
        if timeline.layout == 1:
            known = log.name.instant >= timeline.first_active
        else:
            known = log.name.instant in self.facts.commits
        writes = self.writes.get(log.ref.path, ())
        if not known or any(write.data_rows < 0 or write.delete_rows < 0 for write in writes):
            return log.ref
        return replace(log.ref, writes=writes)


def log_contents(facts: TimelineFacts, logs: Collection[DataFile]) -> LogContents:
    """What active completed instants wrote into these logs: the sums of each one's write stats that name the file."""
    sums: dict[str, dict[str, tuple[int, int]]] = {log.ref.path: {} for log in logs}
    for requested_time, commit in facts.commits.items() if sums else ():
        for stat in commit.stats:
            by_instant = sums.get(stat.path)
            if by_instant is not None:
                data_rows, delete_rows = by_instant.get(requested_time, (0, 0))
                by_instant[requested_time] = (data_rows + stat.num_writes, delete_rows + stat.num_deletes)
    writes = {
        path: tuple(LogWrite(InstantTime(instant), *rows) for instant, rows in sorted(by_instant.items()))
        for path, by_instant in sums.items()
    }
    return LogContents(facts, writes)


def without_gone_logs(found: VisibleFiles | None, state: TableState) -> VisibleFiles | None:
    """`found` without log files that are gone though nothing cleaned them, each told to the log; None if nothing is
    left of it.

    A base file that is gone stays: what an older one holds is not what is left of it.
    """
    if found is None:
        return None
    gone = [log for log in found.logs if not log.listed and log.ref.path not in state.cleaned]
    for log in gone:
        log_event("log file gone", level=logging.WARNING, table=state.table, file=log.ref.path, instant=log.named_by)
    logs = tuple(log for log in found.logs if log not in gone)
    return replace(found, logs=logs) if logs or found.base else None
