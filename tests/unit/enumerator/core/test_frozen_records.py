"""Records written by each version of the core, which must decode to the same values forever.

To freeze another version: add its values under a new number, run this file as a script with that number, and commit
the file that it writes. Files are never changed.
"""

from __future__ import annotations

import json
import pathlib
import sys
from dataclasses import replace
from typing import get_args

import pytest

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.coordinator.held_plans import QUERY_KINDS
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.split_facts import facts_of, sizes_alone
from penstock.enumerator.core.stored.codec import (
    HYBRID_VERSION,
    TABLES_VERSION,
    VERSION,
    WATERMARK_VERSION,
    decode_record,
    encode_record,
)
from penstock.enumerator.core.writes import records as wr
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.store.protocol import StoredRecord
from penstock.proto.errors import StateDamaged, StateVersionError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.hybrid import (
    HandOverRules,
    Hybrid,
    HybridMode,
    KafkaPlace,
    PartitionPlace,
    Phase,
    ValueFormat,
)
from penstock.proto.model.positions import EARLIEST, CommitRange, InstantTime, Position
from penstock.proto.model.queries import Changes, PlanRequest, Query, RoundLimits
from penstock.proto.model.streams import (
    Alignment,
    EventTimeRule,
    SnapshotPlace,
    SnapshotProgress,
    Watermark,
    WatermarkFallback,
)
from penstock.proto.model.writes import TouchedGroups, WriteCommit, WriteEnd, WriteId, WriteSpec

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "state"

KEY = rec.GroupKey("städte", "g/1")
INSIDE = Position(InstantTime("20261120233746299"), 3)
PROGRESS = Progress(
    INSIDE,
    layout=2,
    consumed=frozenset({InstantTime("20261120233746001"), InstantTime("20261120233746002")}),
    ahead=frozenset({InstantTime("20261120233746002")}),
    table_id="städte",
)
REQUEST = PlanRequest(
    table="städte",
    query=Changes(ChangeFormat.ROWS),
    columns=("id",),
    where="id > 'ä'",
    target_split_bytes=256 << 20,
)
SCOPE = GroupScope(request=REQUEST, upto=INSIDE, on_lost_range=OnLostRange.EARLIEST)
HYBRID = Hybrid(
    mode=HybridMode.CHANGELOG,
    topic="staedte-1",
    value_format=ValueFormat.DEBEZIUM_JSON,
    rules=HandOverRules(checkpoints=(("w", "s3://lake/checkpoint"),)),
    fail_on_data_loss=False,
)
PLACE = KafkaPlace(
    phase=Phase.KAFKA,
    topic="staedte-1",
    topic_id="H0f_tVwXQEO4Zr8mSsgGAg",
    instant=InstantTime("20261120233746001"),
    lake=INSIDE,
    starts=((0, 17), (3, 0)),
    epochs=((0, 2),),
    places=(PartitionPlace(0, 2**40, -5, 9), PartitionPlace(3, 0)),
)
AFTER_HANDOVER = replace(PROGRESS, position=PLACE.position, kafka=PLACE)
SWITCHING = replace(PLACE, phase=Phase.SWITCHING, places=(PartitionPlace(0, 17), PartitionPlace(3, 0)), epochs=())

IN_SNAPSHOT = replace(
    PROGRESS,
    position=Position(EARLIEST.order_key, 3),
    snapshot=SnapshotProgress(INSIDE, SnapshotPlace(done=3, total=9, digest="0123456789abcdef" * 2)),
)
ALIGNMENT = Alignment(set="hours", max_drift_us=3_600_000_000, idle_timeout_us=60_000_000)
RULE = EventTimeRule(max_out_of_orderness_us=5, fallback=WatermarkFallback.COMMIT_TIME, timezone="Europe/Berlin")

