"""The changes of a file group, as a split of change data capture carries them: what each commit did, and the files that
tell it. Values only.

A step stands for one commit's changes of one group. Where its changes come from is one of the classes in
`ChangeSource`; a new source is a new class there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.positions import InstantTime


class ChangeFormat(StrEnum):
    """What a change becomes: rows of the table with `_change_type`, `_change_instant` and `_change_seq`, or one row of
    Hudi's own `op`, `ts_ms`, `before`, `after`."""

    ROWS = "rows"
    HUDI = "hudi"


@dataclass(frozen=True, slots=True)
class LoggedImages:
    """The writer logged the changes in `files` (`.cdc` log files). The states before and after are for images that it
    did not log; None where the table's logging mode needs none. `key_fields` are the columns that record keys are made
    of; empty where keys are logged, or not asked for."""

    files: tuple[FileRef, ...]
    before: SliceFiles | None = None
    after: SliceFiles | None = None
    key_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ComparedStates:
    """The changes are what differs between two states of the group; None: it held nothing. Where the commit only added
    logs to the base file, the keys in them are compared and no others."""

    before: SliceFiles | None
    after: SliceFiles | None


@dataclass(frozen=True, slots=True)
class StoredKinds:
    """The writer stored a changelog: each record that the commit wrote into `files` has its kind in
    `_hoodie_operation`, and none is merged."""

    files: SliceFiles


ChangeSource = LoggedImages | ComparedStates | StoredKinds


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStep:
    """What one commit did to the group. `place` is the group's number among the groups of the commit, sorted by
    partition and file id."""

    instant: InstantTime
    order_key: InstantTime
    place: int
    source: ChangeSource

    @property
    def files(self) -> tuple[FileRef, ...]:
        """Every file that may be opened for it."""
        match self.source:
            case LoggedImages(files=files, before=before, after=after):
                return (*files, *(before.files if before else ()), *(after.files if after else ()))
            case ComparedStates(before, after):
                return (*(before.files if before else ()), *(after.files if after else ()))
            case StoredKinds(files=found):
                return found.files


@dataclass(frozen=True, slots=True)
class GroupChanges:
    """The split is a file group's changes: one step a commit, in commit order."""

    steps: tuple[ChangeStep, ...]


@dataclass(frozen=True, slots=True)
class ChangesOf:
    """The scan's rows are changes, in this format.

    `instants` are the completed write instants up to the range's end, in commit order (order key, requested time): the
    state after a step is made by those up to the step's own, the state before it by those in front of it. One requested
    before `archived_before` counts for every state.
    """

    format: ChangeFormat
    instants: tuple[InstantTime, ...] = field(default=())
