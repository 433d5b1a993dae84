"""A range with an end closes all windows; a stream beside a live writer does what the model says of some moment."""

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
from tests.streaming.trail import Leg, Told
from tests.streaming.written import Conditions, script, write_one

ALLOWED = 5_000_000


def check(operator: str, told: list[Told], driven: Driven, **end: int) -> list[model.Step]:
    """Watermarks, emissions and drops against the model; what Spark did in each micro-batch, by the model."""
    for one in told:
        assert [leg.after.at_us for leg in one.legs] == model.watermarks(one.planned(), ALLOWED, **end)
    micros = [
        model.Micro(
            tuple(one.rows(leg) for one, leg in zip(told, legs, strict=True)),
            tuple(leg.after.at_us if one.brings(leg) else None for one, leg in zip(told, legs, strict=True)),
        )
        for legs in zip(*(driven.legs(source) for source in range(len(told))), strict=True)
    ]
    steps = model.engine(micros)
    for batch, (rows, dropped) in enumerate(OPERATORS[operator].expected(steps)):
        assert driven.evicted_at_ms(batch) == steps[batch].evict // 1000, batch
        assert as_rows(driven.sink.tables[batch]) == rows, batch
        assert driven.dropped.get(batch, 0) == dropped, batch
    return steps


def to_the_end(
    spark: Any, recorded: Callable[[str], Recorded], folder: pathlib.Path, operator: str, end: dict[str, str]
) -> tuple[list[Told], Driven]:
    """A range up to the seventh commit."""
    made = OPERATORS[operator]
    tables = [recorded(name) for name in ("mor9-ooo-late-cdc", "cow9-late-cdc")[: made.sources]]
    uptos = [(table.commits[6].order_key, 2**31) for table in tables]
    views = [table.view(folder / f"table-{number}", 10) for number, table in enumerate(tables)]
    common = {"eventTime": "ts", "maxOutOfOrderness": "5 seconds", "metadata": "off", "maxCommitsPerTrigger": "3"}
    given = [common | end | {"after": "earliest", "upto": upto[0]} for upto in uptos]
    driven = Driven(spark, views, made.on, folder, given)
    driven.start()
    try:
        driven.run_to_the_end(10)
    finally:
        driven.stop()
    told = [
        Told(table, driven.legs(source), upto=upto)
        for source, (table, upto) in enumerate(zip(tables, uptos, strict=True))
    ]
    return told, driven


@pytest.mark.ahead(run=to_the_end)
@pytest.mark.parametrize(
    ("operator", "end"), [("tumbling", {}), ("interval_left", {}), ("session", {"endWatermark": "30 seconds"})]
)
def test_everything_comes_out_at_the_end_of_a_range(
    outcome: tuple[list[Told], Driven], operator: str, end: dict[str, str]
) -> None:
    """Open windows, sessions and unmatched rows too: the watermark passes them all, and nothing is emitted twice."""
    made, (told, driven) = OPERATORS[operator], outcome
    steps = check(operator, told, driven, **({"beyond_end": 30_000_000} if end else {}))
    assert not any(dropped for _, dropped in made.expected(steps))
    emitted = sum(rows.total() for rows, _ in made.expected(steps))
    all_at_once = model.Step(tuple([row for step in steps for row in step.rows[s]] for s in range(made.sources)), 0, 0)
    closed = model.Step(tuple([] for _ in told), 0, model.END_OF_TIME_US)
    assert emitted == sum(rows.total() for rows, _ in made.expected([all_at_once, closed])) > 0


def moments(table: Recorded, legs: list[Leg]) -> list[Leg]:
    """For each batch a moment in which it can have been planned: the first, not before that of the batch before it, of
    which the model says the watermark that the batch has."""
    found: list[Leg] = []
    for leg in legs:
        if leg.is_empty:
            found.append(leg)
            continue
        for step in range(max((other.step for other in found if not other.is_empty), default=1), table.steps + 1):
            there = [commit.order_key for commit in table.known(step)]
            tried = [*found, Leg(leg.before, leg.after, step)]
            if leg.after.place[0] in there and _said(table, tried) == leg.after.at_us:
                found = tried
                break
        else:
            raise AssertionError(f"at no moment is {leg.after.at_us} the watermark of {leg}")
    return found


def _said(table: Recorded, legs: list[Leg]) -> int | None:
    return model.watermarks(Told(table, legs).planned(), ALLOWED)[-1]


def test_a_writer_beside_the_stream(spark: Any, hudi: Any, tmp_path: pathlib.Path) -> None:
    """Real Hudi writes, two of its writers overtaking each other, while the query runs."""
    conditions = Conditions("mor", out_of_order=True, late=True, nulls=True)
    path = tmp_path / "written" / "table"
    write_one(hudi, path, conditions, 0)
    failures: list[BaseException] = []

    def go_on() -> None:
        try:
            for number in range(1, len(script(conditions))):
                write_one(hudi, path, conditions, number)
        except BaseException as error:  # noqa: BLE001 - the test tells it
            failures.append(error)

    given = {"eventTime": "ts", "maxOutOfOrderness": "5 seconds", "after": "earliest", "metadata": "off"}
    driven = Driven(spark, [Live(path)], OPERATORS["tumbling"].on, tmp_path, [given])
    writer = threading.Thread(target=go_on, name="writer")
    driven.start()
    try:
        driven.wait_for_rows()
        writer.start()
        writer.join(120)
        assert not failures and not writer.is_alive(), failures
        table = Recorded(path, tmp_path / "steps")
        driven.catch_up(table.commits[-1].order_key)
    finally:
        driven.stop()
    table.ask(hudi.read, tmp_path / "asked")
    legs = moments(table, driven.legs(0))
    assert len({leg.after for leg in legs}) > 2, "the stream saw the commits all at once"
    check("tumbling", [Told(table, legs)], driven)


def through_a_restart(
    spark: Any, recorded: Callable[[str], Recorded], folder: pathlib.Path, operator: str
) -> tuple[Told, Driven, float]:
    """A range up to the seventh commit, from a server that is away for nine seconds under the second micro-batch."""
    table = recorded("mor9-ooo-late-cdc")
    upto = (table.commits[6].order_key, 2**31)
    view = table.view(folder / "table", 10)
    given = {"eventTime": "ts", "maxOutOfOrderness": "5 seconds", "metadata": "off", "maxCommitsPerTrigger": "3"}
    with RestartingServer({"t": str(view.path)}, folder / "state") as server:
        asked = given | {"after": "earliest", "upto": upto[0], "server": server.address}
        driven = Driven(spark, [view], OPERATORS[operator].on, folder, [asked], ["t"])
        driven.sink = sink = RestartingSink(server=server)
        driven.start()
        try:
            driven.run_to_the_end(10)
        finally:
            driven.stop()
    return Told(table, driven.legs(0), upto=upto), driven, sink.waited_s


@pytest.mark.ahead(run=through_a_restart)
@pytest.mark.parametrize("operator", ["tumbling"])
def test_a_server_restarts_under_a_micro_batch(outcome: tuple[Told, Driven, float], operator: str) -> None:
    """Its tasks wait for it: the query never ends, and its rows, watermarks and windows are the model's."""
    told, driven, waited_s = outcome
    assert waited_s >= AWAY_S
    assert driven.restarts == set()
    check(operator, [told], driven)
