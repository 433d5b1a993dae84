"""Which files of a partition a clean deletes, and which files must stay. Pure.

Source: Hudi `CleanPlanner`. Stricter than Hudi in three points. The slice that a pending clustering reads stays also if
the file group has a newer one. So do slices of a replaced file group that a pending compaction reads. And of each file
group the newest slice at a savepoint stays, also if the savepoint does not list it: a compaction that was pending then
has written its base file later, and Hudi's savepoint (version 8 and later) lists no file of a group in whose newest
slice there is only this pending compaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.table.files.names import BaseName, LogName
from penstock.table.files.slices import CommittedInstants, DataFile, GroupId, group_files, slice_group
from penstock.writer.table_services.retention import CleanPolicy, KeepFileVersions


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningFacts:
    """The state of a table that a clean depends on, beside its files."""

    committed: CommittedInstants
    """The committed instants."""
    replaced: Mapping[GroupId, str] = field(default_factory=dict)
    """File group -> requested time of the newest completed replacecommit that replaced it."""
    pending_compactions: Mapping[GroupId, Collection[str]] = field(default_factory=dict)
    """File group -> requested times of its pending compactions."""
    compaction_inputs: Mapping[GroupId, str] = field(default_factory=dict)
    """File group -> key of the earliest slice that its pending compactions and log compactions read."""
    clustering_inputs: Mapping[GroupId, str] = field(default_factory=dict)
    """File group -> requested time of the earliest pending clustering or replacecommit that reads it."""
    savepoints: Mapping[str, Collection[tuple[str, str]]] = field(default_factory=dict)
    """Requested time of each savepoint -> (partition, name) of the files that it lists."""


@dataclass(frozen=True, slots=True)
class _Group:
    """The committed files of a file group."""

    group: GroupId
    slices: Mapping[str, Sequence[str]]
    """Key -> names of the files of the slice, change logs included, by ascending key."""
    cdc: Mapping[str, str]
    """Name -> instant of the change logs whose slice is gone."""

    @property
    def keys(self) -> list[str]:
        return list(self.slices)

    @property
    def names(self) -> set[str]:
        return {name for names in self.slices.values() for name in names} | {*self.cdc}


def files_to_delete(
    files: Iterable[DataFile], facts: CleaningFacts, policy: CleanPolicy, protected_from: str
) -> tuple[str, ...]:
    """The names of the files of one partition that a clean deletes, sorted.

    protected_from: requested time of the earliest instant whose state of the table must stay readable; '' for none,
    which only KEEP_LATEST_FILE_VERSIONS allows.
    """
    deleted: set[str] = set()
    for group in _groups(files, facts):
        replaced_by = facts.replaced.get(group.group)
        kept = {key for key, _ in _needed_slices(group, facts, protected_from)}
        if replaced_by is None:
            candidates = _superseded(group, facts, policy, protected_from)
        elif not protected_from or replaced_by < protected_from:
            candidates = group.keys
        else:
            continue
        gone = [key for key in candidates if key not in kept]
        stays = [key for key in group.keys if key not in gone]
        deleted.update(name for key in gone for name in group.slices[key])
        oldest = min([*stays[:1], *filter(None, [protected_from])], default="")
        deleted.update(name for name, instant in group.cdc.items() if not oldest or instant < oldest)
    return tuple(sorted(deleted))


def needed_files(files: Iterable[DataFile], facts: CleaningFacts, protected_from: str = "") -> Mapping[str, str]:
    """Name -> why it is needed, of the files of one partition that no clean may delete, whatever its policy: those of
    the newest slice of each file group, of slices that pending services read, of savepoints, and of writes that are not
    complete. With `protected_from` also those for the state of the table at this instant and later ones."""
    files = list(files)
    reasons: dict[str, str] = {}
    complete: set[str] = set()
    for group in _groups(files, facts):
        complete |= group.names
        replaced_by = facts.replaced.get(group.group)
        if replaced_by is not None and protected_from and replaced_by >= protected_from:
            reasons.update(dict.fromkeys(group.names, "a reader needs it"))
        for key, reason in _needed_slices(group, facts, protected_from, lists_suffice=True):
            reasons.update(dict.fromkeys(group.slices[key], reason))
    reasons.update((name, "its file slice is not complete") for file in files if (name := _name(file)) not in complete)
    return reasons


def _groups(files: Iterable[DataFile], facts: CleaningFacts) -> Iterator[_Group]:
    """The file groups with their committed files. A slice without a committed instant is that of a pending compaction
    or write (Hudi `HoodieFileGroup.isFileSliceCommitted`)."""
    files = list(files)
    groups = group_files(files)
    change_logs: dict[GroupId, dict[str, str]] = {}
    for file in files:
        if isinstance(file.name, LogName) and file.name.is_cdc and facts.committed.holds(file.name.instant):
            change_logs.setdefault(file.group, {})[_name(file)] = file.name.instant
    for group in sorted({*groups, *change_logs}):
        members = groups.get(group, [])
        pending = facts.pending_compactions.get(group, ())
        slices = {
            item.key: [_name(log) for log in item.logs]
            for item in slice_group(members, pending, facts.committed)
            if facts.committed.holds(item.key)
        }
        for file in members:  # all attempts of a write, of which a slice has one
            if isinstance(file.name, BaseName) and file.name.instant in slices:
                slices[file.name.instant].append(_name(file))
        logs = change_logs.get(group, {})
        for name, instant in logs.items():
            if instant in slices:
                slices[instant].append(name)
        yield _Group(group, slices, {name: instant for name, instant in logs.items() if instant not in slices})


def _superseded(group: _Group, facts: CleaningFacts, policy: CleanPolicy, protected_from: str) -> list[str]:
    """The keys of the slices that the policy does not keep, by ascending key."""
    if not isinstance(policy, KeepFileVersions):
        return [key for key in group.keys if key < protected_from]
    first_input = facts.compaction_inputs.get(group.group)
    countable = [key for key in group.keys if first_input is None or key < first_input]
    versions = policy.count - (first_input is not None)
    return countable[: max(0, len(countable) - versions)]


def _needed_slices(
    group: _Group, facts: CleaningFacts, protected_from: str, *, lists_suffice: bool = False
) -> Iterator[tuple[str, str]]:
    """(key, reason) of the slices that no policy deletes. Of a replaced file group these are only the inputs of pending
    services, and those of savepoints. With `lists_suffice` a savepoint that lists files of the group needs no other:
    they have its rows."""
    keys, is_replaced = group.keys, group.group in facts.replaced
    if keys and not is_replaced:
        yield keys[-1], "it is in the newest file slice of its file group"
    first_input = facts.compaction_inputs.get(group.group)
    if first_input is not None:
        yield from ((key, "a pending compaction reads it") for key in keys if key >= first_input)
    clustering = facts.clustering_inputs.get(group.group)
    if clustering is not None:
        yield from ((key, "a pending clustering reads it") for key in [key for key in keys if key <= clustering][-1:])
    if protected_from and not is_replaced:
        before = [key for key in keys if key < protected_from]
        yield from ((key, "a reader needs it") for key in (*before[-1:], *keys[len(before) :]))
    replaced_by = facts.replaced.get(group.group)
    for saved, files in facts.savepoints.items():
        listed = [key for key, names in group.slices.items() if any((group.group[0], name) in files for name in names)]
        yield from ((key, "a savepoint protects its file slice") for key in listed)
        if (replaced_by is None or replaced_by > saved) and not (listed and lists_suffice):
            yield from ((key, "a savepoint needs its file slice") for key in [key for key in keys if key <= saved][-1:])


def _name(file: DataFile) -> str:
    return file.ref.path.rpartition("/")[2]
