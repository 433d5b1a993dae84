"""`penstock.open_table`: the rows of `penstock.read`, the table's description, and its errors."""

from __future__ import annotations

import dataclasses
import pathlib
import warnings
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import penstock
from penstock.errors import ConfigurationError, TableNotFound

if TYPE_CHECKING:
    from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden


def rows(reader: pa.RecordBatchReader) -> list[dict[str, Any]]:
    return sorted(reader.read_all().to_pylist(), key=repr)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"columns": ["id", "v"], "where": "v > 5"},
        {"query": "read_optimized"},
        {"query": "incremental", "after": "earliest"},
        {"query": "cdc", "after": "earliest", "cdc_format": "hudi"},
        {"columns": ("id",), "threads": 3, "ordered": False},
        {"meta": False, "where": [("v", ">", 5)]},
        {"as_of": date(2026, 11, 20), "timeline_timezone": "UTC"},
        {"query": "incremental", "after": date(2026, 11, 19), "timeline_timezone": "UTC"},
        {"query": "incremental", "after": datetime(2026, 11, 20, 21, tzinfo=UTC), "timeline_timezone": "UTC"},
        {"columns": "id", "completion_time": "on", "timeline_timezone": "UTC"},
    ],
    ids=str,
)
def test_read_has_the_rows_and_schema_of_penstock_read(
    opened: penstock.Table, path: str, options: dict[str, Any]
) -> None:
    expected = penstock.read(path, **options)
    reader = opened.read(**options)
    assert reader.schema == expected.schema
    expected_rows = rows(expected)
    assert expected_rows and rows(reader) == expected_rows


def test_changes_are_those_of_the_range(opened: penstock.Table, path: str, golden: GoldenTables) -> None:
    first, *_, last = [instant.order_key for instant in penstock.open_table(path).timeline() if instant.order_key]
    changes = rows(opened.changes())
    assert changes == rows(penstock.read(path, query="cdc", after="earliest"))
    part = rows(opened.changes(after=first, upto=last, columns=["id", "_change_type"], where="v > 5"))
    assert part == rows(
        penstock.read(path, query="cdc", after=first, upto=last, columns=["id", "_change_type"], where="v > 5")
    )
    assert 0 < len(part) < len(changes)


def test_schema_is_that_of_read(opened: penstock.Table) -> None:
    assert opened.schema == opened.read().schema
    for options in (
        {"columns": ["v", "id"]},
        {"meta": False},
        {"meta": False, "completion_time": "on"},
        {"query": "cdc", "after": "earliest"},
        {"completion_time": "on"},
    ):
        scan = opened.scan(timeline_timezone="UTC", **options)
        assert scan.schema == scan.to_batches().schema


@pytest.mark.parametrize(
    "case",
    [
        "A_types_v9_h120",
        "A_evo_on_read_v9_h120",
        "A_drop_part_cols_v9_h120",
        "A_nonpart_nometa_v9_h120",
        "A_ts_keygen_v9_h120",
        "B_v9_arch_cow",
        "A_archive_v6_h0150",
    ],
)
def test_schema_from_the_description_is_that_of_the_plan(golden: GoldenTables, case: str) -> None:
    table = penstock.open_table(golden.table(case))
    assert table.schema == table.read().schema


def test_table_as_of_a_time_has_the_rows_columns_and_instants_of_that_time(opened: penstock.Table, path: str) -> None:
    first = penstock.open_table(path).timeline()[0].requested_time
    then = opened.as_of(first)
    assert rows(then.read()) == rows(penstock.read(path, as_of=first)) != rows(opened.read())
    assert "n1" in opened.schema.names and "n1" not in then.schema.names
    assert then.schema == then.read().schema
    assert f"as of {first}" in repr(then) and "as of" not in repr(opened)
    assert [instant.requested_time for instant in penstock.open_table(path).as_of(first).timeline()] == [first]


def test_timeline_has_each_instant_with_its_times(path: str) -> None:
    table = penstock.open_table(path, timeline_timezone="UTC")
    instants = table.timeline()
    assert [instant.requested_time for instant in instants] == sorted(instant.requested_time for instant in instants)
    first = instants[0]
    assert (first.action, first.state, first.order_key) == ("deltacommit", "completed", first.completion_time)
    assert first.requested_at == datetime.strptime(first.requested_time + "000", "%Y%m%d%H%M%S%f").replace(tzinfo=UTC)
    assert first.completed_at and first.requested_at and first.completed_at > first.requested_at
    assert first.file == f"{first.requested_time}_{first.completion_time}.deltacommit"
    assert penstock.open_table(path).timeline()[0].requested_at is None, "a LOCAL timeline of an unknown zone"
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.action = "commit"  # type: ignore[misc]


