"""Stored progress inside a snapshot: its place must be one of the snapshot's splits, and the position its place."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.enumerator.core.stored.progress_json import progress_from_json, progress_to_json
from penstock.proto.model.positions import EARLIEST, InstantTime, Position
from penstock.proto.model.streams import Progress, SnapshotPlace, SnapshotProgress


def stored(done: int, total: int, index: int | None = None) -> dict[str, Any]:
    place = SnapshotPlace(done=done, total=total, digest="d")
    snapshot = SnapshotProgress(Position(InstantTime("20260101000000000")), place)
    position = Position(EARLIEST.order_key, done if index is None else index)
    return progress_to_json(Progress(position=position, layout=2, snapshot=snapshot))


@pytest.mark.parametrize(("done", "total"), [(0, 1), (8, 9)])
def test_place_inside_of_the_snapshot_is_read(done: int, total: int) -> None:
    progress = progress_from_json(stored(done, total))
    assert progress.snapshot is not None and progress.snapshot.place == SnapshotPlace(
        done=done, total=total, digest="d"
    )
    assert progress_to_json(progress) == stored(done, total)


@pytest.mark.parametrize(("done", "total", "index"), [(9, 9, 9), (0, 0, 0), (3, 9, 4)])
def test_other_place_is_refused(done: int, total: int, index: int) -> None:
    with pytest.raises(ValueError, match=rf"{done} of {total} splits of a snapshot, at position"):
        progress_from_json(stored(done, total, index))
