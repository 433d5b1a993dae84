"""A range with an end closes all windows; a stream beside a live writer equals the model at some moment."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.streaming import reference_model as model
from tests.streaming.driven import Driven, Live
from tests.streaming.operators import OPERATORS, as_rows
from tests.streaming.recorded import Recorded
from tests.streaming.restarts import AWAY_S, RestartingServer, RestartingSink
from tests.streaming.trail import Leg, SourceHistory
from tests.streaming.written import Conditions, script, write_one

ALLOWED = 5_000_000


def check(operator: str, histories: list[SourceHistory], driven: Driven, **end: int) -> list[model.Step]:
    """Compares watermarks, emissions and drops with the model, for each micro-batch of Spark."""
    for one in histories:
        assert [leg.after.at_us for leg in one.legs] == model.watermarks(one.planned(), ALLOWED, **end)
    micros = [
        model.Micro(
            tuple(one.rows(leg) for one, leg in zip(histories, legs, strict=True)),
            tuple(
                leg.after.at_us if one.has_watermark(leg) else None for one, leg in zip(histories, legs, strict=True)
            ),
        )
        for legs in zip(*(driven.legs(source) for source in range(len(histories))), strict=True)
    ]
    steps = model.engine(micros)
    for batch, (rows, dropped) in enumerate(OPERATORS[operator].expected(steps)):
        assert driven.evicted_at_ms(batch) == steps[batch].evict // 1000, batch
        assert as_rows(driven.sink.tables[batch]) == rows, batch
        assert driven.dropped.get(batch, 0) == dropped, batch
    return steps


def to_the_end(
    spark: Any, recorded: Callable[[str], Recorded], folder: pathlib.Path, operator: str, end: dict[str, str]
) -> tuple[list[SourceHistory], Driven]:
    """A range up to the seventh commit."""
    operator_case = OPERATORS[operator]
    tables = [recorded(name) for name in ("mor9-ooo-late-cdc", "cow9-late-cdc")[: operator_case.sources]]
    uptos = [(table.commits[6].order_key, 2**31) for table in tables]
    views = [table.view(folder / f"table-{number}", 10) for number, table in enumerate(tables)]
    common = {"eventTime": "ts", "maxOutOfOrderness": "5 seconds", "metadata": "off", "maxCommitsPerTrigger": "3"}
    options = [common | end | {"after": "earliest", "upto": upto[0]} for upto in uptos]
    driven = Driven(spark, views, operator_case.on, folder, options)
    driven.start()
    try:
        driven.run_to_the_end(10)
    finally:
        driven.stop()
    histories = [
        SourceHistory(table, driven.legs(source), upto=upto)
        for source, (table, upto) in enumerate(zip(tables, uptos, strict=True))
    ]
    return histories, driven


@pytest.mark.ahead(run=to_the_end)
@pytest.mark.parametrize(
    ("operator", "end"), [("tumbling", {}), ("interval_left", {}), ("session", {"endWatermark": "30 seconds"})]
)
@pytest.mark.sampled(2, rest=0)
def test_range_with_an_end_emits_everything(
    outcome: tuple[list[SourceHistory], Driven], operator: str, end: dict[str, str]
) -> None:
    """Also open windows, sessions and unmatched rows: the watermark passes all of them, and nothing is emitted
    twice."""
    operator_case, (histories, driven) = OPERATORS[operator], outcome
    steps = check(operator, histories, driven, **({"beyond_end": 30_000_000} if end else {}))
    assert not any(dropped for _, dropped in operator_case.expected(steps))
    emitted = sum(rows.total() for rows, _ in operator_case.expected(steps))
    all_at_once = model.Step(
        tuple([row for step in steps for row in step.rows[s]] for s in range(operator_case.sources)), 0, 0
    )
    closed = model.Step(tuple([] for _ in histories), 0, model.END_OF_TIME_US)
    assert emitted == sum(rows.total() for rows, _ in operator_case.expected([all_at_once, closed])) > 0


def moments(table: Recorded, legs: list[Leg]) -> list[Leg]:
    """For each batch a moment at which it may have been planned: the first one, not before that of the previous batch,
    at which the model has the watermark of the batch."""
    matched: list[Leg] = []
    for leg in legs:
        if leg.is_empty:
            matched.append(leg)
            continue
        for step in range(max((other.step for other in matched if not other.is_empty), default=1), table.steps + 1):
            present = [commit.order_key for commit in table.known(step)]
            tried = [*matched, Leg(leg.before, leg.after, step)]
            if leg.after.place[0] in present and last_watermark(table, tried) == leg.after.at_us:
                matched = tried
                break
        else:
            raise AssertionError(f"at no moment is {leg.after.at_us} the watermark of {leg}")
    return matched


def last_watermark(table: Recorded, legs: list[Leg]) -> int | None:
    return model.watermarks(SourceHistory(table, legs).planned(), ALLOWED)[-1]


@pytest.mark.long
def test_stream_beside_a_live_writer_equals_the_model(spark: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    """Hudi writes, with two overlapping writers, while the query runs."""
    conditions = Conditions("mor", out_of_order=True, late=True, nulls=True)
    path = tmp_path / "written" / "table"
    write_one(hudi, path, conditions, 0)
    failures: list[BaseException] = []

    def go_on() -> None:
        try:
            for number in range(1, len(script(conditions))):
                write_one(hudi, path, conditions, number)
        except BaseException as error:  # noqa: BLE001 - the test reports it
            failures.append(error)

    options = {"eventTime": "ts", "maxOutOfOrderness": "5 seconds", "after": "earliest", "metadata": "off"}
    driven = Driven(spark, [Live(path)], OPERATORS["tumbling"].on, tmp_path, [options])
    writer = threading.Thread(target=go_on, name="writer")
    driven.start()
    try:
        driven.wait_for_rows()
        writer.start()
        writer.join(600)
        assert not failures and not writer.is_alive(), failures
        table = Recorded(path, tmp_path / "steps")
        driven.catch_up(table.commits[-1].order_key)
    finally:
        driven.stop()
    table.read_states(hudi.read, tmp_path / "asked")
    legs = moments(table, driven.legs(0))
    assert len({leg.after for leg in legs}) > 2, "the stream saw the commits all at once"
    check("tumbling", [SourceHistory(table, legs)], driven)


def through_a_restart(
    spark: Any, recorded: Callable[[str], Recorded], folder: pathlib.Path, operator: str
) -> tuple[SourceHistory, Driven, float]:
    """A range up to the seventh commit, from a server that is stopped for nine seconds during the second
    micro-batch."""
    table = recorded("mor9-ooo-late-cdc")
    upto = (table.commits[6].order_key, 2**31)
    view = table.view(folder / "table", 10)
    options = {"eventTime": "ts", "maxOutOfOrderness": "5 seconds", "metadata": "off", "maxCommitsPerTrigger": "3"}
    with RestartingServer({"t": str(view.path)}, folder / "state") as server:
        requested = options | {"after": "earliest", "upto": upto[0], "server": server.address}
        driven = Driven(spark, [view], OPERATORS[operator].on, folder, [requested], ["t"])
        driven.sink = sink = RestartingSink(server=server)
        driven.start()
        try:
            driven.run_to_the_end(10)
        finally:
            driven.stop()
    return SourceHistory(table, driven.legs(0), upto=upto), driven, sink.waited_s


@pytest.mark.ahead(run=through_a_restart)
@pytest.mark.parametrize("operator", ["tumbling"])
def test_stream_survives_a_server_restart_during_a_micro_batch(
    outcome: tuple[SourceHistory, Driven, float], operator: str
) -> None:
    """Its tasks wait for the server: the query does not end, and its rows, watermarks and windows equal the model's."""
    histories, driven, waited_s = outcome
    assert waited_s >= AWAY_S
    assert driven.restarts == set()
    check(operator, [histories], driven)
