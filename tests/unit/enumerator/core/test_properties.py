"""Properties of the codec of the core's records and of split facts."""

from __future__ import annotations

import tracemalloc
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.enumerator.continuous.types import Progress
from penstock.enumerator.core import records as rec
from penstock.enumerator.core.split_facts import SplitFacts, facts_of
from penstock.enumerator.core.stored.codec import (
    HYBRID_VERSION,
    VERSION,
    WATERMARK_VERSION,
    decode_record,
    encode_record,
)
from penstock.enumerator.core.writes import records as wr
from penstock.enumerator.planning.event_time.span import EventTimeSpan
from penstock.enumerator.store.protocol import StoredRecord
from penstock.proto.errors import PenstockError, StateDamaged, StateVersionError
from penstock.proto.model.groups import GroupScope, OnLostRange
from penstock.proto.model.hybrid import Hybrid, HybridMode, KafkaPlace, PartitionPlace, Phase, is_after_hand_over
from penstock.proto.model.positions import WHOLE_INSTANT, CommitRange, InstantTime, Position
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.streams import EventTimeRule, SnapshotPlace, SnapshotProgress, Watermark, WatermarkFallback
from penstock.proto.model.writes import TouchedGroups, WriteCommit, WriteEnd, WriteId, WriteSpec
from tests.unit.enumerator.core.groups import KEY, SCOPE, at

names = st.text(st.characters(codec="utf-8"), max_size=12)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
numbers = st.integers(0, 2**62)
small = st.integers(0, 2**31 - 1)
instants = st.integers(0, 10**17 - 1).map(lambda number: InstantTime(f"{number:017d}"))
positions = st.builds(Position, instants, st.one_of(st.just(WHOLE_INSTANT), st.integers(0, 1_000)))
keys = st.builds(rec.GroupKey, names, names)
spans = st.one_of(
    st.just(EventTimeSpan()),
    st.just(EventTimeSpan(is_unbounded=True)),
    st.tuples(st.integers(-(2**62), 2**62), st.integers(0, 2**61)).map(lambda of: EventTimeSpan(of[0], sum(of))),
)
facts = st.lists(st.tuples(small, names, names), max_size=6).map(facts_of) | st.lists(
    st.tuples(st.tuples(small, names, names), spans), max_size=6
).map(lambda timed: facts_of((sized for sized, _ in timed), [span for _, span in timed]))
rules = st.builds(
    EventTimeRule, max_out_of_orderness_us=small, fallback=st.sampled_from(WatermarkFallback), timezone=names
)
places = st.tuples(names, small)
lake_progresses = st.builds(
    Progress,
    position=positions,
    layout=st.integers(0, 2),
    consumed=st.frozensets(instants, max_size=4),
    ahead=st.frozensets(instants, max_size=2),
    table_id=names,
)
offsets = st.dictionaries(small, st.integers(0, 2**40), max_size=3)


@st.composite
def hybrid_progresses(draw: st.DrawFn) -> Progress:
    """Progress after the hand-over."""
    starts = draw(offsets)
    place = KafkaPlace(
        phase=draw(st.sampled_from(Phase)),
        topic="orders",
        topic_id=draw(names),
        instant=draw(instants),
        lake=draw(positions.filter(lambda position: not is_after_hand_over(position))),
        starts=tuple(sorted(starts.items())),
        epochs=draw(st.sampled_from([(), ((0, 5),)])),
        places=tuple(
            PartitionPlace(number, starts[number] + draw(small), draw(st.none() | st.integers(-9, 9)), draw(small))
            for number in sorted(starts)
        ),
    )
    return replace(draw(lake_progresses), position=place.position, kafka=place)


@st.composite
def snapshot_progresses(draw: st.DrawFn) -> Progress:
    """Progress inside the snapshot with which a group starts."""
    done = draw(small)
    place = SnapshotPlace(done=done, total=done + 1 + draw(small), digest=draw(names))
    snapshot = SnapshotProgress(draw(positions), place)
    return replace(draw(lake_progresses), position=snapshot.position, snapshot=snapshot)


