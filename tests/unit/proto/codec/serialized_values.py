"""Strategies: every value that the classes of the contract allow and the bounds of the codec admit."""

from __future__ import annotations

from hypothesis import strategies as st

from penstock.proto.model.changes import (
    ChangeFormat,
)
from penstock.proto.model.positions import WHOLE_INSTANT, CommitRange, CompletionTimes, InstantTime, Position
from penstock.proto.model.queries import (
    Changes,
    Incremental,
    Latest,
    PlanRequest,
    Query,
    ReadOptimized,
    Snapshot,
    SnapshotAsOf,
    SnapshotPart,
)
from penstock.proto.model.reports import (
    MergeOutcomes,
    SplitReport,
    TableDescription,
)
from penstock.proto.model.splits import (
    AllRows,
    CommitTimeOrdering,
    CustomMerge,
    DeleteMarker,
    EventTimeBounds,
    EventTimeOrdering,
    Exclusions,
    FileRef,
    FillDefaults,
    FillMarked,
    FillNulls,
    LogWrite,
    NoEventTimes,
    Origin,
    Plan,
    RowGroupRun,
    RowLineage,
    RowsOf,
    Scan,
    Split,
    UnknownBounds,
    VisibleInstants,
    WholeFile,
    WholeRecords,
)

sizes = st.integers(0, 2**63 - 1)


counts = st.integers(0, 2**31 - 1)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


instants = st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime)


positions = st.builds(Position, instants, st.integers(0, WHOLE_INSTANT))


int64 = st.integers(-(2**63), 2**63 - 1)


files = st.builds(FileRef, names, sizes)


log_files = st.builds(
    FileRef, names, sizes, st.none() | st.lists(st.builds(LogWrite, instants, sizes, sizes), max_size=3).map(tuple)
)


@st.composite
def ranges(draw: st.DrawFn) -> CommitRange:
    """Two positions in order."""
    return CommitRange(*sorted([draw(positions), draw(positions)]))


digests = st.from_regex(r"[0-9a-f]{1,128}", fullmatch=True)


instant_sets = st.frozensets(instants, max_size=2)


@st.composite
def splits(draw: st.DrawFn, partition_fields: int | None = None, depth: int = 0) -> Split:
    """A slice with or without base, logs, row groups, bounds, ancestry."""
    base = draw(st.none() | files)
    logs = tuple(draw(st.lists(log_files, min_size=0 if base else 1, max_size=3)))
    run = st.builds(
        lambda first, length, size: RowGroupRun(first, first + length, size),
        st.integers(0, 999),
        st.integers(1, 999),
        st.integers(0, 2**40),
    )
    fields = draw(st.integers(0, 3)) if partition_fields is None else partition_fields
    bounds = st.lists(int64, min_size=2, max_size=2).map(lambda pair: EventTimeBounds(min(pair), max(pair)))
    return Split(
        split_id=draw(names),
        partition=draw(text),
        partition_values=tuple(draw(st.lists(st.none() | text, min_size=fields, max_size=fields))),
        file_group=draw(names),
        order_key=draw(instants),
        base=base,
        base_instant=draw(st.just("") | instants.map(str)),
        part=draw(st.just(WholeFile()) | run) if base and not logs else WholeFile(),
        logs=logs,
        event_time=draw(st.just(UnknownBounds()) | st.just(NoEventTimes()) | bounds),
        ancestry=draw(st.none() | ancestries(fields, depth + 1)) if depth < 2 else None,
        left_out=draw(
            st.none() | st.builds(Exclusions, rows=instant_sets, some_rows=instant_sets, blocks=instant_sets)
        ),
    )


def ancestries(fields: int, depth: int) -> st.SearchStrategy[RowLineage]:
    services = st.frozensets(instants, max_size=2)
    origins = st.builds(Origin, instants, st.lists(splits(fields, depth), max_size=2).map(tuple))
    return st.builds(RowLineage, inside=services, outside=services, origins=st.lists(origins, max_size=2).map(tuple))


completions = st.dictionaries(st.integers(1, 10**17 - 1), st.integers(-(2**53), 2**53), max_size=5).map(
    lambda times: CompletionTimes(tuple(sorted(times)), tuple(times[instant] for instant in sorted(times)))
)


