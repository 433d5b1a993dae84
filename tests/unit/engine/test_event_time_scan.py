"""Scans of splits for event times: columns, units, and enumerators that are configured with the scan."""

from __future__ import annotations

import datetime as dt
import json
import pathlib
import subprocess
import sys
from dataclasses import replace
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine import connect
from penstock.engine.event_time_scan import scan_event_time
from penstock.engine.group.connect import open_group_enumerator
from penstock.enumerator.planning.annotate import EventTimeScan
from penstock.enumerator.planning.plan import plan_request
from penstock.enumerator.server import assembly
from penstock.enumerator.server.config.settings import Settings, TableSettings
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.changes import ChangeFormat
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Changes, PlanRequest, Snapshot
from penstock.proto.model.splits import (
    CommitTimeOrdering,
    EventTimeBounds,
    FileRef,
    NoEventTimes,
    Scan,
    Split,
    UnknownBounds,
    VisibleInstants,
)
from penstock.table.hudi_table import open_table

DAY_US = 86_400_000_000
COLUMNS: dict[str, tuple[object, pa.DataType]] = {
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
    "millis": ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("ms", "UTC")),
    "day": ({"type": "int", "logicalType": "date"}, pa.date32()),
    "plain": ("long", pa.int64()),
    "text": ("string", pa.string()),
}


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...


def one_file(folder: pathlib.Path, **columns: list[Any]) -> tuple[Scan, Split]:
    """A log-free slice whose file has these columns."""
    schema = [{"name": name, "type": ["null", COLUMNS[name][0]], "default": None} for name in columns]
    table = pa.table({name: pa.array(values, COLUMNS[name][1]) for name, values in columns.items()})
    pq.write_table(table, folder / "f.parquet", row_group_size=3)
    scan = Scan(
        table="t",
        base_path=str(folder),
        table_version=9,
        schema_json=json.dumps({"type": "record", "name": "t", "fields": schema}),
        columns=tuple(columns),
        where="",
        merge=CommitTimeOrdering(),
        visible=VisibleInstants(frozenset()),
    )
    split = Split(
        split_id="s",
        partition="",
        partition_values=(),
        file_group="f",
        order_key=InstantTime("20260101000000000"),
        base=FileRef("f.parquet", (folder / "f.parquet").stat().st_size),
    )
    return scan, split


@pytest.mark.parametrize(
    ("column", "unit", "values", "expected"),
    [
        ("micros", "", [5, None, -9], (-9, 5)),
        ("local", "", [5, None, -9], (-9, 5)),
        ("millis", "", [5, None, -9], (-9000, 5000)),
        ("day", "", [dt.date(1970, 1, 3), dt.date(1969, 12, 31)], (-DAY_US, 2 * DAY_US)),
        ("plain", "s", [5, -9], (-9_000_000, 5_000_000)),
        ("plain", "ms", [5, -9], (-9000, 5000)),
        ("plain", "us", [5, -9], (-9, 5)),
        ("plain", "s", [2**60, 1], (1_000_000, 2**63 - 1)),
    ],
)
def test_values_become_utc_microseconds(
    tmp_path: pathlib.Path, column: str, unit: str, values: list[Any], expected: tuple[int, int]
) -> None:
    scan, split = one_file(tmp_path, **{column: values})
    assert scan_event_time(scan, split, column, unit) == EventTimeBounds(*expected)


def test_rows_that_the_filter_drops_count_too(tmp_path: pathlib.Path) -> None:
    scan, split = one_file(tmp_path, micros=[5, 7], text=["a", "b"])
    filtered = replace(scan, where="text = 'a'", columns=("text",))
    assert scan_event_time(filtered, split, "micros", "") == EventTimeBounds(5, 7)


@pytest.mark.parametrize("values", [[], [None, None]])
def test_no_value_is_no_event_time(tmp_path: pathlib.Path, values: list[None]) -> None:
    scan, split = one_file(tmp_path, micros=values)
    assert scan_event_time(scan, split, "micros", "") == NoEventTimes()


@pytest.mark.parametrize(("column", "unit"), [("plain", ""), ("plain", "h"), ("text", "s")])
def test_column_without_a_unit_is_refused(tmp_path: pathlib.Path, column: str, unit: str) -> None:
    scan, split = one_file(tmp_path, **{column: ["1"] if column == "text" else [1]})
    with pytest.raises(ConfigurationError, match=f"event-time column '{column}'"):
        scan_event_time(scan, split, column, unit)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.none() | st.integers(-(2**50), 2**50), max_size=20))
def test_bounds_cover_all_values(tmp_path: pathlib.Path, values: list[int | None]) -> None:
    scan, split = one_file(tmp_path, plain=values)
    known = [value * 1000 for value in values if value is not None]
    expected = EventTimeBounds(min(known), max(known)) if known else NoEventTimes()
    assert scan_event_time(scan, split, "plain", "ms") == expected


def test_changes_in_hudis_format_are_read_by_the_tables_column(golden: Golden) -> None:
    table = open_table(str(golden.table("B_v9_cdc_cow_data_before_after")))
    modules = []
    for form in ChangeFormat:
        plan = plan_request(table, "t", PlanRequest(table="t", query=Changes(form)))
        modules.append([scan_event_time(plan.scan, split, "ts", "us") for split in plan.splits])
        assert all(isinstance(bounds, EventTimeBounds) for bounds in modules[-1])
    assert sorted(modules[0], key=str) == sorted(modules[1], key=str)


REQUEST = PlanRequest(table="", query=Snapshot(), event_time="et", scan_event_time=True, metadata=False)


def test_embedded_enumerator_can_scan(golden: Golden) -> None:
    path = str(golden.table("B_v9_colstats_mor"))
    plan = connect.embedded_enumerator().plan(replace(REQUEST, table=path))
    assert len(plan.splits) == 3
    assert not any(isinstance(split.event_time, UnknownBounds) for split in plan.splits)


def test_embedded_stream_enumerator_can_scan(golden: Golden) -> None:
    path = str(golden.table("B_v9_colstats_mor"))
    with open_group_enumerator(None) as enumerator:
        opened = enumerator.open_plan(replace(REQUEST, table=path), "r")
        assert opened.splits == 3


@pytest.mark.parametrize("scan", [scan_event_time, None])
def test_server_scans_with_its_configured_reader(golden: Golden, scan: EventTimeScan | None) -> None:
    path = str(golden.table("B_v9_colstats_mor"))
    functions = assembly.TableFunctions(scan_event_time=scan)
    with assembly.running_service(Settings(tables={"t": TableSettings(path=path)}), functions=functions) as service:
        if scan is None:
            with pytest.raises(ConfigurationError, match="without a way to read"):
                service.plan(replace(REQUEST, table="t"))
        else:
            assert service.open_plan(replace(REQUEST, table="t"), "r").splits == 3


def test_penstock_serve_configures_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock.engine.cli.commands.serve import run
    from penstock.enumerator.server import run as server_run

    keywords: dict[str, Any] = {}
    monkeypatch.setattr(server_run, "serve_forever", lambda *_, **more: keywords.update(more))
    run(Settings(tables={"t": TableSettings(path="/lake/t")}))
    functions = keywords["functions"]
    assert functions.scan_event_time is scan_event_time
    assert functions.timelines and functions.due_services


def test_enumerator_loads_no_reader_before_it_reads() -> None:
    code = (
        "import sys; from penstock.engine.connect import embedded_enumerator; embedded_enumerator();"
        "sys.exit('penstock.reader.read_split' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
