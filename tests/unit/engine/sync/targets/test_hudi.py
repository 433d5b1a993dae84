"""What is particular to a target of Hudi tables. `test_contract` has the rest."""

from __future__ import annotations

import itertools
import pathlib
import time
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.sync.job import parse_target
from penstock.engine.sync.layout import TargetLayout, followed
from penstock.engine.sync.targets.hudi import hudi_target, served_tables
from penstock.engine.sync.targets.hudi.hudi_target import HudiTarget
from penstock.engine.sync.targets.hudi.stored_state import SYNC
from penstock.engine.write.create import create_table
from penstock.engine.write.service.served_timeline import ServedTimeline
from penstock.enumerator.server.assembly import TableFunctions
from penstock.enumerator.server.run import serve
from penstock.proto.client.client import EnumeratorClient
from penstock.proto.errors import ConfigurationError, SchemaMismatch, TargetConflict, TargetUnavailable
from penstock.table.hudi_table import open_table
from penstock.table.timeline.instants import Action
from tests.unit.engine.sync.targets.writes import COLUMNS, History, Row, write


def rows_of(path: pathlib.Path, columns: pa.Schema = COLUMNS) -> list[Row]:
    """The rows of the table, sorted."""
    found = penstock.read(str(path)).read_all().select(columns.names).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


@pytest.fixture
def target(tmp_path: pathlib.Path) -> HudiTarget:
    return HudiTarget(f"{tmp_path}?buckets=2")


@pytest.mark.parametrize("options", ["", "?table_type=copy_on_write", "?table_version=6&buckets=1"])
def test_table_has_the_key_of_the_rows_and_each_write_is_an_instant(tmp_path: pathlib.Path, options: str) -> None:
    target = HudiTarget(f"{tmp_path}{options}")
    target.write(write("p1", [("a", 1, "x"), ("b", 2, "y")]))
    target.write(write("p2", [("b", 2, "z")], [("a", 1), ("b", 2)], expected="p1"))
    table = open_table(str(tmp_path / "orders"))
    assert table.properties.record_key_fields == ("k", "n") and not table.properties.partition_fields
    assert table.properties.is_merge_on_read == ("copy_on_write" not in options)
    assert table.properties.version == (6 if "version=6" in options else 9)
    extras = [table.commit(one).extra for one in table.timeline().completed_writes]
    assert [SYNC in extra for extra in extras] == [True, True]
    assert rows_of(tmp_path / "orders") == [("b", 2, "z")]


def test_source_may_have_the_delete_marker(target: HudiTarget, tmp_path: pathlib.Path) -> None:
    columns = COLUMNS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    layout = TargetLayout(columns, ("k", "n"))
    target.check_columns("orders", columns)
    target.write(write("p1", [("a", 1, "x", False), ("b", 1, "y", None)], layout=layout))
    target.write(write("p2", [("c", 1, "z", False)], [("a", 1)], expected="p1", layout=layout))
    assert rows_of(tmp_path / "orders", columns) == [("b", 1, "y", None), ("c", 1, "z", False)]


def test_write_without_rows_stores_its_position(target: HudiTarget) -> None:
    target.write(write("p1"))
    target.write(write("p2", expected="p1"))
    stored = target.stored("orders")
    assert stored is not None and stored.positions == {"/lake/orders": "p2"}


def test_rows_of_one_key_are_one_row(target: HudiTarget, tmp_path: pathlib.Path) -> None:
    """The last one, also in a first load, so that no key is repeated."""
    target.write(write("p1", [("a", 1, "x"), ("a", 1, "y"), ("b", 1, "z")]))
    assert rows_of(tmp_path / "orders") == [("a", 1, "y"), ("b", 1, "z")]
    assert target.repeated_key("orders", "orders") == ""


