"""The rows of timelines and splits: those of the command line, for embedded reads and for names on a server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine import read_tasks
from penstock.engine.cli.main import run
from penstock.engine.spark.catalog.listings import splits_of, timeline_of
from penstock.engine.spark.schema.types import spark_schema
from penstock.enumerator.server.run import serve
from penstock.proto.options.registry import ParsedOptions

CASE = "A_fuzz_event_long_s1_v9_h120"


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run([*arguments, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_timeline_has_the_instants_of_the_command_line(golden: Any, capsys: pytest.CaptureFixture[str]) -> None:
    table = str(golden.table(CASE))
    rows = timeline_of(table, ParsedOptions(timeline_timezone="UTC"))
    expected = printed(capsys, "timeline", table, "--timeline-timezone", "UTC")
    assert len(expected) > 3
    texts = [name for name in rows.schema.names if not name.endswith("_at")]
    assert rows.select(texts).to_pylist() == [{name: row[name] for name in texts} for row in expected]
    moments = [
        None if m is None else m.isoformat(timespec="milliseconds")[:-6] + "Z" for m in rows["requested_at"].to_pylist()
    ]
    assert moments == [row["requested_at"] for row in expected]


def test_times_without_a_known_zone_are_null(golden: Any) -> None:
    rows = timeline_of(str(golden.table("B_v6_inc_mor")), ParsedOptions())
    assert rows.num_rows > 0
    assert rows["requested_at"].null_count == rows.num_rows


@pytest.mark.parametrize("after", [None, "earliest"])
def test_splits_are_those_of_the_command_line(
    golden: Any, capsys: pytest.CaptureFixture[str], after: str | None
) -> None:
    table = str(golden.table(CASE))
    options = ParsedOptions() if after is None else ParsedOptions(query="incremental", after=after)
    rows = splits_of(table, options)
    expected = printed(capsys, "splits", "plan", table, *([] if after is None else ["--after", after]))["splits"]
    assert len(expected) > 1
    assert rows.to_pylist() == [{name: row[name] for name in rows.schema.names} for row in expected]


@pytest.mark.parametrize("after", [None, "earliest"])
def test_name_on_a_server_lists_the_table_of_that_name(
    golden: Any, monkeypatch: pytest.MonkeyPatch, after: str | None
) -> None:
    """The server lists it: this process may have no access to the files."""
    table = str(golden.table(CASE))
    given = ParsedOptions() if after is None else ParsedOptions(query="incremental", after=after)
    expected = timeline_of(table, given), splits_of(table, given)

    def unreachable() -> None:
        raise AssertionError("the table was opened in this process")

    monkeypatch.setattr(read_tasks, "embedded_enumerator", unreachable)
    with serve({"orders": table}, "127.0.0.1:0") as server:
        options = replace(given, server=server.address)
        assert (timeline_of("orders", options), splits_of("orders", options)) == expected
    with pytest.raises(AssertionError, match="opened in this process"):
        splits_of(table, given)


@pytest.mark.parametrize("list_rows", [timeline_of, splits_of])
def test_every_column_has_a_type_of_spark(golden: Any, list_rows: Any) -> None:
    rows: pa.RecordBatch = list_rows(str(golden.table(CASE)), ParsedOptions())
    assert spark_schema(rows.schema).names == rows.schema.names
