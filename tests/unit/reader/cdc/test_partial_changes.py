"""Changes where log records fill each other's gaps: folded, they give what a snapshot of each commit gives."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.proto.model.changes import ChangeFormat, ComparedStates
from penstock.proto.model.files import FileRef, SliceFiles
from penstock.proto.model.splits import AllRows, EventTimeOrdering, Split, VisibleInstants
from penstock.reader.read_split import ReadOptions, read_split
from tests.oracle import slice_writer
from tests.unit.reader.change_slices import ChangeFolder, instant, meta_columns

FIELDS = {"v": "long", "w": "long", "ts": "long"}
KEYS = st.sampled_from("abc")
NUMBERS = st.none() | st.integers(0, 9)
WRITES = st.lists(
    st.tuples(KEYS, st.sampled_from([("v",), ("w",), ("v", "w")]), NUMBERS, st.integers(0, 5)), min_size=1, max_size=3
)
Rows = dict[str, tuple[Any, ...]]


def row(number: int, place: int, key: str, columns: Sequence[str], value: int | None, ts: int) -> dict[str, Any]:
    return {**meta_columns(number, place, key), **dict.fromkeys(columns, value), "ts": ts}


def block(number: int, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> bytes:
    """A block of these columns alone."""
    schema = slice_writer.table_schema({name: FIELDS[name] for name in (*columns, "ts")})
    return slice_writer.data_block(schema, rows, instant(number), partial=len(columns) < 2)


def snapshot(folder: ChangeFolder, files: SliceFiles, known: range) -> Rows:
    """What a reader of the group's rows gets."""
    scan = replace(
        folder.scan(ChangeFormat.ROWS, []),
        rows=AllRows(),
        columns=tuple(folder.arrow.names),
        visible=VisibleInstants(frozenset(map(instant, known))),
    )
    split = Split(
        split_id="s",
        partition="",
        partition_values=(),
        file_group="group",
        order_key=instant(known[-1]),
        base=files.base,
        base_instant=files.base_instant,
        logs=files.logs,
    )
    rows = [result for part in read_split(scan, split) for result in part.batch.to_pylist()]
    return {result["_hoodie_record_key"]: tuple(result[name] for name in FIELDS) for result in rows}


def folded(state: Rows, changes: list[dict[str, Any]]) -> Rows:
    """The state after the changes. Each change must start from the state before it."""
    state = dict(state)
    for change in changes:
        key, values = change["_hoodie_record_key"], tuple(change[name] for name in FIELDS)
        if change["_change_type"] in ("-U", "-D"):
            assert state.pop(key) == values
        else:
            assert key not in state
            state[key] = values
    return state


@pytest.mark.exhaustive
@settings(max_examples=60, deadline=None)
@given(
    base=st.lists(KEYS, unique=True, max_size=3),
    commits=st.lists(WRITES, min_size=1, max_size=4),
    options=st.builds(ReadOptions, batch_rows=st.sampled_from([1, 32768]), compiled=st.booleans()),
)
@example(  # the second write loses and fills `w` all the same
    base=["a"], commits=[[("a", ("v",), 1, 4)], [("a", ("w",), 2, 3)]], options=ReadOptions()
)
def test_fold_of_partial_updates_is_the_snapshot(base: list[str], commits: list[Any], options: ReadOptions) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = ChangeFolder(pathlib.Path(name), FIELDS, EventTimeOrdering(("ts",)))
        bottom = folder.base(1, [row(1, place, key, ("v", "w"), 0, 2) for place, key in enumerate(base)])
        logs: list[FileRef] = []
        for number, writes in enumerate(commits, 2):
            blocks = [
                block(number, columns, [row(number, place, key, columns, value, ts)])
                for place, (key, columns, value, ts) in enumerate(writes)
            ]
            logs.append(folder.log(number, *blocks))
        known = range(1, len(commits) + 2)
        for place, number in enumerate(known[1:]):
            before, after = (SliceFiles(bottom.base, bottom.base_instant, tuple(logs[:n])) for n in (place, place + 1))
            result = folder.read((number, ComparedStates(before, after)), known=known, options=options)
            message = folded(snapshot(folder, before, known), result.to_pylist())
            assert message == snapshot(folder, after, known)
