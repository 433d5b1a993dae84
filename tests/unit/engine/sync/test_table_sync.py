"""One table, with a source and a target that fail between any two calls."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.layout import TargetLayout
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.targets.target import StoredTable, Write
from penstock.proto.errors import ConfigurationError, SchemaMismatch, StorageError, TargetConflict
from tests.unit.engine.sync.scripted import (
    COLUMNS,
    MemoryTarget,
    RandomFaults,
    ScriptedFeed,
    described,
    random_history,
    source_of,
)


def run_to_end(feed: ScriptedFeed, target: MemoryTarget, source: Any = None, *, restart: bool = False) -> int:
    """Steps until there is nothing new; after each error a new object continues. The number of errors."""
    failures = 0
    sync = TableSync(source or source_of(), feed, target, restart=restart)
    for _ in range(1_000):
        try:
            if sync.step() is None:
                return failures
        except StorageError:
            failures += 1
            sync = TableSync(source or source_of(), feed, target)
    raise AssertionError("no end")


@pytest.mark.parametrize("seed", range(80))
def test_copy_equals_source_whatever_fails(seed: int) -> None:
    rng = random.Random(seed)
    feed, expected = random_history(rng)
    feed.fault = RandomFaults(rng)
    target = MemoryTarget(RandomFaults(rng))
    run_to_end(feed, target)
    assert target.texts() == expected
    assert feed.fault.left < 40 or target.fault.left < 40


class Beside(MemoryTarget):
    """A wrong target: it stores the position after the transaction."""

    def write(self, write: Write) -> None:
        before = self.tables.get(write.table)
        positions = dict(before.positions) if before else {}
        self.fault, fault = (lambda where: None), self.fault
        super().write(write)
        self.tables[write.table] = StoredTable(layout=write.change.layout, positions=positions)
        self.fault = fault
        self.fault("between")
        self.tables[write.table] = StoredTable(
            layout=write.change.layout, positions={**positions, write.source: write.position}
        )


def test_position_beside_the_target_is_noticed() -> None:
    """Negative control: with a position that is stored in a second step, some copies have rows twice."""
    wrong = 0
    for seed in range(80):
        rng = random.Random(seed)
        feed, expected = random_history(rng)
        target = Beside(RandomFaults(rng, 0.4))
        run_to_end(feed, target)
        wrong += target.texts() != expected
    assert wrong > 5


def image(**values: Any) -> dict[str, Any]:
    return {"id": 1, "p": "a", "v": 1, **values}


def test_steps_report_load_and_changes() -> None:
    feed = ScriptedFeed([[image()], [image(id=2), image(id=3)]], [[("-D", image(id=3))]])
    target = MemoryTarget()
    sync = TableSync(source_of(), feed, target)
    steps = [sync.step() for _ in range(5)]
    assert [(step.rows, step.loaded, step.total, step.order_key) for step in steps if step] == [
        (0, 0, 0, ""),
        (1, 1, 2, ""),
        (2, 0, 0, "001"),
        (1, 0, 0, "002"),
    ]
    assert steps[4] is None


def test_source_without_a_commit_is_current_and_has_no_table() -> None:
    target = MemoryTarget()
    sync = TableSync(source_of(), ScriptedFeed(description=replace(described(), schema_json="")), target)
    assert sync.step() is None and not target.tables
    with pytest.raises(SchemaMismatch, match="no commit has recorded a schema"):
        sync.planned()


def test_plan_writes_nothing() -> None:
    target = MemoryTarget()
    layout = TableSync(source_of(), ScriptedFeed(), target).planned()
    assert layout.key == ("id", "p") and layout.columns.names == ["id", "p", "v"]
    assert not target.writes


def test_restart_loads_again() -> None:
    target = MemoryTarget()
    run_to_end(ScriptedFeed([[image()]]), target)
    other = ScriptedFeed([[image(id=9)]])
    run_to_end(other, target)
    assert [row["id"] for row in target.rows["t"]] == [1]
    run_to_end(other, target, restart=True)
    assert [row["id"] for row in target.rows["t"]] == [9]


def test_table_whose_position_is_lost_stops_until_it_is_loaded_again() -> None:
    target = MemoryTarget()
    run_to_end(ScriptedFeed([[image()]]), target)
    target.tables["t"] = StoredTable(layout=TargetLayout(pa.schema([]), ()), positions={}, lost="table t: log cleaned")
    feed = ScriptedFeed([[image(id=9)]])
    with pytest.raises(ConfigurationError, match=r"table t: log cleaned; load the table again \(--restart\)"):
        TableSync(source_of(), feed, target).step()
    shard = replace(source_of(), entry=replace(source_of().entry, source_column="_source"))
    with pytest.raises(ConfigurationError, match="remove the table"):
        TableSync(shard, feed, target, restart=True).step()
    run_to_end(feed, target, restart=True)
    assert [row["id"] for row in target.rows["t"]] == [9]


def test_other_source_of_a_table_stops_until_it_is_loaded_again() -> None:
    target = MemoryTarget()
    run_to_end(ScriptedFeed([[image()]]), target)
    moved = replace(source_of(), table="/other/t")
    with pytest.raises(SchemaMismatch, match=r"it is filled from /lake/t: got another source, /other/t"):
        TableSync(moved, ScriptedFeed([[image(id=2)]]), target).step()
    run_to_end(ScriptedFeed([[image(id=2)]]), target, moved, restart=True)
    assert [row["id"] for row in target.rows["t"]] == [2]
    assert list(target.tables["t"].positions) == ["/other/t"]


def test_shard_that_moved_stops_until_it_is_loaded_again() -> None:
    """Its rows are in the table already, under its name."""
    target, shard = MemoryTarget(), source_of("one", "all")
    run_to_end(ScriptedFeed([[image()]]), target, source_of("other", "all"))
    run_to_end(ScriptedFeed([[image()]]), target, shard)
    moved, feed = replace(shard, table="/new/one"), ScriptedFeed([[image(id=2)]])
    with pytest.raises(SchemaMismatch, match="its rows of one are those of /lake/one: got /new/one"):
        TableSync(moved, feed, target).step()
    assert len(target.rows["all"]) == 2
    run_to_end(feed, target, moved, restart=True)
    assert [(row["_source"], row["id"]) for row in target.rows["all"]] == [("other", 1), ("one", 2)]
    with pytest.raises(SchemaMismatch, match="are those of /new/one: got /lake/one"):
        TableSync(shard, feed, target).step()


@pytest.mark.parametrize("restart", [False, True])
def test_shard_of_another_name_stops(restart: bool) -> None:
    """Its rows are in the table already, under another name."""
    target, shard = MemoryTarget(), source_of("one", "all")
    run_to_end(ScriptedFeed([[image()]]), target, shard)
    with pytest.raises(SchemaMismatch, match=r"has the rows of /lake/one with the name one: got the name lake\.one"):
        TableSync(replace(shard, name="lake.one"), ScriptedFeed([[image()]]), target, restart=restart).step()
    assert len(target.rows["all"]) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source_column": "shard"}, "the target's source column is '_source', the job's 'shard'"),
        ({"source_column": "", "into": ""}, "the target's source column is '_source', the job's ''"),
        ({"key": ("id", "p", "v")}, r"have the key \(_source, id, p\), the source now has \(_source, id, p, v\)"),
    ],
)
def test_job_that_identifies_rows_in_another_way_stops(change: dict[str, Any], message: str) -> None:
    target, shard = MemoryTarget(), source_of("one", "all")
    feed = ScriptedFeed([[image()]], [[("+I", image(id=2))]])
    TableSync(shard, feed, target).step()
    other = replace(shard, entry=replace(shard.entry, **change))
    with pytest.raises(SchemaMismatch, match=message):
        TableSync(other, feed, target).step()


def test_another_process_is_a_conflict() -> None:
    target, feed = MemoryTarget(), ScriptedFeed([[image()], [image(id=2)]])
    one, other = (TableSync(source_of(), feed, target) for _ in range(2))
    one.step(), other.step()
    with pytest.raises(TargetConflict):
        one.step()
    assert len(target.rows["t"]) == 1


def with_column(name: str, kind: pa.DataType, columns: pa.Schema = COLUMNS) -> pa.Schema:
    return columns.append(pa.field(name, kind))


def widened(name: str, kind: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(one.name, kind if one.name == name else one.type) for one in COLUMNS])


def test_added_and_widened_columns_are_followed() -> None:
    wider = with_column("w", pa.string(), widened("v", pa.string()))
    commits = [[("-U", image(v="1", w=None)), ("+U", image(v="x", w="y"))]]
    feed = ScriptedFeed([[image(), image(id=2)]], commits, columns_later={1: wider})
    target = MemoryTarget()
    run_to_end(feed, target)
    changes = [write.change for write in target.writes]
    assert [(change.added, change.widened) for change in changes] == [((), ()), ((), ()), (("w",), ("v",))]
    assert {row["id"]: row["w"] for row in target.rows["t"]} == {1: "y", 2: None}


@pytest.mark.parametrize(
    ("later", "message"),
    [
        (COLUMNS.remove(5), "no longer has column v"),
        (widened("v", pa.int32()), "column v is int64 in the target, int32 in the source"),
        (widened("id", pa.float64()), "column id is int64 in the target, double in the source"),
    ],
    ids=["gone", "narrower", "key becomes a float"],
)
def test_other_changes_of_the_schema_stop_before_anything_is_written(later: pa.Schema, message: str) -> None:
    feed = ScriptedFeed([[image()]], [[("+I", {"id": 2, "p": "a"})]], columns_later={1: later})
    target = MemoryTarget()
    with pytest.raises(SchemaMismatch, match=message):
        run_to_end(feed, target)
    assert len(target.writes) == 2


def test_shards_fill_one_table() -> None:
    """A shard may lack a column, and have a narrower one; each has its own rows, also with equal keys."""
    narrow = widened("v", pa.int32())
    one = ScriptedFeed([[image(w="x")]], [[("-D", image(w="x"))]], with_column("w", pa.string()))
    other = ScriptedFeed([[image(v=7)]], [[("+I", image(id=2, v=8))]], narrow)
    target = MemoryTarget()
    for name, feed in (("one", one), ("other", other)):
        run_to_end(feed, target, source_of(name, "all"))
    assert sorted(map(str, target.rows["all"])) == sorted(
        str({"_source": "other", "id": number, "p": "a", "v": value, "w": None}) for number, value in ((1, 7), (2, 8))
    )
    layout = target.tables["all"].layout
    assert layout.key == ("_source", "id", "p") and layout.columns.field("v").type == pa.int64()
    run_to_end(ScriptedFeed([[image(id=5)]]), target, source_of("other", "all"), restart=True)
    assert [row["id"] for row in target.rows["all"]] == [5]


def test_shard_whose_type_does_not_fit_says_what_helps() -> None:
    """Not `--restart`: rows of the other shard are in the table."""
    target = MemoryTarget()
    for name in ("one", "other"):
        run_to_end(ScriptedFeed([[image()]]), target, source_of(name, "all"))
    later = ScriptedFeed([[image(v=0.5)]], columns=widened("v", pa.float64()))
    run_to_end(later, target, source_of("one", "all"), restart=True)
    assert [row["v"] for row in target.rows["all"]] == [1, 0.5]
    odd = ScriptedFeed([[image(v="x")]], columns=widened("v", pa.string()))
    with pytest.raises(
        SchemaMismatch, match=r"column v is double .*: rows of other sources are in the table: remove it"
    ):
        run_to_end(odd, target, source_of("one", "all"), restart=True)
    assert [row["v"] for row in target.rows["all"]] == [1, 0.5]


def test_narrow_shard_is_first() -> None:
    target = MemoryTarget()
    run_to_end(ScriptedFeed([[image()]], columns=widened("v", pa.int32())), target, source_of("one", "all"))
    run_to_end(ScriptedFeed([[image(v=1 << 40)]]), target, source_of("other", "all"))
    assert sorted(row["v"] for row in target.rows["all"]) == [1, 1 << 40]


def test_target_refuses_a_type_before_anything_is_written() -> None:
    class Strict(MemoryTarget):
        def check_columns(self, table: str, columns: pa.Schema) -> None:
            if "w" in columns.names:
                raise ConfigurationError("column w: no type")

    target = Strict()
    feed = ScriptedFeed([[image()]], [[("+I", image(w="x"))]], columns_later={1: with_column("w", pa.string())})
    with pytest.raises(ConfigurationError, match="column w"):
        run_to_end(feed, target)
    assert len(target.writes) == 2
