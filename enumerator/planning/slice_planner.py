"""Plan the file slices that a query reads, as splits. Pure: the same table state gives the same plan, byte for byte."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Final

from penstock.enumerator.planning.file_inventory import LogContents, log_contents
from penstock.enumerator.planning.missing_files import (
    AvailableFiles,
    LaterEvidence,
    MissingFile,
    available_files,
    base_and_logs,
    later_evidence,
    only_base_file,
    only_file,
)
from penstock.enumerator.planning.row_lineage import Lineage, RowLineages, SliceRead
from penstock.enumerator.planning.scan import PlannedSplits, plan_of, refuse_unread_format
from penstock.enumerator.planning.selection import Selection, needs_lineage
from penstock.enumerator.planning.split_ids import slice_id
from penstock.enumerator.planning.table_state import TableState
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import Origin, RowLineage, Scan, Split
from penstock.proto.value_classes import dataclass
from penstock.table.files.names import LogName
from penstock.table.files.slices import (
    DataFile,
    GroupId,
    OrderedUpTo,
    View,
    VisibleFiles,
    group_files,
    instant_is_visible,
    slice_group,
)
from penstock.table.partitions.pruning import partition_pruning
from penstock.table.partitions.values import partition_values

_EXISTS: Final = attrgetter("listed")
_IS_NAMED: Final = attrgetter("named_by")


def plan_splits(state: TableState, *, tolerate_missing_logs: bool = False) -> PlannedSplits:
    """The plan of the state's request: one split for each file slice.

    The first selection whose files all exist is planned. PositionExpired or CorruptFile if every selection lacks a
    file; UnsupportedFeature for a file format or merge rules that this build lacks. With `tolerate_missing_logs`, log
    files that are missing although no clean removed them are left out.
    """
    missing: list[MissingFile] = []
    for selection in _alternatives(state):
        content = _choose(state, selection, tolerate_missing_logs=tolerate_missing_logs)
        if isinstance(content, MissingFile):
            missing.append(content)
            continue
        return plan_of(state, content)
    raise missing[0].error(state.facts.table)


@dataclass(frozen=True, slots=True)
class _ChosenSlices:
    """The slices that a selection reads."""

    selection: Selection
    base_files: Sequence[DataFile]
    """Those of groups that consist of one base file, as most groups of large tables. They have no entry in `slices`,
    which would take 170 bytes each."""
    slices: Mapping[GroupId, VisibleFiles]
    """The files of the other groups."""
    missing_logs: tuple[DataFile, ...]

    @property
    def partitions(self) -> Collection[str]:
        return {file.partition for file in self.base_files} | {partition for partition, _ in self.slices}

    @property
    def has_logs(self) -> bool:
        return any(files.logs for files in self.slices.values())

    def splits(self, state: TableState, scan: Scan, scope: str) -> list[Split]:
        """One split for each slice whose partition the filter does not exclude."""
        pruning = (
            partition_pruning(state.properties, state.schema.arrow, state.request.row_filter)
            if scan.partition_fields
            else None
        )
        dropped = {name for name in self.partitions if pruning.drops(name)} if pruning is not None else ()
        with_logs = (files for group, files in self.slices.items() if group[0] not in dropped)
        contents = log_contents(state.facts, _readable_logs(state, self.selection, with_logs))
        builder = _SplitBuilder(state, scan, scope, contents)
        lineages = RowLineages(state, self.selection)
        order_keys = self.selection.groups or {}
        return [
            builder.split(lineages.lineage_of(group, files), order_keys.get(group))
            for group, files in self._groups()
            if group[0] not in dropped
        ]

    def _groups(self) -> Iterator[tuple[GroupId, VisibleFiles]]:
        for file in self.base_files:
            yield file.group, only_file(file)
        yield from self.slices.items()


def _alternatives(state: TableState) -> list[Selection]:
    """The selections in order of preference.

    Once the cleaner has begun to remove files that the range's own instants wrote, the view that includes later
    services comes first: the cleaner removes the newest files with the same rows last.
    """
    instants = state.selections[0].instants
    cleaning = any(file.named_by in instants and not file.listed for file in state.files)
    return sorted(state.selections, key=lambda selection: cleaning and not _includes_services(selection))


def _includes_services(selection: Selection) -> bool:
    return isinstance(selection.view, OrderedUpTo) and bool(selection.view.services)


def _choose(state: TableState, selection: Selection, *, tolerate_missing_logs: bool) -> _ChosenSlices | MissingFile:
    """The slice of each selected group that is not replaced and has visible files, sorted by group."""
    evidence_of_view = later_evidence(state.facts, selection.view, state.committed)
    evidences: dict[View, LaterEvidence] = {}
    by_group = group_files(state.files)
    replaced, pending = _replaced_groups(state, selection), state.pending_compactions
    base_files: list[DataFile] = []
    chosen: dict[GroupId, VisibleFiles] = {}
    missing_logs: list[DataFile] = []
    for group in sorted(_candidates(by_group, selection, evidence_of_view)):
        if group in replaced or group[0] in state.pruned:
            continue
        view = selection.view_of(group)
        evidence = evidence_of_view if view is selection.view else evidences.get(view)
        if evidence is None:
            evidence = evidences[view] = later_evidence(state.facts, view, state.committed)
        files = by_group.pop(group, [])
        only = None if group in pending else only_base_file(group, files, evidence)
        if only is not None:
            base_files.append(only)
            continue
        merged_files = None if group in pending or selection.base_files_only else base_and_logs(group, files, evidence)
        if merged_files is not None:
            chosen[group] = merged_files
            continue
        if not any(map(_EXISTS, files)) and group not in evidence.replaced and not any(map(_IS_NAMED, files)):
            continue  # all its files were cleaned and no active instant replaced it: an archived instant did
        slices = slice_group(files, pending.get(group, ()), state.committed)
        available = available_files(
            group,
            slices,
            evidence,
            state.cleaned,
            base_files_only=selection.base_files_only,
            tolerate_missing_logs=tolerate_missing_logs,
        )
        if not isinstance(available, AvailableFiles):
            return available
        missing_logs += available.missing_logs
        if available.files is not None:
            chosen[group] = available.files
    return _ChosenSlices(selection, base_files, chosen, tuple(missing_logs))


def _candidates(by_group: Iterable[GroupId], selection: Selection, evidence: LaterEvidence) -> Iterable[GroupId]:
    """The groups that the selection may read, each once, in the order of the files: then they are sorted quickly."""
    if selection.groups is not None:
        return selection.groups
    later = {*evidence.built_on, *evidence.replaced}
    return [*by_group, *later.difference(by_group)]


def _replaced_groups(state: TableState, selection: Selection) -> set[GroupId]:
    """Groups that an instant in the view replaced: insert_overwrite, delete_partition, clustering."""
    return {
        group
        for requested_time, commit in state.facts.commits.items()
        if commit.replaced and instant_is_visible(requested_time, selection.view, state.committed)
        for group in commit.replaced
    }


def _newest_key(state: TableState, files: VisibleFiles) -> InstantTime:
    base, order_key = files.base, state.committed.order_key
    if base is not None and not files.logs:
        key = order_key(base.name.instant)
    else:
        key = max([order_key(file.name.instant) for file in files.files])
    return key if isinstance(key, InstantTime) else InstantTime(key)


def _readable_logs(state: TableState, selection: Selection, slices: Iterable[VisibleFiles]) -> list[DataFile]:
    """The logs that may be read: those of the slices; all logs if the plan needs row lineage."""
    if needs_lineage(selection):
        return [file for file in state.files if isinstance(file.name, LogName)]
    return [log for files in slices for log in files.logs]


@dataclass(frozen=True, slots=True)
class _SplitBuilder:
    """Makes the splits of a scan."""

    state: TableState
    scan: Scan
    scope: str
    contents: LogContents
    values: dict[str, tuple[str | None, ...]] = field(default_factory=dict)

    def split(self, item: SliceRead, order_key: InstantTime | None = None) -> Split:
        """The split of one slice. Without an order key it gets the key of its newest file."""
        partition, file_id = item.group
        base = item.files.base
        of_base = None if base is None else base.ref
        if base is not None:
            refuse_unread_format(self.state, base)
        logs = tuple([self.contents.ref(log) for log in item.files.logs]) if item.files.logs else ()
        sharing = self.scan.visible if self.state.properties.layout == 1 else None
        values = self.values.get(partition)
        if values is None:
            values = self.values[partition] = partition_values(partition, self.scan.partition_fields) or ()
        return Split(
            split_id=slice_id(self.scope, item.group, of_base, logs, item.exclusions, sharing=sharing),
            partition=partition,
            partition_values=values,
            file_group=file_id,
            order_key=order_key or _newest_key(self.state, item.files),
            base=of_base,
            base_instant="" if base is None else base.name.instant,
            logs=logs,
            ancestry=None if item.lineage is None else self._row_lineage(item.lineage),
            left_out=item.exclusions,
        )

    def _row_lineage(self, lineage: Lineage) -> RowLineage:
        origins = (Origin(item.service, tuple(map(self.split, item.slices))) for item in lineage.origins)
        return RowLineage(inside=lineage.inside, outside=lineage.outside, origins=tuple(origins))
