"""Windows, sessions, joins and de-duplication in Spark with the source's watermark; each micro-batch is compared with
the model.

For each case of the table: the watermark of every micro-batch is the model's, to the microsecond; Spark evicts by it;
each window is emitted in the first micro-batch in which the model's watermark has reached its end, with the model's
content; the number of rows dropped as late is the model's.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from penstock.engine.event_time_scan import scan_event_time
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import serve
from tests.streaming import reference_model as model
from tests.streaming.cases import CASES, SHORT_CASES, factors, name
from tests.streaming.driven import Driven
from tests.streaming.operators import OPERATORS, Operator, as_rows
from tests.streaming.pairs import drops
from tests.streaming.recorded import Recorded, completed_us
from tests.streaming.trail import SourceHistory
from tests.streaming.written import START

T0 = int(START.timestamp()) * 1_000_000
ALLOWED_MS, IDLE_MS = 5_000, 1_500
PARTNERS = {
    "mor9-ooo-late-cdc": "mor9-nulls",
    "mor9-nulls": "mor9-ooo-late-cdc",
    "cow9-ooo-nulls": "cow9-late-cdc",
    "cow9-late-cdc": "cow9-ooo-nulls",
    "mor6-ooo-late-nulls": "mor9-nulls",
}
STEPS = {"earliest": (1, 4, 7, 9, 10), "snapshot": (4, 6, 7, 9, 10)}
"""On layout 1 a first batch of several commits treats slices with logs as old as their base file, which is visible with
`watermarkFallback=commitTime`. Therefore the first step is one commit."""


@dataclass(frozen=True, slots=True)
class RunCase:
    """A case with its tables; `allowed_ms` is each source's maxOutOfOrderness."""

    case: dict[str, str]
    tables: list[Recorded]
    operator: Operator

    @property
    def allowed_ms(self) -> list[int]:
        """Large enough that times of completion are between event times, where they are used as such."""
        if self.case["fallback"] != "commitTime":
            return [ALLOWED_MS] * len(self.tables)
        return [(completed_us(table.commits[3]) - T0) // 1000 - 25_000 for table in self.tables]

    @property
    def options(self) -> list[dict[str, str]]:
        """The options of each load()."""
        case = self.case
        fixed = {"eventTime": "ts", "metadata": "off", "watermarkFallback": case["fallback"], "after": case["start"]}
        fixed |= {"slots": "2" if case["limit"] == "inside" else "1"}
        fixed |= {"idleTimeout": f"{IDLE_MS} ms"} if case["idle"] == "idle" else {}
        fixed |= {"maxFilesPerTrigger": "3"} if case["limit"] == "inside" else {}
        return [fixed | {"maxOutOfOrderness": f"{allowed} ms"} for allowed in self.allowed_ms]


def run(tried: RunCase, driven: Driven) -> None:
    """Runs the case step by step."""
    case, steps = tried.case, STEPS[tried.case["start"]]
    driven.start()
    try:
        for number, step in enumerate(steps):
            each = [step] * len(tried.tables)
            if number == 3 and case["restart"] == "failed":
                driven.fail_and_restart(each)
            else:
                driven.reveal(each)
            if number == 2 and case["idle"] == "idle":
                driven.wait_for_idle_timeout()
            if number == 2 and case["restart"] == "stopped":
                driven.restart()
    finally:
        driven.stop()


def check(tried: RunCase, driven: Driven) -> None:
    """Compares all results with the model."""
    histories = [
        SourceHistory(
            table,
            driven.legs(source),
            snapshot_at=len(table.known(STEPS["snapshot"][0])) if tried.case["start"] == "snapshot" else 0,
            idle_timeout=IDLE_MS * 1000 if tried.case["idle"] == "idle" else 0,
        )
        for source, table in enumerate(tried.tables)
    ]
    for one, allowed_ms in zip(histories, tried.allowed_ms, strict=True):
        message = model.watermarks(
            one.planned(), allowed_ms * 1000, fallback=tried.case["fallback"], idle_timeout=IDLE_MS * 1000
        )
        assert [leg.after.at_us for leg in one.legs] == message
    micros = [
        model.Micro(
            rows=tuple(one.rows(leg) for one, leg in zip(histories, legs, strict=True)),
            brought=tuple(
                leg.after.at_us if one.has_watermark(leg) else None for one, leg in zip(histories, legs, strict=True)
            ),
            restarted=batch in driven.restarts,
        )
        for batch, legs in enumerate(zip(*(driven.legs(source) for source in range(len(histories))), strict=True))
    ]
    steps = model.engine([*micros, model.Micro(tuple([] for _ in histories), (None,) * len(histories))])
    assert [driven.evicted_at_ms(batch) for batch in range(len(micros))] == [s.evict // 1000 for s in steps[:-1]]
    for end in driven.ends:
        assert steps[end].evict == steps[end + 1].evict, f"micro-batch {end} is not the last of its step"
    for batch, (rows, dropped) in enumerate(tried.operator.expected(steps[:-1])):
        assert as_rows(driven.sink.tables[batch]) == rows, batch
        assert driven.dropped.get(batch, 0) == dropped, batch
    if drops(tried.case):
        assert sum(driven.dropped.values()) > 0, "nothing was late: the case shows less than it should"


def streamed(
    spark: Any, recorded: Callable[[str], Recorded], folder: pathlib.Path, case: tuple[str, ...]
) -> tuple[RunCase, Driven]:
    """The run of a case."""
    factors_of_case = factors(case)
    operator = OPERATORS[factors_of_case["operator"] + ("_sql" if factors_of_case["form"] == "sql" else "")]
    names = [factors_of_case["table"], PARTNERS[factors_of_case["table"]]][: operator.sources]
    tried = RunCase(factors_of_case, [recorded(table) for table in names], operator)
    first = STEPS[factors_of_case["start"]][0]
    views = [table.view(folder / f"table-{number}", first) for number, table in enumerate(tried.tables)]
    if factors_of_case["deployment"] == "embedded":
        driven = Driven(spark, views, operator.on, folder, tried.options)
        run(tried, driven)
    else:
        served = {f"t{number}": str(view.path) for number, view in enumerate(views)}
        with serve(
            served, "127.0.0.1:0", functions=TableFunctions(scan_event_time=scan_event_time), poll_interval_ms=200
        ) as server:
            options = [factors | {"server": server.address} for factors in tried.options]
            driven = Driven(spark, views, operator.on, folder, options, list(served))
            run(tried, driven)
    return tried, driven


@pytest.mark.ahead(run=streamed)
@pytest.mark.sampled(len(SHORT_CASES))
@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=name(case), marks=[pytest.mark.long] * (name(case) not in SHORT_CASES)) for case in CASES],
)
def test_stream_equals_the_model(outcome: tuple[RunCase, Driven], case: tuple[str, ...]) -> None:
    check(*outcome)