FROZEN: dict[int, tuple[rec.Durable, ...]] = {
    1: (
        rec.NumbersUsed(7),
        rec.GroupCreated(
            key=KEY, number=3, scope=SCOPE, limits=RoundLimits(max_commits=1, max_rows=9), progress=PROGRESS
        ),
        rec.RoundPlanned(
            key=KEY,
            plan_id="r1",
            commit_range=CommitRange(EARLIEST, INSIDE),
            progress=PROGRESS,
            facts=facts_of([(10, "p", "a"), (2**40, "", "b")]),
            reshaped=frozenset({-5, 2**62}),
            commits=2,
        ),
        rec.ReaderJoined(key=KEY, reader_id="r", epoch=4, request_id="x"),
        rec.SplitsAssigned(key=KEY, reader_id="r", sequence=1, splits=(("r1", 0), ("r1", 1))),
        rec.SplitsCommitted(key=KEY, ordinals=(("r1", 1, 99),), finished=(("r1", 0),)),
        rec.ReaderGone(key=KEY, reader_id="r", cause=rec.Gone.EXPIRED),
        rec.GroupStopped(key=KEY, code="LATE_INSTANT", text="instant 5 is late"),
        rec.GroupMoved(key=KEY, number=5, progress=Progress(EARLIEST), cause=rec.Moved.RESET, before=INSIDE),
        rec.GroupEnded(key=KEY),
        rec.GroupDeleted(KEY),
        rec.PlanOpened(
            plan_id="p",
            request_id="q",
            table="städte",
            query=rec.PlanQuery(rec.QueryKind.SNAPSHOT),
            facts=sizes_alone([1, 2]),
            slots=2,
        ),
        rec.SlotsAsked("p", (0, 1, 0)),
        rec.PlansForgotten(("p",)),
    ),
    2: (
        rec.GroupCreated(
            key=KEY,
            number=4,
            scope=replace(SCOPE, request=replace(REQUEST, hybrid=HYBRID), upto=None),
            limits=RoundLimits(),
            progress=PROGRESS,
        ),
        rec.RoundPlanned(
            key=KEY,
            plan_id="r2",
            commit_range=CommitRange(INSIDE, AFTER_HANDOVER.position),
            progress=AFTER_HANDOVER,
            facts=facts_of([(10, "", "staedte-1:0")]),
            reshaped=frozenset(),
            commits=0,
        ),
        rec.GroupMoved(
            key=KEY,
            number=6,
            progress=replace(PROGRESS, position=SWITCHING.position, kafka=SWITCHING),
            cause=rec.Moved.RESET,
            before=INSIDE,
        ),
    ),
    3: (
        rec.GroupCreated(
            key=rec.GroupKey("st*", "g/1"),
            number=8,
            scope=replace(SCOPE, request=replace(REQUEST, table="st*"), over_tables=True),
            limits=RoundLimits(max_commits=3),
            progress=Progress(EARLIEST),
            principal="token:reader",
        ),
        rec.GroupCreated(
            key=KEY, number=9, scope=SCOPE, limits=RoundLimits(), progress=Progress(EARLIEST), at_newest=True
        ),
    ),
    4: (
        rec.GroupCreated(
            key=KEY,
            number=7,
            scope=replace(
                SCOPE, request=replace(REQUEST, event_time="zeit"), rule=RULE, idle_timeout_us=60_000_000, upto=None
            ),
            limits=RoundLimits(),
            progress=IN_SNAPSHOT,
        ),
        rec.RoundPlanned(
            key=KEY,
            plan_id="r3",
            commit_range=CommitRange(IN_SNAPSHOT.position, INSIDE),
            progress=PROGRESS,
            facts=facts_of(
                [(10, "p", "a"), (2, "p", "b"), (3, "", "c")],
                [EventTimeSpan(-5, 2**40), EventTimeSpan(), EventTimeSpan(is_unbounded=True)],
            ),
            commits=0,
            coming=EventTimeSpan(7, 2**50),
        ),
        rec.GroupMoved(key=KEY, number=8, progress=IN_SNAPSHOT, cause=rec.Moved.LOST_RANGE, before=INSIDE),
        rec.WatermarkMoved(key=KEY, watermark=Watermark(2**40, 2**50), coming=EventTimeSpan()),
        rec.WatermarkMoved(key=KEY, watermark=Watermark(), coming=rec.UNKNOWN_SPAN),
        rec.GroupCreated(
            key=KEY, number=10, scope=SCOPE, limits=RoundLimits(), progress=Progress(EARLIEST), at_snapshot=True
        ),
        rec.GroupCreated(
            key=KEY,
            number=11,
            scope=replace(SCOPE, request=replace(REQUEST, event_time="zeit"), rule=RULE, alignment=ALIGNMENT),
            limits=RoundLimits(),
            progress=Progress(EARLIEST),
        ),
        rec.GroupMoved(
            key=rec.GroupKey("st*", "g/1"),
            number=12,
            progress=Progress(EARLIEST),
            cause=rec.Moved.RESET,
            before=INSIDE,
            at_snapshot=True,
        ),
    ),
}
"""Version -> values of its frozen file."""
TABLES = (
    rec.TableAdded(table="sales.städte", path="s3://lake/städte", poll_interval_ms=250, principal="token:ops"),
    rec.TableAdded(table="a", path="/lake/a"),
    rec.TableDropped("a"),
)
"""Values of `tables.v1.json`: kinds that were added later, which an older build refuses by name."""
WRITE = WriteId("städte", "job/1", 3)
WRITES = (
    wr.WriteRequested(
        id=WRITE,
        request_id="ab",
        spec=WriteSpec(
            action="replacecommit",
            requested=b"Obj\x01",
            timeline_timezone="Europe/Berlin",
            keeps_metadata=False,
            by_bucket=True,
        ),
        principal="token:ops",
    ),
    wr.WriteRequested(id=WriteId("a", "b", 1), request_id="c", spec=WriteSpec(action="commit")),
    wr.WriteBegun(
        id=WRITE,
        instant=InstantTime("20261126093000123"),
        newest_completed="20261126092959000",
        pending=("20261126092958000", "20261126092959500"),
        order=7,
    ),
    wr.GroupsLeased(
        id=WRITE,
        touched=TouchedGroups(
            groups=frozenset({("p=ä", "00000001"), ("", "f-0")}),
            inserted_into=frozenset({"p=ä"}),
            keys_of_table=True,
        ),
    ),
    wr.CommitDecided(
        id=WRITE,
        commit=WriteCommit(
            metadata=b"x\x9c\x00",
            touched=TouchedGroups(groups=frozenset({("p=ä", "00000001-x")})),
            writes_base_files=True,
        ),
    ),
    wr.WriteCompleted(id=WRITE, completion=InstantTime("20261126093001000"), order=8),
    wr.WriteFailed(id=WRITE, end=WriteEnd.EXPIRED),
    wr.WriteFailed(id=WRITE, end=WriteEnd.REFUSED, text="conflict with ä", code="WRITE_CONFLICT"),
    wr.WriteRolledBack(id=WRITE),
)
"""Values of `writes.v1.json`, likewise."""
LATER = {"tables.v1.json": TABLES, "writes.v1.json": WRITES}


