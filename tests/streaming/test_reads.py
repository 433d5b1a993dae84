"""Continuous and bounded reads of rows and changes; sinks are compared with Hudi's rows (RFC-95 tests a to d)."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.streaming.driven import Driven
from tests.streaming.recorded import Recorded
from tests.streaming.trail import SourceHistory, carried_us
from tests.streaming.written import START

RecordedTables = Callable[[str], Recorded]
STEPS = (2, 4, 7, 9, 10)
DELETED = {"k6", "k7"}


def unchanged(spark: SparkSession, df: DataFrame) -> DataFrame:
    """The stream without an operator."""
    return df


def driven_over(spark: SparkSession, table: Recorded, folder: pathlib.Path, **options: str) -> Driven:
    """A stream of the table's rows, step by step, with a restart in the middle."""
    first, *rest = STEPS
    view = table.view(folder / "table", first)
    driven = Driven(spark, [view], unchanged, folder, [{"metadata": "off", **options}])
    driven.start()
    try:
        driven.reveal([first])
        for number, step in enumerate(rest):
            if number == 1:
                driven.restart()
            driven.reveal([step])
    finally:
        driven.stop()
    return driven


def tables(driven: Driven) -> list[pa.Table]:
    """Rows of the micro-batches, in order."""
    return [driven.sink.tables[batch] for batch in sorted(driven.sink.tables)]


def upserted(sink: dict[str, int], rows: pa.Table) -> None:
    """Applies a micro-batch's rows by key."""
    sink.update(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), strict=True))


def hudi_rows(table: Recorded, number: int) -> dict[str, int]:
    """Key to `n` of the rows that Hudi reads after some commits."""
    return {r.row.key: r.row.n for r in table.states[number - 1]}


def rows_by_steps(spark: Any, recorded: RecordedTables, folder: pathlib.Path, name: str) -> Driven:
    """Rows with a watermark, in small micro-batches."""
    return driven_over(
        spark, recorded(name), folder, eventTime="ts", maxOutOfOrderness="5 seconds", maxFilesPerTrigger="3",
        after="earliest",
    )  # fmt: skip


@pytest.mark.ahead(run=rows_by_steps)
@pytest.mark.parametrize("name", ["mor9-ooo-late-cdc", "mor6-ooo-late-nulls"])
def test_continuous_read_of_a_merge_on_read_table(outcome: Driven, recorded: RecordedTables, name: str) -> None:
    """Each micro-batch has Hudi's rows of its range, and one watermark; applied by key they produce Hudi's table,
    except for deletes, which rows do not contain."""
    table, driven = recorded(name), outcome
    history, sink = SourceHistory(table, driven.legs(0)), dict[str, int]()
    for batch, (leg, rows) in enumerate(zip(driven.legs(0), tables(driven), strict=True)):
        expected = Counter((row.key, row.n, row.ts) for row in history.rows(leg))
        times = rows["ts"].cast(pa.int64()).to_pylist()
        assert Counter(zip(rows["id"].to_pylist(), rows["n"].to_pylist(), times, strict=True)) == expected, batch
        assert set(carried_us(rows)) <= {leg.after.at_us}
        assert not any(rows["_penstock_marker"].to_pylist())
        upserted(sink, rows)
        if batch in driven.ends:
            present = hudi_rows(table, len(table.known(leg.step)))
            assert {key: n for key, n in sink.items() if key in present} == present
            assert sink.keys() - present.keys() <= DELETED
    assert sink.keys() - hudi_rows(table, 10).keys() == DELETED


def folded(sink: dict[str, int], rows: pa.Table, form: str) -> None:
    """Applies a micro-batch of changes."""
    changes = rows.to_pylist()
    if form == "rows":
        for change in sorted(changes, key=lambda change: change["_change_seq"]):
            if change["_change_type"] in ("-D", "-U"):
                assert sink.pop(change["id"]) == change["n"]
            else:
                assert change["id"] not in sink
                sink[change["id"]] = change["n"]
        return
    for change in sorted(changes, key=lambda change: change["ts_ms"]):
        before, after = (json.loads(change[side]) if change[side] else None for side in ("before", "after"))
        assert (before and before["n"]) == (None if change["op"] == "i" else sink.pop(before["id"]))
        if after is not None:
            assert after["id"] not in sink
            sink[after["id"]] = after["n"]


def changes_by_steps(
    spark: Any, recorded: RecordedTables, folder: pathlib.Path, name: str, form: str, after: str
) -> Driven:
    """Changes in one of their formats."""
    return driven_over(spark, recorded(name), folder, query="cdc", cdcFormat=form, after=after)


