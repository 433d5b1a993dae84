"""The changes of a file group in a split of change data capture: one step per commit, with the files to derive them
from.

The source of a step's changes is one of the classes in `ChangeSource`; a new source is a new class there.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum

from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.positions import InstantTime
from penstock.proto.value_classes import dataclass


class ChangeFormat(StrEnum):
    """The format of a change."""

    ROWS = "rows"
    """Rows of the table with `_change_type`, `_change_instant` and `_change_seq`."""
    HUDI = "hudi"
    """One row with Hudi's `op`, `ts_ms`, `before` and `after`."""


@dataclass(frozen=True, slots=True)
class LoggedImages:
    """The writer logged the changes (`.cdc` log files)."""

    files: tuple[FileRef, ...]
    """The `.cdc` log files."""
    before: SliceFiles | None = None
    """The state before the commit, for images that are not logged; None if the logging mode does not need it."""
    after: SliceFiles | None = None
    """The state after the commit, for images that are not logged; None if the logging mode does not need it."""
    key_fields: tuple[str, ...] = ()
    """The columns of the record key; empty if keys are logged or not requested."""


@dataclass(frozen=True, slots=True)
class ComparedStates:
    """The changes are the differences between two states of the group.

    If the commit only added log files, only the keys in them are compared.
    """

    before: SliceFiles | None
    """The state before the commit; None: the group was empty."""
    after: SliceFiles | None
    """The state after the commit; None: the group is empty."""


@dataclass(frozen=True, slots=True)
class StoredKinds:
    """The writer stored a changelog: each record has its kind in `_hoodie_operation`, and records are not merged."""

    files: SliceFiles
    """The files that the commit wrote."""


ChangeSource = LoggedImages | ComparedStates | StoredKinds


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStep:
    """The changes of one commit to the group."""

    instant: InstantTime
    """The commit's requested time."""
    order_key: InstantTime
    """The commit's order key."""
    place: int
    """The group's number among the groups of the commit, which are sorted by partition and file id."""
    source: ChangeSource
    """The source of the changes."""

    @property
    def files(self) -> tuple[FileRef, ...]:
        """Every file that a reader may open for this step."""
        match self.source:
            case LoggedImages(files=files, before=before, after=after):
                return (*files, *(before.files if before else ()), *(after.files if after else ()))
            case ComparedStates(before, after):
                return (*(before.files if before else ()), *(after.files if after else ()))
            case StoredKinds(files=slice_files):
                return slice_files.files


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """The changes of a file group."""

    steps: tuple[ChangeStep, ...]
    """One step per commit, in commit order."""


@dataclass(frozen=True, slots=True)
class ChangesOf:
    """The scan's rows are changes.

    The state after a step consists of the instants up to the step's own, the state before it of those before that.
    Every state includes the instants that were requested before `VisibleInstants.archived_before`.
    """

    format: ChangeFormat
    """The format of the changes."""
    instants: tuple[InstantTime, ...] = field(default=())
    """The completed write instants up to the end of the range, in commit order (order key, requested time)."""