def frozen(version: int) -> list[StoredRecord]:
    """The records of a frozen file."""
    document = json.loads((FIXTURES / f"records.v{version}.json").read_text(encoding="utf-8"))
    return [StoredRecord(one["kind"], one["version"], one["payload"].encode()) for one in document]


@pytest.mark.parametrize("version", sorted(FROZEN))
def test_fault_32_frozen_records_decode_to_the_same_values(version: int) -> None:
    assert tuple(map(decode_record, frozen(version))) == FROZEN[version]


def test_fault_32_frozen_records_cover_every_kind_of_every_version() -> None:
    assert sorted(FROZEN) == list(range(1, WATERMARK_VERSION + 1))
    newer = set(get_args(rec.Durable)) - {type(one) for one in (*TABLES, *WRITES)} - {rec.WatermarkMoved}
    progresses = {rec.GroupCreated, rec.RoundPlanned, rec.GroupMoved}
    assert {type(one) for one in FROZEN[VERSION]} == newer
    assert {type(one) for one in FROZEN[HYBRID_VERSION]} == progresses
    assert {type(one) for one in FROZEN[TABLES_VERSION]} == {rec.GroupCreated}
    assert {type(one) for one in FROZEN[WATERMARK_VERSION]} == progresses | {rec.WatermarkMoved}


@pytest.mark.parametrize("file", LATER)
def test_fault_32_records_of_later_kinds_are_read_and_written_unchanged(file: str) -> None:
    document = json.loads((FIXTURES / file).read_text(encoding="utf-8"))
    stored = [StoredRecord(one["kind"], one["version"], one["payload"].encode()) for one in document]
    assert tuple(map(decode_record, stored)) == LATER[file]
    assert list(map(encode_record, LATER[file])) == stored


def test_fault_32_later_kinds_are_all_frozen() -> None:
    assert {type(one) for one in WRITES} == set(get_args(wr.DurableWriteRecord))


@pytest.mark.parametrize("version", sorted(FROZEN))
def test_fault_32_new_records_have_the_frozen_form_of_their_version(version: int) -> None:
    """A record without a topic stays readable by a build of version 1."""
    assert [
        encode_record(one) for one in FROZEN[version] if not isinstance(one, rec.RoundPlanned | rec.PlanOpened)
    ] == [one for one in frozen(version) if one.kind not in ("round-planned", "plan-opened")], (
        "but for compressed facts, whose bytes another zlib may write otherwise"
    )
    assert {encode_record(one).version for one in FROZEN[version]} == {version}