scans = st.builds(
    Scan,
    table=names,
    base_path=names,
    table_version=counts,
    schema_json=names,
    columns=st.lists(names, min_size=1, max_size=4).map(tuple),
    where=text,
    merge=st.just(CommitTimeOrdering())
    | st.builds(EventTimeOrdering, st.lists(names, max_size=2).map(tuple), deletes_win=st.booleans())
    | st.builds(EventTimeOrdering, st.tuples(names), st.booleans(), st.booleans())
    | st.builds(CustomMerge, names, st.booleans(), st.lists(names, max_size=2).map(tuple)),
    visible=st.builds(
        VisibleInstants, st.frozensets(instants, max_size=5), st.just("") | instants.map(str), instants.map(str)
    ),
    rows=st.just(AllRows())
    | st.builds(RowsOf, st.frozensets(instants, max_size=5), st.frozensets(instants, max_size=3)),
    partition_fields=st.lists(names, max_size=3).map(tuple),
    delete_marker=st.none() | st.builds(DeleteMarker, names, names),
    fill=st.sampled_from([WholeRecords(), FillNulls(), FillDefaults(False), FillDefaults(True)])
    | st.builds(FillMarked, names, st.booleans()),
    skip_corrupt=st.booleans(),
    key_fields=st.lists(names, max_size=3).map(tuple),
    schema_history=text,
    keys_may_be_named=st.booleans(),
    completion_times=st.none() | completions,
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """A plan whose splits have distinct ids and as many partition values as the scan has fields."""
    scan = draw(scans)
    members = st.lists(splits(len(scan.partition_fields)), max_size=4, unique_by=lambda split: split.split_id)
    return Plan(scan=scan, commit_range=draw(ranges()), splits=tuple(draw(members)))


@st.composite
def queries(draw: st.DrawFn) -> Query:
    """Each kind."""
    span = draw(ranges())
    without = draw(st.frozensets(instants, max_size=2))
    incremental = [Incremental(span.after, span.upto, without), Incremental(span.after, Latest())]
    incremental.append(Changes(ChangeFormat.ROWS, span.after, span.upto, without))
    first, end = sorted([draw(st.integers(0, 2_000_000)), draw(st.integers(0, 2_000_000))])
    form = draw(st.none() | st.sampled_from(ChangeFormat))
    part = SnapshotPart(at=span.upto, first=first, end=end, digest=draw(digests), changes=form)
    return draw(
        st.sampled_from(
            [Snapshot(), SnapshotAsOf(draw(instants), draw(st.booleans())), ReadOptimized(), part, *incremental]
        )
    )


requests = st.builds(
    PlanRequest,
    table=names,
    query=queries(),
    columns=st.lists(names, max_size=3).map(tuple),
    where=text,
    slots=counts,
    event_time=text,
    event_time_unit=st.sampled_from(["", "s", "ms", "us"]),
    scan_event_time=st.booleans(),
    of_stream=st.text(max_size=20),
    target_split_bytes=st.integers(1, 2**63 - 1),
    metadata=st.booleans(),
    delete_marker=st.none() | st.builds(DeleteMarker, names, names),
    skip_corrupt=st.booleans(),
    columns_by_name=st.booleans(),
    meta=st.booleans(),
    completion_time=st.booleans(),
    timeline_timezone=text,
)


descriptions = st.builds(
    TableDescription,
    table=names,
    base_path=names,
    hudi_name=text,
    table_type=names,
    table_version=counts,
    timeline_layout=counts,
    timeline_timezone=text,
    merge_mode=text,
    record_key_fields=st.lists(names, max_size=3).map(tuple),
    partition_fields=st.lists(names, max_size=3).map(tuple),
    ordering_fields=st.lists(names, max_size=3).map(tuple),
    schema_json=text,
    newest=positions,
)


reports = st.builds(
    SplitReport,
    rows=sizes,
    size_bytes=sizes,
    phase_ms=st.dictionaries(names, st.floats(0, 1e9), max_size=5).map(lambda d: tuple(sorted(d.items()))),
    outcomes=st.builds(MergeOutcomes, won=sizes, lost_event_time=sizes, duplicate=sizes, deleted=sizes),
    max_event_time_us=st.none() | int64,
    skipped_gaps=sizes,
    skipped_bytes=sizes,
    pruned_row_groups=sizes,
    pruned_rows=sizes,
)
