"""The verdicts on the folders of a table: what a clean and an archival leave, from names of files alone.

Does no I/O, and uses nothing of Penstock. `table_life` lists the folders.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import Final, NamedTuple

WRITES: Final = frozenset({"commit", "deltacommit", "replacecommit"})
_COMPLETED: Final = (re.compile(r"(\d{17})_(\d{17})\.(\w+)"), re.compile(r"(\d{17})\.(\w+)"))
"""Names of completed instants of layout 2 and of layout 1."""
_STATE: Final = re.compile(r"\d{17}(_\d{17})?(\.\w+)+")
_PLAN: Final = re.compile(r"\d{17}\.(compaction|clustering|replacecommit|clean)\.requested")
_BASE: Final = re.compile(r"(.+)_\d+-\d+-\d+_(\d{17})\.parquet")
_LOG: Final = re.compile(r"\.(.+)_(\d{17})\.log\.\d+_\d+-\d+-\d+")


class Completed(NamedTuple):
    """A completed instant."""

    requested: str
    order_key: str
    """Its completion time; on layout 1 its requested time."""
    action: str


class DataFile(NamedTuple):
    """A base file or a log."""

    group: str
    """The partition and the file id."""
    instant: str
    is_log: bool


class Run(NamedTuple):
    """A run of the services."""

    newest: str
    """The requested time of the newest write that was complete when it began."""
    earliest: str
    """That of the earliest write whose state it retained."""


def completed_of(name: str) -> Completed | None:
    """The instant of a file of the timeline; None: it is not that of a completed instant."""
    newer, older = (pattern.fullmatch(name) for pattern in _COMPLETED)
    if newer:
        return Completed(newer[1], newer[2], newer[3])
    if older and older[2] not in ("inflight", "requested"):
        return Completed(older[1], older[1], older[2])
    return None


def is_of_timeline(name: str) -> bool:
    """Whether a file is the state of an instant."""
    return _STATE.fullmatch(name) is not None


def is_planned_service(name: str) -> bool:
    """Whether a file of the timeline is the plan of a service. On layout 1 an overwrite has such a file, too."""
    return _PLAN.fullmatch(name) is not None


def data_file_of(partition: str, name: str) -> DataFile | None:
    """A data file; None: it has another name."""
    for pattern, is_log in ((_BASE, False), (_LOG, True)):
        if matched := pattern.fullmatch(name):
            return DataFile(f"{partition}/{matched[1]}", matched[2], is_log)
    return None


def crowded(active: Iterable[Completed], keep_max: int, later: int) -> list[str]:
    """A line if the active timeline has more completed writes than the archival keeps, and the `later` ones that
    completed since its begin."""
    writes = sum(item.action in WRITES for item in active)
    bound = keep_max + later
    return [f"{writes} completed writes on the active timeline, at most {bound}"] if writes > bound else []


def settled(runs: Sequence[Run], earliest: str) -> str:
    """The instant from which on files can be left by a clean that retains the state at `earliest`; '' for all.

    A file that was replaced before the state that an earlier run retained was deleted by it, unless another write had
    replaced the whole group. That was before the run began, and the group is deleted by a later run, if its earliest
    state is newer. `runs` are the completed ones, the oldest first.
    """
    return next((run.earliest for run in reversed(runs) if run.newest < earliest), "")


def not_cleaned(files: Iterable[DataFile], known: Mapping[str, Completed], earliest: str) -> list[str]:
    """A line for each file that no state from the instant `earliest` on needs: a newer base file of its group was
    complete before. `known` has all completed instants by their requested time.

    Hudi and Penstock delete the older files of a replaced group only together with the group: `settled` says from which
    instant on a file can be left.
    """
    groups: defaultdict[str, list[DataFile]] = defaultdict(list)
    for file in files:
        groups[file.group].append(file)
    lines = []
    for name, members in sorted(groups.items()):
        bases = [file.instant for file in members if not file.is_log and file.instant in known]
        newest = max((base for base in bases if known[base].order_key < earliest), default="")
        for file in members:
            if file.instant in known and (known[file.instant].order_key if file.is_log else file.instant) < newest:
                lines.append(
                    f"{name}: a {'log' if file.is_log else 'base file'} of {file.instant} is left, which the "
                    f"base file of {newest} replaced before {earliest}"
                )
    return lines


def orphans(files: Iterable[DataFile], known: Mapping[str, Completed]) -> list[str]:
    """A line for each file of an instant that never completed."""
    return [
        f"{file.group}: a file of {file.instant}, which never completed" for file in files if file.instant not in known
    ]


def not_newest(files: Collection[DataFile], live: Set[str]) -> list[str]:
    """A line for each file group that has two base files, or none of whose rows are in the newest state. `live`: the
    file groups of the newest state."""
    bases = Counter({file.group: 0 for file in files})
    bases.update(file.group for file in files if not file.is_log)
    lines = [f"{group}: {number} base files" for group, number in sorted(bases.items()) if number > 1]
    return lines + [f"{group}: the newest state has no row of it" for group in sorted(bases.keys() - live)]


def group_of(partition: str, file_name: str) -> str:
    """The file group of a row by its `_hoodie_file_name`: the name of a base file, or the file id."""
    matched = _BASE.fullmatch(file_name)
    return f"{partition}/{matched[1] if matched else file_name}"
