"""Timeline file names of both layouts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import FormatError, UnsupportedFeature
from penstock.table.timeline.instants import (
    Action,
    Instant,
    State,
    comparable_action,
    instant_file_name,
    parse_instant_file,
)

T = "20260131235959123"
C = "20260131235959999"


@pytest.mark.parametrize(
    ("layout", "name", "action", "state"),
    [
        (1, f"{T}.commit.requested", Action.COMMIT, State.REQUESTED),
        (1, f"{T}.inflight", Action.COMMIT, State.INFLIGHT),
        (2, f"{T}.inflight", Action.COMMIT, State.INFLIGHT),
        (1, f"{T}.commit", Action.COMMIT, State.COMPLETED),
        (1, "001.deltacommit", Action.DELTA_COMMIT, State.COMPLETED),
        (1, f"{T}.compaction.inflight", Action.COMPACTION, State.INFLIGHT),
        (1, f"{T}.savepoint", Action.SAVEPOINT, State.COMPLETED),
        (2, f"{T}.clustering.requested", Action.CLUSTERING, State.REQUESTED),
        (2, f"{T}_{C}.replacecommit", Action.REPLACE_COMMIT, State.COMPLETED),
        (2, f"{T}_{C}.indexing", Action.INDEXING, State.COMPLETED),
    ],
)
def test_names(layout: int, name: str, action: Action, state: State) -> None:
    result = parse_instant_file(name, layout)
    assert result is not None and (result.action, result.state, result.file_name) == (action, state, name)
    assert result.completion_time == (C if "_" in name else None)


@pytest.mark.parametrize(
    "name",
    [
        "hoodie.properties",
        "hoodie.properties.backup",
        f".{T}.commit.crc",
        f"{T}.commit.crc",
        f"{T}.commit.tmp",
        f"{T}.deltacommit.requested.tmp",
        f"{T}.commit.8d2f6c37-7c7d-47a0-b032-54bc196b1bed",
        ".aux",
        "history",
        "archived",
        "metadata",
        T,
        "",
        f"{T}.",
        f"-{T}.commit",
        f"{T}_{C}_1.commit",
        "٣.commit",
        "1" * 300 + ".commit",
    ],
)
@pytest.mark.parametrize("layout", [1, 2])
def test_other_files_are_passed_over(name: str, layout: int) -> None:
    assert parse_instant_file(name, layout) is None


@pytest.mark.parametrize(
    ("layout", "name", "match"),
    [
        (1, f"{T}.frobnicate", "unknown action"),
        (2, f"{T}.requested", "unknown action"),
        (1, f"{T}.commit.finished", "unknown state"),
        (2, f"{T}_{C}.commit.inflight", "cannot have a completion time"),
        (2, f"{T}_{C}.compaction", "completes as commit"),
        (1, f"{T}.logcompaction", "completes as deltacommit"),
        (1, f"{T}_{C}.commit", "layout 2"),
        (1, f"{T}.clustering.requested", "on layout 1 clustering is a replacecommit"),
        (1, "1" * 25 + ".commit", "24 digits"),
    ],
)
def test_name_of_an_instants_shape_that_is_none_is_an_error(layout: int, name: str, match: str) -> None:
    with pytest.raises(FormatError, match=match) as caught:
        parse_instant_file(name, layout)
    assert name in str(caught.value)


def test_completed_file_without_completion_time_on_layout_2_is_refused() -> None:
    with pytest.raises(FormatError, match=f"{T}.commit"):
        parse_instant_file(f"{T}.commit", 2)
    left = parse_instant_file(f"{T}.commit", 2, "20270101000000000")
    assert left is not None and left.completion_time == "20270101000000000"


TIMES = st.text("0123456789", min_size=1, max_size=24)


@given(TIMES, TIMES, st.sampled_from(Action), st.sampled_from(State), st.sampled_from([1, 2]))
def test_names_round_trip(requested: str, completion: str, action: Action, state: State, layout: int) -> None:
    if layout == 1 and action is Action.CLUSTERING and state is not State.COMPLETED:
        return
    name = instant_file_name(requested, action, state, completion, layout)
    result = parse_instant_file(name, layout)
    completed = state is State.COMPLETED
    assert result == Instant(
        requested_time=requested,
        completion_time=completion if completed and layout == 2 else None,
        action=comparable_action(action) if completed else action,
        state=state,
        file_name=name,
    )


@given(st.text(max_size=60), st.sampled_from([1, 2]))
def test_any_name_gives_an_instant_none_or_our_error(name: str, layout: int) -> None:
    try:
        result = parse_instant_file(name, layout)
    except (FormatError, UnsupportedFeature):
        return
    assert result is None or result.file_name == name