@pytest.mark.ahead(run=changes_by_steps)
@pytest.mark.sampled(2, rest=0)
@pytest.mark.parametrize(
    ("name", "form", "after"),
    [
        ("mor9-ooo-late-cdc", "rows", "earliest"),
        ("mor9-ooo-late-cdc", "hudi", "snapshot"),
        ("cow9-late-cdc", "rows", "snapshot"),
        ("cow9-late-cdc", "hudi", "earliest"),
    ],
)
def test_continuous_read_of_changes(
    outcome: Driven, recorded: RecordedTables, name: str, form: str, after: str
) -> None:
    """The changelog applied to a sink equals Hudi's table after each step; every old image equals the row in the
    sink."""
    table, driven, sink = recorded(name), outcome, dict[str, int]()
    for batch, (leg, rows) in enumerate(zip(driven.legs(0), tables(driven), strict=True)):
        folded(sink, rows, form)
        if batch in driven.ends:
            assert sink == hudi_rows(table, len(table.known(leg.step))), f"step {leg.step}"
    assert sink == hudi_rows(table, 10)


def the_range(table: Recorded) -> dict[str, str]:
    """Options of a range in the middle: after commit 2, up to commit 7."""
    return {"after": table.commits[1].order_key, "upto": table.commits[6].order_key}


def batch_of(spark: SparkSession, table: Recorded, **options: str) -> pa.Table:
    """The same range as one batch read of the complete table."""
    return spark.read.format("penstock").options(metadata="off", **options).load(str(table.table)).toArrow()


def bounded(spark: SparkSession, table: Recorded, folder: pathlib.Path, **options: str) -> Driven:
    """A stream of the complete table with an end, run until it ends."""
    view = table.view(folder / "table", 10)
    driven = Driven(spark, [view], unchanged, folder, [{"metadata": "off", **options}])
    driven.start()
    try:
        driven.run_to_the_end(10)
    finally:
        driven.stop()
    return driven


def range_of_rows(spark: Any, recorded: RecordedTables, folder: pathlib.Path, name: str) -> tuple[pa.Table, Driven]:
    """As a batch and as a stream."""
    table = recorded(name)
    read = batch_of(spark, table, query="incremental", **the_range(table))
    return read, bounded(spark, table, folder, maxCommitsPerTrigger="2", **the_range(table))


@pytest.mark.ahead(run=range_of_rows)
@pytest.mark.parametrize("name", ["mor9-ooo-late-cdc", "mor6-ooo-late-nulls"])
def test_time_range_of_a_merge_on_read_table(
    outcome: tuple[pa.Table, Driven], recorded: RecordedTables, name: str
) -> None:
    """As a batch, the rows are those of the last state that the range wrote; the stream returns as many, and ends."""
    table, (read, driven) = recorded(name), outcome
    expected = table.rows((table.commits[1].order_key, 2**31), (table.commits[6].order_key, 2**31))
    assert Counter(read["n"].to_pylist()) == Counter(row.n for row in expected)
    sink: dict[str, int] = {}
    for rows in tables(driven):
        upserted(sink, rows)
    removed = {key for key in sink if key not in hudi_rows(table, 7)}
    assert {key: n for key, n in sink.items() if key not in removed} == {row.key: row.n for row in expected}
    assert removed <= DELETED
    assert driven.legs(0)[-1].after.place[0] <= table.commits[6].order_key


def range_of_changes(
    spark: Any, recorded: RecordedTables, folder: pathlib.Path, name: str, form: str
) -> tuple[pa.Table, Driven]:
    """As a batch and as a stream."""
    table = recorded(name)
    options = {"query": "cdc", "cdcFormat": form, **the_range(table)}
    return batch_of(spark, table, **options), bounded(spark, table, folder, maxCommitsPerTrigger="2", **options)


@pytest.mark.ahead(run=range_of_changes)
@pytest.mark.parametrize(("name", "form"), [("mor9-ooo-late-cdc", "hudi"), ("cow9-late-cdc", "rows")])
def test_time_range_of_changes(
    outcome: tuple[pa.Table, Driven], recorded: RecordedTables, name: str, form: str
) -> None:
    """The same changes as a batch and as a stream that ends; applied to Hudi's rows before the range they produce those
    after it."""
    table, (read, driven) = recorded(name), outcome
    streamed = pa.concat_tables(rows for rows in tables(driven) if rows.num_rows)
    assert _texts(streamed) == _texts(read)
    for changes in ([read], tables(driven)):
        sink = hudi_rows(table, 2)
        for rows in changes:
            folded(sink, rows, form)
        assert sink == hudi_rows(table, 7)


def _texts(rows: pa.Table) -> Counter[str]:
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows.to_pylist())


def test_script_meets_the_assumptions_of_the_tests(recorded: RecordedTables) -> None:
    """Checks the assumptions of the tests above."""
    table = recorded("mor9-ooo-late-cdc")
    order = [commit.requested for commit in table.commits]
    assert order != sorted(order), "no commit completed out of order"
    assert hudi_rows(table, 4).keys() >= DELETED and not DELETED & hudi_rows(table, 5).keys()
    first = {row.ts for row in table.rows(("0", 0), (table.commits[0].order_key, 2**31)) if row.ts is not None}
    assert min(first) >= int(START.timestamp()) * 1_000_000