def test_plan_has_the_splits_of_the_read_with_their_files(partitioned: str) -> None:
    table, folder = penstock.open_table(partitioned), pathlib.Path(partitioned)
    plan = table.plan()
    planned = [name for split in plan.splits for name in (split.base_file, *split.log_files) if name]
    assert len(planned) == len(set(planned)) and any(split.base_file and split.log_files for split in plan.splits)
    assert plan.bytes == sum((folder / name).stat().st_size for name in planned)
    assert plan.schema == table.read().schema
    assert f"{len(plan.splits)} splits" in repr(plan)
    first = plan.splits[0]
    part = table.plan(where=f"p = '{first.partition.removeprefix('p=')}'")
    assert part.splits == tuple(split for split in plan.splits if split.partition == first.partition) != plan.splits


def test_plan_of_changes_has_the_files_that_they_are_taken_from(path: str) -> None:
    changes = penstock.open_table(path).plan(query="cdc", after="earliest")
    assert changes.splits and all(split.base_file is None and split.log_files for split in changes.splits)
    assert all((pathlib.Path(path) / name).exists() for split in changes.splits for name in split.log_files)


def test_plan_of_a_server_is_that_of_the_path(opened: penstock.Table, path: str) -> None:
    assert opened.plan() == penstock.open_table(path).plan()


def test_repr_tells_what_the_table_is(opened: penstock.Table, path: str) -> None:
    text = repr(opened)
    newest = max(str(instant.order_key) for instant in penstock.open_table(path).timeline())
    for part in ("MERGE_ON_READ", "table version 9", "timeline layout 2", newest, "n1, n2"):
        assert part in text
    assert opened.path in text


def test_options_of_the_table_are_those_of_every_read_unless_it_has_its_own(path: str) -> None:
    table = penstock.open_table(path, columns=["id"], batchRows=1, limit=3)
    batches = list(table.read())
    assert [batch.num_rows for batch in batches] == [1, 1, 1] and batches[0].schema.names == ["id"]
    assert table.schema.names == table.scan().schema.names == ["id"]
    assert table.read(columns=["v"], batch_rows=10, limit=5).read_all().shape == (5, 1)
    assert table.scan().to_arrow().num_rows == 3


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"wheer": "x"}, "unknown option 'wheer': did you mean where"),
        ({"limit": -1}, "limit"),
        ({"group": "g"}, "does not apply here"),
    ],
)
def test_wrong_options_are_refused_at_once(path: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        penstock.open_table(path, **options)
    table = penstock.open_table(path)
    for call in (table.read, table.plan, table.scan, table.changes):
        with pytest.raises(ConfigurationError, match=text):
            call(**options)


def test_missing_table_is_not_found_at_once(tmp_path: pathlib.Path) -> None:
    with pytest.raises(TableNotFound, match="nothing"):
        penstock.open_table(tmp_path / "nothing")


def test_server_is_chosen_when_the_table_is_opened(path: str, opened: penstock.Table) -> None:
    with pytest.raises(ConfigurationError, match=r"open_table chooses the server"):
        opened.read(server="127.0.0.1:1")


def test_timeline_of_a_server_is_that_of_the_path(opened: penstock.Table, path: str) -> None:
    by_path = penstock.open_table(path, timeline_timezone="UTC")
    instants = by_path.timeline()
    assert len(instants) > 1 and opened.as_of(instants[-1].requested_time).timeline() == opened.timeline()
    assert opened.timeline() == tuple(
        dataclasses.replace(instant, requested_at=None, completed_at=None) for instant in instants
    )
    assert [instant.requested_time for instant in opened.as_of(instants[0].requested_time).timeline()] == [
        instants[0].requested_time
    ]
    with pytest.raises(ConfigurationError, match="set the option timelineTimezone"):
        opened.as_of(date(2026, 11, 20)).timeline()


@pytest.mark.parametrize("at", ["open_table", "read", "changes", "plan", "scan"])
def test_warning_is_given_once_at_the_line_of_the_caller(path: str, at: str) -> None:
    unused: dict[str, Any] = {"hoodie.memory.compaction.fraction": "0.5"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = penstock.open_table(path, **(unused if at == "open_table" else {}))
        for _ in range(2):
            if at == "open_table":
                table.read(), table.scan().select("id").to_arrow(), table.schema
            else:
                getattr(table, at)(**unused)
    ((name, text),) = [(pathlib.Path(warning.filename).name, str(warning.message)) for warning in caught]
    assert name == "test_table.py"
    assert at in text and "hoodie.memory.compaction.fraction" in text


def test_schema_without_meta_columns_is_that_of_the_rows(golden: GoldenTables) -> None:
    opened = penstock.open_table(golden.table("A_evo_add_column_v9_h120"), meta=False)
    assert opened.schema == opened.read().schema == opened.scan().schema
    assert "_hoodie_commit_time" not in opened.schema.names