def test_keys_may_be_null_in_part_and_not_as_a_whole(target: HudiTarget, tmp_path: pathlib.Path) -> None:
    target.write(write("p1", [(None, 1, "x"), ("a", None, "y")]))
    target.write(write("p2", [], [(None, 1)], expected="p1"))
    with pytest.raises(SchemaMismatch, match="all key columns k, n are null or empty in row 0"):
        target.write(write("p3", [(None, None, "z")], expected="p2"))
    assert rows_of(tmp_path / "orders") == [("a", None, "y")]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_changes_give_the_rows_of_a_model(target: HudiTarget, tmp_path: pathlib.Path, seed: int) -> None:
    """Without keys that are null or empty as a whole."""
    history = History(seed)
    model: dict[tuple[Any, ...], Row] = {}
    for number in range(12):
        one = history.write(number)
        rows = [row for batch in one.rows for row in zip(*batch.to_pydict().values(), strict=True)]
        removed = [] if one.removed is None else list(zip(*one.removed.to_pydict().values(), strict=True))
        rows, removed = ([row for row in some if row[0] or row[1] is not None] for some in (rows, removed))
        for key in removed:
            model.pop(key, None)
        model.update({row[:2]: row for row in rows})
        target.write(write(f"p{number}", rows, removed, expected=f"p{number - 1}" if number else None))
        assert rows_of(tmp_path / "orders") == sorted(model.values(), key=repr)


def test_columns_are_added_and_widened_as_the_writer_does(target: HudiTarget, tmp_path: pathlib.Path) -> None:
    old = TargetLayout(pa.schema([("k", pa.int32()), ("d", pa.decimal128(5, 2)), ("i", pa.int32())]), ("k",))
    fields = [("k", pa.int64()), ("d", pa.decimal128(12, 2)), ("i", pa.int64()), ("more", pa.list_(pa.string()))]
    new = TargetLayout(pa.schema(fields), ("k",))
    target.write(write("p1", [(1, Decimal("1.25"), 7), (2, None, 8)], layout=old))
    change = followed("orders", old, new)
    target.write(write("p2", [(2**40, None, 5, ["y"])], expected="p1", layout=new, change=change, base=old))
    target.write(write("p3", [], [(2,)], expected="p2", layout=new))
    target.write(write("p4", [(3, Decimal("2.50"), 2**40, None)], expected="p3", layout=new))
    expected = [(1, Decimal("1.25"), 7, None), (2**40, None, 5, ["y"]), (3, Decimal("2.50"), 2**40, None)]
    assert rows_of(tmp_path / "orders", new.columns) == sorted(expected, key=repr)
    text = TargetLayout(pa.schema([("k", pa.string()), *fields[1:]]), ("k",))
    with pytest.raises(SchemaMismatch, match="column 'k' is string, and int64 in the table"):
        target.write(write("p5", [], expected="p4", layout=text, change=followed("orders", new, text), base=new))


