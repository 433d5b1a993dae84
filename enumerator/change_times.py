"""The event-time bounds of changes: those of every file that an image can come from.

Decides; files are asked through `file_times`. An image is a row of the group's state right before or right after a
step, or one that the writer logged. Logged ones lie in no file with statistics, so where any may be, nothing is known.
"""

from __future__ import annotations

from penstock.enumerator.bounds import SplitBounds, together
from penstock.enumerator.file_times import FileTimes
from penstock.proto.changes import ChangesOf, ChangeStep, ComparedStates, GroupChanges, LoggedImages, StoredKinds
from penstock.proto.errors import InvariantViolation
from penstock.proto.files import SliceFiles
from penstock.proto.splits import Scan, UnknownBounds, VisibleInstants


def covering_files(changes: GroupChanges, files: FileTimes) -> tuple[SliceFiles, ...] | None:
    """Slices that hold every image of the changes, each once; None if an image may be elsewhere."""
    found: dict[SliceFiles, None] = {}
    for step in changes.steps:
        states = _states(step, files)
        if states is None:
            return None
        found.update(dict.fromkeys(states))
    return tuple(found)


def times_of_changes(changes: GroupChanges, scan: Scan, files: FileTimes) -> SplitBounds:
    """The event times of both sides of every change, from footers. Errors as for `FileTimes.of_slice`."""
    covering = covering_files(changes, files)
    if covering is None:
        return UnknownBounds()
    visible = _any_step(scan)
    return together(files.of_slice(found.base, found.logs, visible) for found in covering)


def _states(step: ChangeStep, files: FileTimes) -> tuple[SliceFiles, ...] | None:
    match step.source:
        case ComparedStates(before, after):
            return tuple(state for state in (before, after) if state is not None)
        case StoredKinds(found):
            return (found,)
        case LoggedImages(logs, before, after):
            if before is None or after is None or not all(files.logs_keys_alone(log) for log in logs):
                return None
            return (before, after)


def _any_step(scan: Scan) -> VisibleInstants:
    """The instants of all states around all steps: more than are in any one of them."""
    if not isinstance(scan.rows, ChangesOf):
        raise InvariantViolation(f"table {scan.table}: a split of changes, and the scan is not one of changes")
    return VisibleInstants(
        members=scan.visible.members.union(scan.rows.instants), archived_before=scan.visible.archived_before
    )