progresses = lake_progresses | hybrid_progresses() | snapshot_progresses()
hybrids = st.builds(Hybrid, mode=st.sampled_from(HybridMode), topic=st.just("orders"))
ranges = st.tuples(positions, positions).map(lambda ends: CommitRange(min(ends), max(ends)))
scopes = st.builds(
    GroupScope,
    request=st.one_of(
        st.just(SCOPE.request),
        st.builds(
            PlanRequest, table=texts, query=st.just(Incremental()), columns=st.lists(texts, max_size=2).map(tuple)
        ),
        st.builds(PlanRequest, table=texts, query=st.just(Incremental()), hybrid=hybrids),
    ),
    upto=st.none() | positions,
    on_lost_range=st.sampled_from(OnLostRange),
) | st.builds(
    GroupScope,
    request=st.builds(PlanRequest, table=texts, query=st.just(Incremental()), event_time=texts),
    rule=rules,
    idle_timeout_us=st.none() | st.integers(1, 2**60),
)
write_ids = st.builds(WriteId, names, names, numbers)
touched = st.builds(
    TouchedGroups,
    groups=st.frozensets(st.tuples(names, names), max_size=3),
    inserted_into=st.frozensets(names, max_size=3),
    keys_of_table=st.booleans(),
)
durable_writes = st.one_of(
    st.builds(
        wr.WriteRequested,
        id=write_ids,
        request_id=names,
        spec=st.builds(
            WriteSpec,
            action=names,
            requested=st.binary(max_size=9),
            timeline_timezone=names,
            keeps_metadata=st.booleans(),
            by_bucket=st.booleans(),
        ),
        principal=names,
    ),
    st.builds(
        wr.WriteBegun,
        id=write_ids,
        instant=instants,
        newest_completed=names,
        pending=st.lists(names, max_size=3).map(tuple),
        order=numbers,
    ),
    st.builds(wr.GroupsLeased, id=write_ids, touched=touched),
    st.builds(
        wr.CommitDecided,
        id=write_ids,
        commit=st.builds(WriteCommit, metadata=st.binary(max_size=9), touched=touched, writes_base_files=st.booleans()),
    ),
    st.builds(wr.WriteCompleted, id=write_ids, completion=instants, order=numbers),
    st.builds(wr.WriteFailed, id=write_ids, end=st.sampled_from(WriteEnd)),
    st.builds(wr.WriteFailed, id=write_ids, end=st.just(WriteEnd.REFUSED), text=names, code=names),
    st.builds(wr.WriteRolledBack, id=write_ids),
)
durable = durable_writes | st.one_of(
    st.builds(rec.NumbersUsed, numbers),
    st.builds(
        rec.GroupCreated,
        key=keys,
        number=numbers,
        scope=scopes,
        limits=st.builds(RoundLimits, max_commits=small, max_files=small, max_bytes=numbers, max_rows=numbers),
        progress=progresses,
        principal=names,
    ),
    st.builds(
        rec.RoundPlanned,
        key=keys,
        plan_id=names,
        commit_range=ranges,
        progress=progresses,
        facts=facts,
        reshaped=st.frozensets(st.integers(-(2**63), 2**63 - 1), max_size=3),
        commits=small,
        coming=spans,
    ),
    st.builds(
        rec.WatermarkMoved,
        key=keys,
        watermark=st.builds(Watermark, st.none() | st.integers(), st.none() | st.integers()),
        coming=spans,
    ),
    st.builds(rec.ReaderJoined, key=keys, reader_id=names, epoch=numbers, request_id=names),
    st.builds(rec.SplitsAssigned, key=keys, reader_id=names, sequence=numbers, splits=st.lists(places).map(tuple)),
    st.builds(
        rec.SplitsCommitted,
        key=keys,
        ordinals=st.lists(st.tuples(names, small, numbers)).map(tuple),
        finished=st.lists(places).map(tuple),
    ),
    st.builds(rec.ReaderGone, key=keys, reader_id=names, cause=st.sampled_from(rec.Gone)),
    st.builds(rec.GroupStopped, key=keys, code=names, text=names),
    st.builds(
        rec.GroupMoved,
        key=keys,
        number=numbers,
        progress=progresses,
        cause=st.sampled_from(rec.Moved),
        before=positions,
    ),
    st.builds(rec.GroupEnded, key=keys),
    st.builds(rec.GroupDeleted, keys, st.booleans()),
    st.builds(rec.PlanOpened, plan_id=names, request_id=names, table=names, facts=facts, slots=small),
    st.builds(rec.SlotsAsked, names, st.lists(small).map(tuple)),
    st.builds(rec.PlansForgotten, st.lists(names).map(tuple)),
)


