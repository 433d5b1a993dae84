"""Watermarks of the enumerator without Spark: each batch of each recorded table is compared with the model."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import pytest

from penstock.engine.connect import embedded_enumerator
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.queries import NO_LIMITS, Incremental, PlanRequest, RoundLimits
from penstock.proto.model.streams import (
    EventTimeRule,
    StartAfter,
    StartSnapshot,
    StreamPoint,
    StreamScope,
    WatermarkFallback,
)
from tests.streaming import reference_model as model
from tests.streaming.recorded import Recorded, View, completed_us
from tests.streaming.trail import NOWHERE, Leg, Mark, SourceHistory
from tests.streaming.written import START, TABLES

EACH = tuple(range(1, 11))
PACES = {
    "all known, commit by commit": ((10,), RoundLimits(max_commits=1), False),
    "as they come": (EACH, NO_LIMITS, False),
    "in steps, file by file": ((2, 4, 6, 8, 10), RoundLimits(max_files=1), False),
    "in leaps": ((3, 6, 10), NO_LIMITS, False),
    "after a snapshot": ((6, 7, 8, 9, 10), NO_LIMITS, True),
    "through a snapshot, file by file": ((6, 10), RoundLimits(max_files=1), True),
}


def mark(point: StreamPoint) -> Mark:
    position = point.progress.position
    done = None if point.snapshot is None else point.snapshot.done
    return Mark((str(position.order_key), position.index), done, point.watermark.at_us, point.ended)


def legs(view: View, scope: StreamScope, steps: Sequence[int], *, from_snapshot: bool) -> Iterator[Leg]:
    """Every batch of a stream that is polled until there is no new data, step by step."""
    enumerator = embedded_enumerator()
    point = enumerator.start_stream(scope, StartSnapshot() if from_snapshot else StartAfter(EARLIEST))
    before = mark(point) if from_snapshot else Mark(NOWHERE, None, None, False)
    for step in steps:
        view.reveal(step)
        while (result := enumerator.next_batch(scope, point).point) != point:
            point = result
            yield Leg(before, mark(point), step)
            before = mark(point)


@pytest.mark.sampled(5, rest=0)
@pytest.mark.parametrize("pace", PACES)
@pytest.mark.parametrize("fallback", list(WatermarkFallback))
@pytest.mark.parametrize("name", TABLES)
def test_batches_carry_the_watermark_of_the_model(
    recorded: Callable[[str], Recorded], tmp_path: pathlib.Path, name: str, fallback: WatermarkFallback, pace: str
) -> None:
    table = recorded(name)
    steps, limits, from_snapshot = PACES[pace]
    if from_snapshot and limits != NO_LIMITS and fallback is not WatermarkFallback.SCAN:
        limits = NO_LIMITS  # splits without bounds are ordered by their names, which the model does not have
    allowed = 5_000_000
    if fallback is WatermarkFallback.COMMIT_TIME:  # times of completion must be between event times
        allowed = completed_us(table.commits[3]) - int(START.timestamp()) * 1_000_000 - 25_000_000
    view = table.view(tmp_path / "table", steps[0])
    request = PlanRequest(
        table=str(view.path),
        query=Incremental(),
        event_time="ts",
        scan_event_time=fallback is WatermarkFallback.SCAN,
        metadata=False,
    )
    rule = EventTimeRule(max_out_of_orderness_us=allowed, fallback=fallback)
    scope = StreamScope(request=request, limits=limits, rule=rule)
    result = list(legs(view, scope, steps, from_snapshot=from_snapshot))
    assert len(result) >= len(steps) - 1
    reported = SourceHistory(table, result, snapshot_at=len(table.known(steps[0])) if from_snapshot else 0)
    message = model.watermarks(reported.planned(), allowed, fallback=fallback.value)
    assert [leg.after.at_us for leg in result] == message
    assert result[-1].after.place[0] == table.commits[-1].order_key
    assert all(older is None or newer >= older for older, newer in pairwise(message) if newer is not None)
