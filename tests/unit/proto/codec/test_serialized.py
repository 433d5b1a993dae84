"""Every value survives the wire, equal values give equal bytes, old bytes decode for ever, bad bytes are refused."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.proto.codec import plan_calls as calls
from penstock.proto.codec.checks import MAX_PATH_CHARS, position_from_message, position_to_message
from penstock.proto.codec.serialized import (
    decode_scan,
    decode_split,
    encode_scan,
    encode_split,
)
from penstock.proto.codec.splits import scan_to_message, split_to_message
from penstock.proto.errors import ConfigurationError, StateVersionError
from penstock.proto.model.changes import (
    ChangeFormat,
    ChangesOf,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.completion import CompletionTimes
from penstock.proto.model.files import SliceFiles
from penstock.proto.model.hybrid import HybridMode, KafkaRange, TopicRecords, ValueFormat
from penstock.proto.model.positions import EARLIEST, WHOLE_INSTANT, CommitRange, InstantTime, Position
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
    EndOfSlot,
    MergeOutcomes,
    NextSplit,
    OpenedPlan,
    SplitReport,
    TableDescription,
)
from penstock.proto.model.splits import (
    FORMAT_VERSION,
    AllRows,
    CommitTimeOrdering,
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
from penstock.proto.v1 import penstock_pb2 as pb
from tests.plan_bytes import decode_plan, encode_plan

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "proto"

# --- strategies: every value the classes allow and the codec's bounds admit ---

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
    | st.builds(EventTimeOrdering, st.tuples(names), st.booleans(), st.booleans()),
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
    return draw(st.sampled_from([Snapshot(), SnapshotAsOf(draw(instants)), ReadOptimized(), part, *incremental]))


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


# --- round trips ---


@given(splits())
def test_split_round_trips(split: Split) -> None:
    assert decode_split(encode_split(split)) == split


def test_ancestors_are_bounded() -> None:
    split = LOG_ONLY_SPLIT_1
    for number in range(11):
        origin = Origin(InstantTime("20260101000000000"), (split,))
        split = replace(split, split_id=f"s{number}", ancestry=RowLineage(origins=(origin,)))
    with pytest.raises(ConfigurationError, match="`ancestry`"):
        decode_split(encode_split(split))


@given(scans)
def test_scan_round_trips(scan: Scan) -> None:
    assert decode_scan(encode_scan(scan)) == scan


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_plan_round_trips(plan: Plan) -> None:
    assert decode_plan(encode_plan(plan)) == plan


@given(positions)
def test_position_round_trips(position: Position) -> None:
    assert position_from_message("test", "position", position_to_message(position)) == position


@given(requests)
def test_plan_request_round_trips(request: PlanRequest) -> None:
    assert calls.request_from_message(calls.request_to_message(request)) == request


@given(descriptions)
def test_description_round_trips(description: TableDescription) -> None:
    assert calls.description_from_message(calls.description_to_message(description)) == description


@given(names, st.none() | positions, counts)
def test_newest_request_round_trips(table: str, after: Position | None, max_commits: int) -> None:
    message = calls.newest_to_message(table, after, max_commits)
    assert calls.newest_from_message(message) == (table, after, max_commits)


@given(scans, names, st.integers(1, 1000), st.integers(0, 1000), sizes)
def test_opened_plan_round_trips(scan: Scan, plan_id: str, slots: int, more: int, size_bytes: int) -> None:
    opened = OpenedPlan(plan_id=plan_id, slots=slots, splits=slots + more, size_bytes=size_bytes, scan=scan)
    assert calls.opened_from_message(calls.opened_to_message(opened)) == opened


@given(st.builds(NextSplit, splits()) | st.just(EndOfSlot()))
def test_answer_round_trips(answer: NextSplit | EndOfSlot) -> None:
    assert calls.answer_from_message(calls.answer_to_message(answer)) == answer


@given(reports)
def test_report_round_trips(report: SplitReport) -> None:
    message = pb.FinishSplitRequest(plan_id="p", report=calls.report_to_message(report))
    assert calls.report_from_message(message) == report


def test_equal_values_give_equal_bytes_whatever_the_order_of_their_sets() -> None:
    times = [InstantTime(f"2026010100000{n}000") for n in range(10)]
    one = _scan(visible=VisibleInstants(frozenset(times)), rows=RowsOf(frozenset(times)))
    other = _scan(visible=VisibleInstants(frozenset(times[::-1])), rows=RowsOf(frozenset(times[::-1])))
    assert encode_scan(one) == encode_scan(other)
    assert list(scan_to_message(one).visible.members) == sorted(times)


# --- frozen bytes ---


def _scan(**changes: object) -> Scan:
    arguments = {
        "table": "trips",
        "base_path": "s3://lake/trips",
        "table_version": 9,
        "schema_json": '{"type":"record","name":"trips","fields":[{"name":"id","type":"string"}]}',
        "columns": ("_hoodie_commit_time", "id", "städte"),
        "merge": EventTimeOrdering(("ts", "seq")),
        "visible": VisibleInstants(frozenset({InstantTime("20260101000000000"), InstantTime("20260102000000000")})),
    }
    return Scan(**{**arguments, **changes})  # type: ignore[arg-type]


SPLIT_1 = Split(
    split_id="20260102000000000:part=a/b:fg-1:0-2",
    partition="part=a/day=2026-01-01",
    partition_values=("a", None),
    file_group="fg-1",
    order_key=InstantTime("20260102000000000"),
    base=FileRef("part=a/day=2026-01-01/fg-1_0-1-1_20260101000000000.parquet", 435_678),
    base_instant="20260101000000000",
    part=RowGroupRun(0, 2),
    event_time=EventTimeBounds(-5, 1_767_225_600_000_000),
)
LOG_ONLY_SPLIT_1 = Split(
    split_id="s2",
    partition="",
    partition_values=("", "ü"),
    file_group="fg-2",
    order_key=InstantTime("20260103"),
    base=None,
    logs=(FileRef(".fg-2_20260103.log.1_0-1-1", 10), FileRef(".fg-2_20260103.log.2_0-1-1", 0)),
)
LOG_WRITES_SPLIT_2 = replace(
    LOG_ONLY_SPLIT_1,
    logs=(
        FileRef(".fg-2_20260103.log.1_0-1-1", 10, (LogWrite(InstantTime("20260103"), 7, 2),)),
        FileRef(".fg-2_20260103.log.2_0-1-1", 0, ()),
        FileRef(".fg-2_20260103.log.3_0-1-1", 5, None),
    ),
)
SCAN_1 = _scan(
    where="id > 'a'",
    visible=VisibleInstants(
        frozenset({InstantTime("20260102000000000"), InstantTime("20260101000000000")}),
        archived_before="20251231000000000",
        not_after="20260103000000000",
    ),
    rows=RowsOf(frozenset({InstantTime("20260102000000000")})),
    partition_fields=("part", "day"),
)
SNAPSHOT_SCAN_1 = _scan(merge=CommitTimeOrdering(), partition_fields=("part", "day"))
SKIPPING_SCAN_2 = _scan(skip_corrupt=True)
PLAN_1 = Plan(
    scan=SNAPSHOT_SCAN_1,
    commit_range=CommitRange(EARLIEST, Position(InstantTime("20260103000000000"), 7)),
    splits=(SPLIT_1, LOG_ONLY_SPLIT_1),
)

STATE = SliceFiles(SPLIT_1.base, "20260101000000000", (FileRef(".fg-1_20260102000000000.log.1_0-1-1", 10),))
SPLIT_3 = replace(
    SPLIT_1,
    base=None,
    base_instant="",
    event_time=UnknownBounds(),
    part=GroupChanges(
        (
            ChangeStep(
                instant=InstantTime("20260101000000000"),
                order_key=InstantTime("20260101000009000"),
                place=3,
                source=LoggedImages((FileRef(".fg-1_0.log.1_0-1-1.cdc", 7),), STATE, None, ("id",)),
            ),
            ChangeStep(
                instant=InstantTime("20260102000000000"),
                order_key=InstantTime("20260102000009000"),
                place=0,
                source=ComparedStates(None, STATE),
            ),
            ChangeStep(
                instant=InstantTime("20260103000000000"),
                order_key=InstantTime("20260103000009000"),
                place=1,
                source=StoredKinds(STATE),
            ),
        )
    ),
)
SCAN_3 = _scan(
    rows=ChangesOf(ChangeFormat.ROWS, (InstantTime("20260102000000000"), InstantTime("20260101000000000"))),
    partition_fields=("part", "day"),
)
PLAN_3 = Plan(scan=SCAN_3, commit_range=PLAN_1.commit_range, splits=(SPLIT_3,))
SPLIT_4 = replace(
    SPLIT_1,
    left_out=Exclusions(
        rows=frozenset({InstantTime("20260102000000000")}),
        some_rows=frozenset({InstantTime("20260101000000000"), InstantTime("20260103000000000")}),
        blocks=frozenset({InstantTime("20260104000000000")}),
    ),
)
NO_TIMES_SPLIT_4 = replace(LOG_ONLY_SPLIT_1, event_time=NoEventTimes())
SCAN_4 = SCAN_1
PLAN_4 = replace(PLAN_1, splits=(SPLIT_4, LOG_ONLY_SPLIT_1))
SPLIT_5 = Split(
    split_id="orders:2:17",
    partition="",
    partition_values=(),
    file_group="orders:2",
    order_key=InstantTime("990000000000000000000018"),
    base=None,
    part=KafkaRange(topic="orders", topic_id="H0f_tVwXQEO4Zr8mSsgGAg", partition=2, first=17, end=2**40),
    event_time=EventTimeBounds(-5, 1_767_225_600_000_000),
)
SCAN_5 = _scan(
    rows=ChangesOf(ChangeFormat.ROWS, ()),
    topic=TopicRecords(mode=HybridMode.CHANGELOG, value_format=ValueFormat.DEBEZIUM_AVRO, key_fields=("id", "städte")),
)
PLAN_5 = Plan(
    scan=SCAN_5,
    commit_range=CommitRange(
        Position(InstantTime("20260103000000000"), 7), Position(InstantTime("990000000000000000000018"))
    ),
    splits=(SPLIT_5,),
)
SPLIT_4, SCAN_4, NO_TIMES_SPLIT_4 = (replace(value, format_version=4) for value in (SPLIT_4, SCAN_4, NO_TIMES_SPLIT_4))
PLAN_4 = replace(
    PLAN_4,
    format_version=4,
    scan=replace(SNAPSHOT_SCAN_1, format_version=4),
    splits=(SPLIT_4, replace(LOG_ONLY_SPLIT_1, format_version=4)),
)
SPLIT_3, SCAN_3 = (replace(value, format_version=3) for value in (SPLIT_3, SCAN_3))
PLAN_3 = replace(PLAN_3, format_version=3, scan=SCAN_3, splits=(SPLIT_3,))
SPLIT_2, SCAN_2 = (replace(value, format_version=2) for value in (SPLIT_1, SCAN_1))
PLAN_2 = replace(
    PLAN_1,
    format_version=2,
    scan=replace(SNAPSHOT_SCAN_1, format_version=2),
    splits=(SPLIT_2, replace(LOG_ONLY_SPLIT_1, format_version=2)),
)
LOG_WRITES_SPLIT_2, SKIPPING_SCAN_2 = (
    replace(value, format_version=2) for value in (LOG_WRITES_SPLIT_2, SKIPPING_SCAN_2)
)
SPLIT_1, LOG_ONLY_SPLIT_1, SCAN_1, SNAPSHOT_SCAN_1 = (
    replace(value, format_version=1) for value in (SPLIT_1, LOG_ONLY_SPLIT_1, SCAN_1, SNAPSHOT_SCAN_1)
)
PLAN_1 = replace(PLAN_1, format_version=1, scan=SNAPSHOT_SCAN_1, splits=(SPLIT_1, LOG_ONLY_SPLIT_1))
MERGE_SCAN_2 = _scan(
    format_version=2,
    merge=EventTimeOrdering(("_event_seq",), dotted_numbers=True, deletes_win=True),
    delete_marker=DeleteMarker("op", "D"),
    fill=FillMarked("__unavailable", from_newer=True),
)

FROZEN: dict[str, tuple[object, Callable[[bytes], object]]] = {
    "split.v1": (SPLIT_1, decode_split),
    "split-log-only.v1": (LOG_ONLY_SPLIT_1, decode_split),
    "split-log-writes.v2": (LOG_WRITES_SPLIT_2, decode_split),
    "scan.v1": (SCAN_1, decode_scan),
    "scan-skip-corrupt.v2": (SKIPPING_SCAN_2, decode_scan),
    "scan-snapshot.v1": (SNAPSHOT_SCAN_1, decode_scan),
    "plan.v1": (PLAN_1, decode_plan),
    "split.v2": (SPLIT_2, decode_split),
    "scan.v2": (SCAN_2, decode_scan),
    "scan-merge.v2": (MERGE_SCAN_2, decode_scan),
    "plan.v2": (PLAN_2, decode_plan),
    "split.v3": (SPLIT_3, decode_split),
    "scan.v3": (SCAN_3, decode_scan),
    "plan.v3": (PLAN_3, decode_plan),
    "split.v4": (SPLIT_4, decode_split),
    "split-no-event-times.v4": (NO_TIMES_SPLIT_4, decode_split),
    "scan.v4": (SCAN_4, decode_scan),
    "plan.v4": (PLAN_4, decode_plan),
    "split.v5": (SPLIT_5, decode_split),
    "scan.v5": (SCAN_5, decode_scan),
    "plan.v5": (PLAN_5, decode_plan),
}
"""File name -> the value its bytes must give, for ever. tests/fixtures/proto/README.md says how to add one."""


@pytest.mark.parametrize("name", FROZEN)
def test_bytes_that_were_ever_written_still_decode(name: str) -> None:
    value, decode = FROZEN[name]
    assert decode((FIXTURES / f"{name}.bin").read_bytes()) == value


@pytest.mark.parametrize("name", [name for name in FROZEN if name.endswith(f".v{FORMAT_VERSION}")])
def test_this_version_writes_the_frozen_bytes(name: str) -> None:
    value, _ = FROZEN[name]
    match value:
        case Split():
            data = encode_split(value)
        case Scan():
            data = encode_scan(value)
        case Plan():
            data = encode_plan(value)
    assert data == (FIXTURES / f"{name}.bin").read_bytes()


def test_every_version_and_every_fixture_is_covered() -> None:
    assert {file.stem for file in FIXTURES.glob("*.bin")} == set(FROZEN)
    for kind in ("split", "scan", "plan"):
        for version in range(1, FORMAT_VERSION + 1):
            assert f"{kind}.v{version}" in FROZEN


def test_fields_that_a_later_build_adds_are_ignored() -> None:
    later = b"\xa2\x06\x03new"  # field 100, three bytes
    assert decode_split(encode_split(SPLIT_1) + later) == SPLIT_1


# --- refusals ---


@pytest.mark.parametrize("version", [0, FORMAT_VERSION + 1, 4_000_000_000])
def test_unknown_format_version_is_refused_by_name_with_both_numbers(version: int) -> None:
    split, scan = split_to_message(SPLIT_1), scan_to_message(SCAN_1)
    split.format_version = scan.format_version = version
    plan = pb.Plan(format_version=version, scan=scan_to_message(SNAPSHOT_SCAN_1))
    for what, refused in (
        ("split", lambda: decode_split(split.SerializeToString())),
        ("scan", lambda: decode_scan(scan.SerializeToString())),
        ("plan", lambda: decode_plan(plan.SerializeToString())),
    ):
        with pytest.raises(StateVersionError, match=f"{what}.* has format version {version}; .* 1 to {FORMAT_VERSION}"):
            refused()


def test_unknown_version_inside_a_plan_is_refused() -> None:
    message = pb.Plan.FromString(encode_plan(PLAN_1))
    message.splits[1].format_version = FORMAT_VERSION + 1
    with pytest.raises(StateVersionError, match="split 's2'"):
        decode_plan(message.SerializeToString())


def _no_files(m: pb.Split) -> None:
    m.ClearField("base")
    m.ClearField("row_groups")


BAD_SPLITS: dict[str, tuple[Callable[[pb.Split], object], str]] = {
    "no id": (lambda m: m.ClearField("split_id"), "`split_id`: got nothing"),
    "long id": (lambda m: setattr(m, "split_id", "x" * 1025), "`split_id`: got 1025 characters, expected at most 1024"),
    "no file at all": (_no_files, "neither a base file nor a log file"),
    "no path": (lambda m: m.base.ClearField("path"), r"`base\.path`: got nothing"),
    "long path": (lambda m: setattr(m.base, "path", "x" * (MAX_PATH_CHARS + 1)), r"`base\.path`: got 4097"),
    "huge size": (lambda m: setattr(m.base, "size_bytes", 2**63), r"`base\.size_bytes`: got 9223372036854775808"),
    "order key": (lambda m: setattr(m, "order_key", "now"), "`order_key`: got 'now', expected 1 to 24 digits"),
    "no order key": (lambda m: m.ClearField("order_key"), "`order_key`: got ''"),
    "base instant": (lambda m: setattr(m, "base_instant", "../x"), "`base_instant`"),
    "empty run": (lambda m: setattr(m.row_groups, "end", 0), "`row_groups`: got 0 to 0"),
    "run with logs": (lambda m: m.logs.add(path="l"), "none unless the split is a base file alone"),
    "write": (lambda m: m.base.writes.writes.add(instant="x"), r"`base\.writes`: got 'x'"),
    "rows": (
        lambda m: m.base.writes.writes.add(instant="1", data_rows=2**63),
        r"`base\.writes`: got 9223372036854775808",
    ),
    "bounds": (lambda m: setattr(m.event_time, "max_us", -6), "`event_time`: got -5 to -6"),
    "bounds and none": (lambda m: m.no_event_times.SetInParent(), "`no_event_times`: got bounds beside it"),
    "values": (lambda m: m.partition_values.extend([pb.PartitionValue()] * 1001), "1003 entries, expected at most"),
}


@pytest.mark.parametrize("case", BAD_SPLITS)
def test_split_that_cannot_be_is_refused_naming_the_field(case: str) -> None:
    damage, message = BAD_SPLITS[case]
    split = split_to_message(SPLIT_1)
    damage(split)
    with pytest.raises(ConfigurationError, match=message):
        decode_split(split.SerializeToString())


BAD_SCANS: dict[str, tuple[Callable[[pb.Scan], object], str]] = {
    "no merge mode": (lambda m: m.ClearField("event_time"), "`merge`"),
    "no columns": (lambda m: m.ClearField("columns"), "`columns`"),
    "empty column": (lambda m: m.columns.append(""), "`columns`: got nothing"),
    "no visible instants": (lambda m: m.ClearField("visible"), "`visible`"),
    "member": (lambda m: m.visible.members.append("x"), r"`visible\.members`: got 'x'"),
    "not after": (lambda m: m.visible.ClearField("not_after"), r"`visible\.not_after`"),
    "rows": (lambda m: m.rows.instants.append("-1"), "`rows`"),
    "no schema": (lambda m: m.ClearField("schema_json"), "`schema_json`"),
    "where": (lambda m: setattr(m, "where", "x" * 70_000), "`where`: got 70000 characters"),
    "dotted": (lambda m: setattr(m.event_time, "dotted_numbers", True), "`dotted_numbers`: got 2 ordering fields"),
    "delete marker": (lambda m: m.delete_marker.SetInParent(), r"`delete_marker\.field`: got nothing"),
    "fill marker": (lambda m: m.fill_marked.SetInParent(), r"`fill_marked\.marker`: got nothing"),
}


@pytest.mark.parametrize("case", BAD_SCANS)
def test_scan_that_cannot_be_is_refused_naming_the_field(case: str) -> None:
    damage, message = BAD_SCANS[case]
    scan = scan_to_message(SCAN_1)
    damage(scan)
    with pytest.raises(ConfigurationError, match=message):
        decode_scan(scan.SerializeToString())


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_an_error_of_the_tree(data: bytes) -> None:
    for decode in (decode_split, decode_scan, decode_plan):
        try:
            decode(data)
        except (ConfigurationError, StateVersionError) as error:
            assert str(error)


@given(st.data())
def test_mutated_bytes_give_a_value_or_an_error_of_the_tree(data: st.DataObject) -> None:
    good = bytearray(encode_plan(PLAN_1))
    for _ in range(data.draw(st.integers(1, 4))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_plan(bytes(good))
    except (ConfigurationError, StateVersionError) as error:
        assert str(error)


def test_request_without_a_known_query_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`query`: got no query kind that this build knows"):
        calls.request_from_message(pb.OpenPlanRequest(table="t"))


def test_range_without_its_start_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"`incremental\.after`"):
        calls.request_from_message(pb.OpenPlanRequest(table="t", incremental=pb.Incremental()))


GOOD_PART = SnapshotPart(at=Position(InstantTime("20260101")), first=2, end=5, digest="00ff", changes=ChangeFormat.ROWS)
BAD_PARTS: dict[str, tuple[Callable[[pb.SnapshotPart], object], str]] = {
    "no position": (lambda m: m.ClearField("at"), r"`snapshot_part\.at`: got nothing"),
    "position": (lambda m: setattr(m.at, "order_key", "now"), r"`snapshot_part\.at`: got 'now'"),
    "backwards": (lambda m: setattr(m, "first", 6), r"`snapshot_part\.first`: got 6, expected 0 to 5"),
    "too many": (lambda m: setattr(m, "end", 2_000_001), r"`snapshot_part\.end`: got 2000001, expected 0 to 2000000"),
    "no digest": (lambda m: m.ClearField("digest"), r"`snapshot_part\.digest`: got ''"),
    "long digest": (lambda m: setattr(m, "digest", "0" * 129), r"`snapshot_part\.digest`: got '0+', expected 1 to 128"),
    "digest": (lambda m: setattr(m, "digest", "../x"), r"`snapshot_part\.digest`: got '\.\./x'"),
    "other digits": (lambda m: setattr(m, "digest", "٣"), r"`snapshot_part\.digest`"),
    "line end": (lambda m: setattr(m, "digest", "00\n"), r"`snapshot_part\.digest`"),
    "changes": (lambda m: setattr(m, "changes", "avro"), "`format`: got 'avro', expected rows or hudi"),
}


@pytest.mark.parametrize("case", BAD_PARTS)
def test_invalid_part_of_a_snapshot_is_refused_by_field(case: str) -> None:
    damage, reported = BAD_PARTS[case]
    message = calls.request_to_message(PlanRequest(table="t", query=GOOD_PART))
    assert calls.request_from_message(message).query == GOOD_PART
    damage(message.snapshot_part)
    with pytest.raises(ConfigurationError, match=reported):
        calls.request_from_message(message)


@pytest.mark.parametrize("first", [-1, 2**32])
def test_part_that_no_message_can_hold_is_an_error_of_the_tree(first: int) -> None:
    with pytest.raises(ConfigurationError, match="plan request for table 't' cannot be encoded"):
        calls.request_to_message(PlanRequest(table="t", query=replace(GOOD_PART, first=first)))


@pytest.mark.parametrize("unit", ["ns", "S", " ", "ms "])
def test_unit_of_event_times_that_is_not_known_is_refused(unit: str) -> None:
    message = calls.request_to_message(PlanRequest(table="t", query=Snapshot(), event_time_unit=unit))
    with pytest.raises(ConfigurationError, match=r"`event_time_unit`: got '.*', expected nothing, s, ms, us"):
        calls.request_from_message(message)


def test_split_without_event_times_is_unknown_bounds_to_an_older_reader() -> None:
    split = replace(LOG_ONLY_SPLIT_1, event_time=NoEventTimes())
    data = encode_split(split)
    assert decode_split(data) == split
    older = encode_split(LOG_ONLY_SPLIT_1)
    assert data == older + b"\xa2\x02\x00"  # field 36, nothing in it: an older build leaves it out
    assert decode_split(older).event_time == UnknownBounds()


def test_request_without_a_split_size_gets_the_default() -> None:
    request = calls.request_from_message(pb.OpenPlanRequest(table="t", snapshot=pb.Snapshot()))
    assert request == PlanRequest(table="t", query=Snapshot())


def test_answer_without_split_or_end_is_not_the_end_of_the_slot() -> None:
    with pytest.raises(ConfigurationError, match="`answer`"):
        calls.answer_from_message(pb.NextSplitResponse())


@pytest.mark.parametrize("slots", [0, 3])
def test_opened_plan_with_impossible_slots_is_refused(slots: int) -> None:
    opened = OpenedPlan(plan_id="p", slots=slots, splits=2, size_bytes=1, scan=SCAN_1)
    with pytest.raises(ConfigurationError, match=f"got {slots} for 2 splits"):
        calls.opened_from_message(calls.opened_to_message(opened))


@pytest.mark.parametrize("spent_ms", [float("nan"), float("inf"), -1.0])
def test_phase_that_is_no_duration_is_refused(spent_ms: float) -> None:
    report = pb.SplitReport(phase_ms={"merge": spent_ms})
    with pytest.raises(ConfigurationError, match=r"`phase_ms\[merge\]`"):
        calls.report_from_message(pb.FinishSplitRequest(plan_id="p", report=report))


def test_more_counts_than_a_report_can_have_are_refused() -> None:
    report = pb.SplitReport(counts={f"n{number}": 1 for number in range(65)})
    with pytest.raises(ConfigurationError, match="`counts`: got 65 names"):
        calls.report_from_message(pb.FinishSplitRequest(plan_id="p", report=report))
    remaining = calls.report_from_message(
        pb.FinishSplitRequest(plan_id="p", report=pb.SplitReport(counts={"b": 2, "a": 1, "none": 0}))
    )
    assert remaining.counts == (("a", 1), ("b", 2))


def test_value_that_no_message_can_hold_is_an_error_of_the_tree() -> None:
    with pytest.raises(ConfigurationError, match="split 's' cannot be encoded"):
        encode_split(
            Split(
                split_id="s",
                partition="\ud800",
                partition_values=(),
                file_group="f",
                order_key=InstantTime("1"),
                base=FileRef("f", 1),
            )
        )