def test_columns_and_names_that_no_table_has_are_refused(target: HudiTarget) -> None:
    for columns, text in (
        (pa.schema([("k", pa.time64("us"))]), "no Hudi table holds this type"),
        (pa.schema([("a b", pa.int32())]), "a b"),
        (pa.schema([("_hoodie_record_key", pa.string())]), "column _hoodie_record_key is Hudi's own"),
        (pa.schema([("_hoodie_operation", pa.string())]), "column _hoodie_operation is Hudi's own"),
        (pa.schema([("_hoodie_is_deleted", pa.string())]), "is string, and Hudi takes it for the delete marker"),
    ):
        with pytest.raises(ConfigurationError, match=text):
            target.check_columns("orders", columns)
    assert target.types_of(COLUMNS) == ["string", "int", "string"]


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("/x?bucket=2", "option 'bucket': expected buckets, table_type, table_version"),
        ("/x?buckets=0", "buckets: got '0', expected 1 to 1000"),
        ("/x?table_type=both", "table_type: got 'both', expected merge_on_read or copy_on_write"),
        ("/x?table_version=8", "table_version: got '8', expected 6 or 9"),
        ("s3://bucket/x", "Hudi tables are written in local folders only"),
    ],
)
def test_options_are_checked(place: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        HudiTarget(place)


def test_url_has_the_options() -> None:
    assert parse_target("test", "hudi:////lake?buckets=3").place == "/lake?buckets=3"


def test_table_that_no_sync_fills_is_refused(target: HudiTarget, tmp_path: pathlib.Path) -> None:
    penstock.create_table(str(tmp_path / "orders"), COLUMNS, record_key="k", buckets=1)
    penstock.write(str(tmp_path / "orders"), pa.table([["a"], [1], ["x"]], schema=COLUMNS))
    with pytest.raises(ConfigurationError, match="there is a table that a sync did not create"):
        target.stored("orders")
    with pytest.raises(ConfigurationError, match="there is a table that a sync did not create"):
        target.write(write("p1", [("b", 1, "x")]))


def test_commits_of_others_stay_and_hide_no_position(target: HudiTarget, tmp_path: pathlib.Path) -> None:
    """Such as those of table services, or of a user who mends a row."""
    target.write(write("p1", [("a", 1, "x")]))
    penstock.write(str(tmp_path / "orders"), pa.table([["b"], [1], ["y"]], schema=COLUMNS))
    target.write(write("p2", [("c", 1, "z")], expected="p1"))
    assert rows_of(tmp_path / "orders") == [("a", 1, "x"), ("b", 1, "y"), ("c", 1, "z")]


def test_process_that_lost_the_race_changes_nothing(
    target: HudiTarget, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one commits after this one has looked at the position."""
    target.write(write("p1", [("a", 1, "x")]))
    other, open_write = HudiTarget(str(tmp_path)), hudi_target.open_write

    def overtaken(*arguments: Any) -> Any:
        planned = open_write(*arguments)
        monkeypatch.setattr(hudi_target, "open_write", open_write)
        other.write(write("p2", [("b", 1, "y")], expected="p1"))
        return planned

    monkeypatch.setattr(hudi_target, "open_write", overtaken)
    with pytest.raises(TargetConflict, match=r"got position p2 of /lake/orders, expected 'p1'|got position 'p2'"):
        target.write(write("p2", [("a", 1, "late")], expected="p1"))
    assert rows_of(tmp_path / "orders") == [("a", 1, "x"), ("b", 1, "y")]


def test_table_is_maintained_from_time_to_time(target: HudiTarget, tmp_path: pathlib.Path) -> None:
    for number in range(10):
        target.write(write(f"p{number}", [("a", number, "x")], expected=f"p{number - 1}" if number else None))
    writes = open_table(str(tmp_path / "orders")).timeline().completed_writes
    assert Action.COMMIT in {one.action for one in writes}, "a compaction"
    assert len(rows_of(tmp_path / "orders")) == 10


def test_tables_are_written_through_a_server(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server gets the table; a process that starts later fences the one before, which then sees its position."""
    starts = itertools.count(time.time_ns(), 1_000_000)
    monkeypatch.setattr(served_tables, "time", SimpleNamespace(time_ns=lambda: next(starts)))  # not in one millisecond
    other = tmp_path / "other"
    create_table(str(other), pa.schema([("k", pa.string())]), record_key="k", buckets=1)
    with serve({"taken": str(other)}, "127.0.0.1:0", functions=TableFunctions(timelines=ServedTimeline)) as server:
        place = f"{tmp_path}?buckets=2&server={server.address}"
        first, second = HudiTarget(place), HudiTarget(place)
        first.write(write("p1", [("a", 1, "x"), ("b", 2, "y")]))
        second.write(write("p2", [("b", 2, "z")], [("a", 1), ("b", 2)], expected="p1"))
        with pytest.raises(TargetConflict, match="another process fills this table"):
            first.write(write("p2", [("b", 2, "z")], [("a", 1), ("b", 2)], expected="p1"))
        with pytest.raises(TargetUnavailable, match="of this owner has begun"):
            first.write(write("p3", [("c", 1, "z")], expected="p2"))
        assert rows_of(tmp_path / "orders") == [("b", 2, "z")]
        client = EnumeratorClient(server.address)
        assert client.describe_table("orders").base_path == str(tmp_path / "orders") and not client.list_writes()
        with pytest.raises(ConfigurationError, match=r"has a table of this name at .*other"):
            HudiTarget(place).write(replace(write("p1", [("a", 1, "x")]), table="taken"))


def test_connection_needs_a_server(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="option serverToken without `server`"):
        HudiTarget(f"{tmp_path}?serverToken=file")
