"""The planner against a model of a table: random histories, where every data instant leaves one token a file group.

The model has the tokens of each file, so the tokens of a plan can be counted: each token of the requested state exactly
once. Writers overlap, compactions and clusterings run between them, instants stay pending, and files are cleaned.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from penstock.enumerator.planning.missing_files import later_evidence
from penstock.proto.errors import PositionExpired
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Incremental, Query, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.proto.model.splits import RowsOf
from tests.unit.enumerator.planning.model_writers import Token, text
from tests.unit.enumerator.planning.planner_model import ModelTable, position


@st.composite
def tables(draw: st.DrawFn) -> ModelTable:
    model = ModelTable(draw(st.sampled_from((1, 2))), random.Random(draw(st.integers(0, 2**32))))
    model.grow(draw(st.integers(1, 14)))
    return model


@st.composite
def stamped_tables(draw: st.DrawFn) -> ModelTable:
    model = ModelTable(draw(st.sampled_from((1, 2))), random.Random(draw(st.integers(0, 2**32))), stamping=True)
    model.grow(draw(st.integers(4, 18)))
    return model


@given(stamped_tables(), st.data())
@settings(max_examples=120, deadline=None)
def test_range_is_exact_after_services_that_stamp_rows(model: ModelTable, data: st.DataObject) -> None:
    assert Counter(model.tokens(model.plan(Snapshot()))) == model.expected(None)
    marks = [0, *model.keys()]
    after, upto = sorted((data.draw(st.sampled_from(marks)), data.draw(st.sampled_from(marks))))
    plan = model.plan(Incremental(position(after), position(upto)))
    assert Counter(model.tokens(plan)) == model.expected(upto, after)


@given(stamped_tables(), st.data())
@settings(max_examples=120, deadline=None)
def test_range_is_exact_or_expired_if_the_origin_of_stamped_rows_was_cleaned(
    model: ModelTable, data: st.DataObject
) -> None:
    model.archive(data.draw(st.integers(0, len(model.instants))))
    cleaned = model.cleanable(data.draw(st.integers(100, model.tick)))
    marks = [0, 50, *sorted(model.order_key(d) for d in model.instants if d.completed is not None)]
    after, upto = sorted((data.draw(st.sampled_from(marks)), data.draw(st.sampled_from(marks))))
    try:
        plan = model.plan(Incremental(position(after), position(upto)), cleaned=cleaned)
        result = Counter(model.tokens(plan, cleaned))
    except PositionExpired:
        assert cleaned
        return
    assert result == model.expected(upto, after)


@given(tables())
@settings(max_examples=60, deadline=None)
def test_snapshot_holds_every_committed_token_once(model: ModelTable) -> None:
    assert Counter(model.tokens(model.plan(Snapshot()))) == model.expected(None)


@given(tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_range_holds_exactly_its_tokens_as_of_its_end(model: ModelTable, data: st.DataObject) -> None:
    marks = [0, *model.keys()]
    after, upto = sorted((data.draw(st.sampled_from(marks)), data.draw(st.sampled_from(marks))))
    plan = model.plan(Incremental(position(after), position(upto)))
    assert Counter(model.tokens(plan)) == model.expected(upto, after)


@given(tables(), st.data())
@settings(max_examples=80, deadline=None)
def test_adjacent_ranges_hold_the_same_as_one_range(model: ModelTable, data: st.DataObject) -> None:
    marks = [0, *model.keys()]
    first, middle, last = sorted(data.draw(st.sampled_from(marks)) for _ in range(3))
    whole = model.tokens(model.plan(Incremental(position(first), position(last))))
    parts = [model.tokens(model.plan(Incremental(*map(position, ends)))) for ends in ((first, middle), (middle, last))]
    assert set(whole) <= set(parts[0]) | set(parts[1])
    assert not set(parts[0]) & set(parts[1])


@given(tables(), st.data())
@settings(max_examples=80, deadline=None)
def test_cleaned_and_archived_tables_give_the_same_rows_or_an_error(model: ModelTable, data: st.DataObject) -> None:
    """The cleaner removes superseded slices; its metadata and their commits may be archived."""
    model.archive(data.draw(st.integers(0, len(model.instants))))
    cleaned = model.cleanable(data.draw(st.integers(100, model.tick)))
    cleans_known = data.draw(st.booleans())
    assert Counter(
        model.tokens(model.plan(Snapshot(), cleaned=cleaned, cleans_known=cleans_known), cleaned)
    ) == model.expected(None)
    marks = [0, 50, *sorted(model.order_key(d) for d in model.instants if d.completed is not None)]
    after, upto = sorted((data.draw(st.sampled_from(marks)), data.draw(st.sampled_from(marks))))
    try:
        plan = model.plan(Incremental(position(after), position(upto)), cleaned=cleaned, cleans_known=cleans_known)
    except PositionExpired:
        assert cleaned
        return
    assert Counter(model.tokens(plan, cleaned)) == model.expected(upto, after)


@given(tables(), st.data())
@settings(max_examples=30, deadline=None)
def test_archival_changes_no_answer(model: ModelTable, data: st.DataObject) -> None:
    """Every range and every time, while all files exist except those that archival requires to be cleaned."""
    marks = [0, 50, *sorted(model.order_key(d) for d in model.instants if d.completed is not None)]
    times = [SnapshotAsOf(InstantTime(text(mark))) for mark in marks[1:]]
    before = [Counter(model.tokens(model.plan(query))) for query in times]
    model.archive(data.draw(st.integers(1, max(1, len(model.instants)))))
    removed = model.cleanable(0)
    requests: list[tuple[Query, Counter[Token]]] = list(zip(times, before, strict=True))
    for after, upto in itertools.combinations_with_replacement(marks[:8], 2):
        requests.append((Incremental(position(after), position(upto)), model.expected(upto, after)))
    for query, expected in requests:
        try:
            plan = model.plan(query, cleaned=removed)
        except PositionExpired:
            assert removed
            continue
        assert Counter(model.tokens(plan, removed)) == expected, query


@given(tables(), st.data())
@settings(max_examples=80, deadline=None)
def test_truncated_archive_never_gives_fewer_rows(model: ModelTable, data: st.DataObject) -> None:
    """The lost instants completed before the others: on layout 2 no remaining file shows otherwise."""
    marks = [0, 50, *sorted(model.order_key(d) for d in model.instants if d.completed is not None)]
    after, upto = sorted((data.draw(st.sampled_from(marks)), data.draw(st.sampled_from(marks))))
    as_of = SnapshotAsOf(InstantTime(text(data.draw(st.integers(100, model.tick)))))
    before = Counter(model.tokens(model.plan(as_of)))
    model.archive(data.draw(st.integers(0, len(model.instants))))
    model.lost_instants = data.draw(st.integers(0, model.archived_instants))
    keys = [model.order_key(d) if d.completed is not None else model.tick for d in model.instants]
    assume(max(keys[: model.lost_instants], default=0) < min(keys[model.lost_instants :], default=model.tick))
    cleaned = model.cleanable(data.draw(st.integers(100, model.tick)))
    for query, expected in (
        (Incremental(position(after), position(upto)), model.expected(upto, after)),
        (as_of, before),
    ):
        try:
            assert Counter(model.tokens(model.plan(query, cleaned=cleaned), cleaned)) == expected
        except PositionExpired:
            assert cleaned or model.lost_instants


@given(tables(), st.data())
@settings(max_examples=60, deadline=None)
def test_time_travel_after_a_clean_gives_the_same_rows_or_an_error(model: ModelTable, data: st.DataObject) -> None:
    query = SnapshotAsOf(InstantTime(text(data.draw(st.integers(100, model.tick)))))
    before = Counter(model.tokens(model.plan(query)))
    assert set(before.values()) <= {1}
    if model.layout == 1:
        assert before == model.expected(int(query.instant))
    model.archive(data.draw(st.integers(0, len(model.instants))))
    cleaned = model.cleanable(data.draw(st.integers(100, model.tick)))
    try:
        plan = model.plan(query, cleaned=cleaned, cleans_known=data.draw(st.booleans()))
    except PositionExpired:
        assert cleaned
        return
    assert Counter(model.tokens(plan, cleaned)) == before


@given(tables())
@settings(max_examples=40, deadline=None)
def test_same_state_gives_the_same_plan(model: ModelTable) -> None:
    for query in (Snapshot(), ReadOptimized(), Incremental()):
        assert model.plan(query) == model.plan(query)


@given(tables(), st.data())
@settings(max_examples=40, deadline=None)
def test_splits_are_in_commit_order_with_unique_ids(model: ModelTable, data: st.DataObject) -> None:
    marks = [0, *model.keys()]
    after, upto = sorted((data.draw(st.sampled_from(marks)), data.draw(st.sampled_from(marks))))
    plan = model.plan(Incremental(position(after), position(upto)))
    places = [(split.order_key, split.split_id) for split in plan.splits]
    assert places == sorted(places)
    assert len({split_id for _, split_id in places}) == len(places)
    if after:
        assert all(text(after) < split.order_key <= text(upto) for split in plan.splits)


def test_range_of_a_service_alone_has_no_splits() -> None:
    model = ModelTable(2, random.Random(7))
    model.insert()
    model.deltas()
    before = model.tick
    model.cluster()
    model.compact()
    plan = model.plan(Incremental(position(before), position(model.tick)))
    assert plan.splits == ()
    assert plan.scan.rows == RowsOf(frozenset())


def test_evidence_comes_only_from_instants_after_the_view() -> None:
    model = ModelTable(2, random.Random(3))
    model.grow(10)
    state = model.state(Snapshot())
    evidence = later_evidence(state.facts, state.selections[0].view, state.committed)
    assert not evidence.built_on and not evidence.replaced


if __name__ == "__main__":
    pytest.main([__file__])