@given(durable)
def test_records_survive_the_codec(record: rec.Durable) -> None:
    assert decode_record(encode_record(record)) == record


@given(durable, st.data())
def test_damaged_record_is_a_penstock_error(record: rec.Durable, data: st.DataObject) -> None:
    stored = encode_record(record)
    place = data.draw(st.integers(0, len(stored.payload) - 1))
    changed = bytearray(stored.payload)
    changed[place] ^= data.draw(st.integers(1, 255))
    try:
        decode_record(StoredRecord(stored.kind, stored.version, bytes(changed)))
    except PenstockError as error:
        assert isinstance(error, StateDamaged | StateVersionError)


@given(durable)
def test_record_of_a_newer_version_is_refused(record: rec.Durable) -> None:
    stored = encode_record(record)
    with pytest.raises(StateVersionError, match=stored.kind):
        decode_record(StoredRecord(stored.kind, WATERMARK_VERSION + 1, stored.payload))


@given(durable)
def test_record_under_another_version_is_refused(record: rec.Durable) -> None:
    """A record without a topic has another version than one of a hybrid group, or of a group with a watermark."""
    stored = encode_record(record)
    for other in {VERSION, HYBRID_VERSION, WATERMARK_VERSION} - {stored.version}:
        with pytest.raises((StateVersionError, StateDamaged), match=stored.kind):
            decode_record(StoredRecord(stored.kind, other, stored.payload))


@given(st.lists(st.tuples(st.integers(0, 2**62), names, names), max_size=30))
def test_split_facts_survive_the_codec(splits: list[tuple[int, str, str]]) -> None:
    history = facts_of(splits)
    back = SplitFacts.decoded(history.encoded())
    assert back == history and hash(back) == hash(history) and len(back) == len(splits)
    assert back.sizes.tolist() == [size for size, _, _ in splits]
    lanes = {(partition, group): lane for (_, partition, group), lane in zip(splits, back.lanes.tolist(), strict=True)}
    assert len(set(lanes.values())) == len(lanes)


@given(st.binary(max_size=60))
def test_random_bytes_as_split_facts_are_corruption(data: bytes) -> None:
    for layout in (b"facts1\n", b"facts2\n", b"facts3\n"):
        with pytest.raises(StateDamaged):
            SplitFacts.decoded(layout + data)


@given(st.lists(st.tuples(small, names, names), max_size=6), st.data())
def test_truncated_split_facts_are_corruption(splits: list[tuple[int, str, str]], data: st.DataObject) -> None:
    """Half of the rows would be decoded as other columns. A regression test of a failure with random bytes."""
    whole = facts_of(splits).encoded()
    with pytest.raises(StateDamaged):
        SplitFacts.decoded(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(StateDamaged):
        SplitFacts.decoded(whole + b"x")


def test_split_facts_of_too_many_splits_are_corruption() -> None:
    with pytest.raises(StateDamaged, match="more than 2 splits"):
        SplitFacts.decoded(facts_of([(1, "p", "a")] * 3).encoded(), most=2)


def test_split_facts_of_too_many_splits_are_not_decompressed() -> None:
    bomb = b"facts1\n" + zlib.compress(bytes(50 << 20))
    tracemalloc.start()
    try:
        with pytest.raises(StateDamaged, match="more than 1000 splits"):
            SplitFacts.decoded(bomb, most=1_000)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 5 << 20


def test_record_of_another_version_names_both_versions() -> None:
    created = rec.GroupCreated(key=KEY, number=1, scope=SCOPE, limits=NO_LIMITS, progress=Progress(at(0)))
    stored = encode_record(replace(created, at_snapshot=True))
    assert stored.version == WATERMARK_VERSION
    text = f"version {HYBRID_VERSION}, but its content is one of version {WATERMARK_VERSION}"
    with pytest.raises(StateDamaged, match=text):
        decode_record(StoredRecord(stored.kind, HYBRID_VERSION, stored.payload))
