"""Changes and their bytes: every value comes back, what cannot be is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.codec.changes import (
    changes_from_message,
    changes_of_from_message,
    changes_of_to_message,
    changes_to_message,
)
from penstock.proto.codec.checks import MAX_PLACE
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import (
    ChangeFormat,
    ChangesOf,
    ChangeSource,
    ChangeStep,
    ComparedStates,
    GroupChanges,
    LoggedImages,
    StoredKinds,
)
from penstock.proto.model.files import FileRef, LogWrite, SliceFiles
from penstock.proto.model.positions import InstantTime
from penstock.proto.v1 import penstock_pb2 as pb

sizes = st.integers(0, 2**63 - 1)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
instants = st.from_regex(r"[0-9]{1,24}", fullmatch=True).map(InstantTime)
writes = st.none() | st.lists(st.builds(LogWrite, instants, sizes, sizes), max_size=2).map(tuple)
files = st.builds(FileRef, names, sizes, writes)
slices = st.one_of(
    st.builds(SliceFiles, files, st.just("") | instants.map(str), st.lists(files, max_size=2).map(tuple)),
    st.builds(SliceFiles, st.none(), st.just(""), st.lists(files, min_size=1, max_size=2).map(tuple)),
)
states = st.none() | slices
sources: st.SearchStrategy[ChangeSource] = st.one_of(
    st.builds(
        LoggedImages,
        st.lists(files, min_size=1, max_size=2).map(tuple),
        states,
        states,
        st.lists(names, max_size=2).map(tuple),
    ),
    st.builds(ComparedStates, states, states).filter(lambda result: result != ComparedStates(None, None)),
    st.builds(StoredKinds, slices),
)


@st.composite
def groups(draw: st.DrawFn) -> GroupChanges:
    """Steps in commit order."""
    places = sorted(draw(st.sets(st.tuples(instants, instants), min_size=1, max_size=4)))
    steps = (
        ChangeStep(instant=own, order_key=key, place=draw(st.integers(0, MAX_PLACE)), source=draw(sources))
        for key, own in places
    )
    return GroupChanges(tuple(steps))


@settings(max_examples=100, deadline=None)
@given(groups())
def test_changes_of_a_group_come_back(changes: GroupChanges) -> None:
    data = changes_to_message(changes).SerializeToString()
    assert changes_from_message("split s", pb.GroupChanges.FromString(data)) == changes


@given(st.builds(ChangesOf, st.sampled_from(ChangeFormat), st.lists(instants, unique=True, max_size=4).map(tuple)))
def test_instants_of_changes_keep_their_order(rows: ChangesOf) -> None:
    data = changes_of_to_message(rows).SerializeToString()
    assert changes_of_from_message("scan t", pb.ChangesOf.FromString(data)) == rows


STATE = SliceFiles(FileRef("p/f_1.parquet", 9), "1")
GOOD = GroupChanges(
    (
        ChangeStep(
            instant=InstantTime("1"), order_key=InstantTime("5"), place=0, source=LoggedImages((FileRef("l", 1),))
        ),
        ChangeStep(instant=InstantTime("2"), order_key=InstantTime("5"), place=1, source=ComparedStates(None, STATE)),
        ChangeStep(instant=InstantTime("3"), order_key=InstantTime("6"), place=2, source=StoredKinds(STATE)),
    )
)


def clear(*path: str) -> Callable[[Any], None]:
    def change(message: Any) -> None:
        step = message.steps[{"logged": 0, "compared": 1, "stored": 2}.get(path[0], 0)]
        holder = getattr(step, path[0])
        for name in path[1:-1]:
            holder = getattr(holder, name)
        holder.ClearField(path[-1])

    return change


def assign(step: int, name: str, value: object) -> Callable[[Any], None]:
    return lambda message: setattr(message.steps[step], name, value)


def swap(message: Any) -> None:
    first = message.steps[0].order_key
    message.steps[0].order_key = message.steps[2].order_key
    message.steps[2].order_key = first


def doubled(message: Any) -> None:
    message.steps[1].instant = message.steps[0].instant


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        (lambda message: message.ClearField("steps"), "no step"),
        (swap, "out of order"),
        (doubled, "out of order"),
        (clear("logged", "files"), "no file"),
        (clear("compared", "after"), "neither state"),
        (clear("compared", "after", "base"), "neither a base file nor a log file"),
        (clear("stored", "files"), "no files"),
        (clear("stored", "files", "base"), "neither a base file nor a log file"),
        (lambda message: message.steps[1].ClearField("compared"), "no source that this build knows"),
        (assign(0, "instant", "1x"), "instant"),
        (assign(0, "order_key", ""), "order_key"),
        (assign(0, "place", MAX_PLACE + 1), "place"),
        (lambda message: setattr(message.steps[0].logged.files[0], "path", ""), "path"),
        (lambda message: setattr(message.steps[0].logged.files[0], "size_bytes", 1 << 63), "size_bytes"),
        (lambda message: setattr(message.steps[1].compared.after, "base_instant", "later"), "base_instant"),
        (lambda message: message.steps[0].logged.key_fields.append(""), "key_fields"),
    ],
)
def test_invalid_changes_are_refused(change: Callable[[Any], None], reported: str) -> None:
    message = changes_to_message(GOOD)
    assert changes_from_message("split s", message) == GOOD
    change(message)
    with pytest.raises(ConfigurationError, match=rf"split s.*{reported}"):
        changes_from_message("split s", message)


@pytest.mark.parametrize(
    ("form", "instants", "message"),
    [
        ("csv", ["1"], "rows or hudi"),
        ("", ["1"], "rows or hudi"),
        ("rows", ["1", "1"], "instants"),
        ("hudi", ["x"], "instants"),
    ],
)
def test_invalid_scans_of_changes_are_refused(form: str, instants: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"scan t.*{message}"):
        changes_of_from_message("scan t", pb.ChangesOf(format=form, instants=instants))