def test_group_moved_to_a_topic_has_the_newer_version_even_without_a_hybrid_scope() -> None:
    created = FROZEN[1][1]
    assert isinstance(created, rec.GroupCreated)
    stored = encode_record(replace(created, progress=AFTER_HANDOVER))
    assert stored.version == HYBRID_VERSION
    assert decode_record(stored) == replace(created, progress=AFTER_HANDOVER)


@pytest.mark.parametrize(
    "change", [{"done": 4}, {"done": 9, "total": 9}, {"done": -1}, {"at": ["x"]}, {"total": None}, {"digest": ...}]
)
def test_impossible_place_in_a_snapshot_is_corruption(change: dict[str, object]) -> None:
    stored = frozen(4)[0]
    document = json.loads(stored.payload)
    assert decode_record(StoredRecord(stored.kind, 4, json.dumps(document).encode())) == FROZEN[4][0]
    for name, value in change.items():
        if value is ...:
            del document["progress"]["snapshot"][name]
        else:
            document["progress"]["snapshot"][name] = value
    with pytest.raises(StateDamaged, match="group-created"):
        decode_record(StoredRecord(stored.kind, 4, json.dumps(document).encode()))


@pytest.mark.parametrize(
    "change",
    [
        {"phase": "lake"},
        {"phase": "switching"},
        {"topic": "a/b"},
        {"topic": 7},
        {"lake": ["1"]},
        {"starts": {"0": 17}},
        {"starts": [[0, 17.0], [3, 0]]},
        {"starts": [[3, 0], [0, 17]]},
        {"places": [[0, 16, None, 9], [3, 0, None, 0]]},
        {"places": [[0, 2**40]]},
        {"places": [[0, 2**40, -5, -1], [3, 0, None, 0]]},
        {"behind": 9},
        {"more": 1},
    ],
)
def test_impossible_topic_place_is_corruption(change: dict[str, object]) -> None:
    stored = frozen(2)[1]
    document = json.loads(stored.payload)
    assert decode_record(StoredRecord(stored.kind, 2, json.dumps(document).encode())) == FROZEN[2][1]
    document["progress"]["kafka"].update(change)
    with pytest.raises(StateDamaged, match="round-planned"):
        decode_record(StoredRecord(stored.kind, 2, json.dumps(document).encode()))


def test_names_of_queries_in_stored_plans_are_read_and_written_unchanged() -> None:
    """The file is from a release that stored the names of Python classes."""
    stored = json.loads((FIXTURES / "plan-queries.v1.json").read_text(encoding="utf-8"))
    plans = [decode_record(StoredRecord(one["kind"], one["version"], one["payload"].encode())) for one in stored]
    queries = [plan.query for plan in plans if isinstance(plan, rec.PlanOpened)]
    assert queries == [rec.PlanQuery(kind, of_stream) for kind in rec.QueryKind for of_stream in (False, True)]
    names = [json.loads(one["payload"])["query"] for one in stored]
    known = len(names) - 2
    assert names[known:] == ["QueryOfAnotherRelease", "QueryOfAnotherReleaseStream"]
    assert [json.loads(encode_record(plan).payload)["query"] for plan in plans][:known] == names[:known]


def test_names_of_queries_exist_for_every_query_of_a_request() -> None:
    assert set(QUERY_KINDS) == set(get_args(Query))
    assert set(QUERY_KINDS.values()) == set(rec.QueryKind) - {rec.QueryKind.OTHER}


@pytest.mark.parametrize(
    ("kind", "version"), [("numbers", 2), ("group-renamed", 1), ("group-created", 5), ("watermark-moved", 5)]
)
def test_fault_32_newer_records_are_refused_by_name(kind: str, version: int) -> None:
    with pytest.raises(StateVersionError, match=rf"{kind}' of version {version}: this build knows version 1"):
        decode_record(StoredRecord(kind, version, b"{}"))


if __name__ == "__main__":
    number = int(sys.argv[1])
    lines = [
        {"kind": one.kind, "version": one.version, "payload": one.payload.decode()}
        for one in map(encode_record, FROZEN[number])
    ]
    (FIXTURES / f"records.v{number}.json").write_text(json.dumps(lines, indent=1) + "\n", encoding="utf-8")
