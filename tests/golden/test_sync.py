"""`penstock sync` of golden tables into DuckDB: after each commit, and at the end Hudi's own rows."""

from __future__ import annotations

import pathlib
import shutil
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pytest

import penstock
from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.job import SyncEntry, TargetUrl
from penstock.engine.sync.layout import RECORD_KEY
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.targets.duckdb import DuckDBTarget
from penstock.proto.errors import ConfigurationError, PenstockError, PositionExpired
from penstock.proto.model.positions import EARLIEST
from penstock.proto.model.streams import StartAfter
from penstock.table.schema.avro import META_COLUMNS
from tests.golden.catalogue import counted_entries
from tests.golden.rows import difference
from tests.golden.test_changes_fold import BY_COMPACTION, STORED_KINDS, omitted
from tests.golden_tables import GoldenTables

pytestmark = pytest.mark.golden


class Golden(Protocol):
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...
    def names(self) -> list[str]: ...
    def table(self, name: str) -> pathlib.Path: ...
    def expected(self, name: str, query_id: str) -> pa.Table: ...
    def case(self, name: str) -> dict[str, Any]: ...


NAMES = GoldenTables(pathlib.Path()).names()
BY_COMMITS = [
    name
    for number, name in enumerate(NAMES)
    if ("v9" in name and number % 2) or name.startswith(("A_evo", "A_delete_all", "B_v6", "D_evolved"))
]
"""A half of the tables of the newest version, and tables whose timeline or schema has a history."""
HUDI = {entry.case for entry in counted_entries() if entry.query_id == "snapshot" and not entry.columns_by_name}
"""Tables whose snapshot in the catalogue is right, and was read by Hudi with the default options."""
HELD_BACK = ("A_failed_leftover_v6_h0150", "B_v6_ooo_cow_cdc_pending")
"""Tables of layout 1 with a pending write: positions do not pass it, a snapshot has what completed after it."""
CLEANED = (
    "A_mdt_all_v9_h120",
    "B_up_mor_v9",
    "B_v6_arch_mor",
    "B_v6_timeline_mor",
    "B_v6_timeline_mor_pending_compaction",
    "B_v9_arch_mor",
    "B_v9_timeline_mor",
    "B_v9_timeline_mor_pending_compaction",
)
"""Tables of which a clean removed files that their first commits need."""


class FromTheStart(TableFeed):
    """Starts before the first commit instead of with a snapshot, and has one commit in a round."""

    def start(self) -> str:
        scope = self._streamed()
        return self._text(self._enumerator.start_stream(scope, StartAfter(EARLIEST)))


def source_of(table: pathlib.Path, **options: Any) -> SourceTable:
    entry = SyncEntry(source=str(table), target=TargetUrl("duckdb", ""), options=options)
    return SourceTable(entry=entry, name=table.name, table=str(table), target_table="t")


def rows_of(golden: Golden, name: str) -> pa.Table:
    """Hudi's snapshot, else that of `penstock.read`."""
    if name in HUDI:
        return golden.expected(name, "snapshot")
    return penstock.read(golden.table(name)).read_all()


def copied(path: pathlib.Path) -> pa.Table:
    with duckdb.connect(str(path), read_only=True) as copy:
        copy.execute("SET TimeZone = 'UTC'")
        return copy.sql("SELECT * FROM t").to_arrow_table()


def same(copy: pa.Table, rows: pa.Table, without: tuple[str, ...] = ()) -> str:
    """Compares without Hudi's columns, but those of its key if the copy has them."""
    left_out = {*without, *META_COLUMNS} - set(RECORD_KEY)
    left_out |= set(RECORD_KEY) - set(copy.column_names)
    kept = [name for name in rows.column_names if name not in left_out]
    return difference(copy.drop_columns([name for name in without if name in copy.column_names]), rows.select(kept))


def run(sync: TableSync) -> int:
    """Steps until there is nothing new; the number of transactions."""
    steps = 0
    while sync.step() is not None:
        steps += 1
    return steps


@pytest.mark.parametrize("name", NAMES[::8])
def test_snapshot(golden: Golden, name: str, tmp_path: pathlib.Path) -> None:
    """Loaded in parts of one file."""
    source = source_of(golden.table(name), maxFilesPerTrigger=1, maxBytesPerTrigger=1)
    target = DuckDBTarget(str(tmp_path / "copy.db"))
    try:
        run(TableSync(source, TableFeed(source.table, source.entry.options, {}), target))
    except PenstockError as error:
        _refused_by_a_read(golden.table(name), error)
        return
    finally:
        target.close()
    is_equal = same(copied(tmp_path / "copy.db"), rows_of(golden, name)) == ""
    assert is_equal == (name not in HELD_BACK)


@pytest.mark.sampled(2, rest=50)
@pytest.mark.parametrize("name", BY_COMMITS)
def test_every_commit(golden: Golden, name: str, tmp_path: pathlib.Path) -> None:
    """From the first commit on, one commit in a transaction: inserts, updates, deletes, moves, new columns."""
    if STORED_KINDS.match(name) or name == BY_COMPACTION:
        return
    source = source_of(golden.table(name), maxCommitsPerTrigger=1)
    target = DuckDBTarget(str(tmp_path / "copy.db"))
    try:
        steps = run(TableSync(source, FromTheStart(source.table, source.entry.options, {}), target))
    except PositionExpired:
        assert name in CLEANED
        return
    except PenstockError as error:
        _refused_by_a_read(golden.table(name), error)
        return
    finally:
        target.close()
    assert steps > 1 and name not in CLEANED
    rows, copy = rows_of(golden, name), copied(tmp_path / "copy.db")
    if name.startswith("A_delete_all_reinsert"):  # it has several rows of one key, of which a copy keeps one
        ids = rows["id"].to_pylist()
        assert sorted(copy["id"].to_pylist()) == sorted(set(ids)) and len(ids) > len(copy)
        return
    assert (same(copy, rows, omitted(name)) == "") == (name not in HELD_BACK)


def _refused_by_a_read(table: pathlib.Path, error: PenstockError) -> None:
    """A read of the same changes is refused, too."""
    with pytest.raises(PenstockError) as refused:
        penstock.read(table, query="cdc", after="earliest").read_all()
    assert {type(error).__name__, refused.type.__name__} <= {type(error).__name__, "StorageError", "CorruptFile"}


@pytest.mark.parametrize("name", ["A_nonpart_nometa_v9_h120", "A_nonpart_nometa_v6_h0150"])
def test_table_without_meta_columns_stops_before_anything_is_written(
    golden: Golden, name: str, tmp_path: pathlib.Path
) -> None:
    """Its rows do not hold their instant, so that neither Hudi nor Penstock reads changes of it."""
    source = source_of(golden.table(name))
    target = DuckDBTarget(str(tmp_path / "copy.db"))
    with pytest.raises(ConfigurationError, match=r"a table without meta columns.*and Hudi refuses it, too"):
        run(TableSync(source, TableFeed(source.table, {}, {}), target))
    target.close()
    assert not (tmp_path / "copy.db").exists()


@pytest.mark.parametrize("kind", ["cow_cdc", "mor"])
def test_upgraded_table_is_followed(golden: Golden, kind: str, tmp_path: pathlib.Path) -> None:
    """The same table as version 6, 8 and 9, with commits after each upgrade: nothing is loaded again."""
    place, target = tmp_path / "t", DuckDBTarget(str(tmp_path / "copy.db"))
    rows = []
    for name in [f"B_up_{kind}_v{version}" for version in (6, 8, 9)]:
        if place.exists():
            shutil.rmtree(place)
        shutil.copytree(golden.table(name), place)
        source = source_of(place)
        sync = TableSync(source, TableFeed(source.table, {}, {}), target)
        steps = []
        while (step := sync.step()) is not None:
            steps.append(step)
        rows.append(sum(one.rows for one in steps))
        target.close()
        assert same(copied(tmp_path / "copy.db"), rows_of(golden, name)) == "", name
    assert all(rows)


def test_comparison_notices_a_row(golden: Golden, tmp_path: pathlib.Path) -> None:
    """Negative control: a copy with one row less, or one other value, is not equal."""
    name = "B_v9_inc_cow"
    source = source_of(golden.table(name))
    target = DuckDBTarget(str(tmp_path / "copy.db"))
    run(TableSync(source, TableFeed(source.table, {}, {}), target))
    target.close()
    copy, rows = copied(tmp_path / "copy.db"), rows_of(golden, name)
    assert same(copy, rows) == ""
    assert same(copy.slice(1), rows) != ""
    assert same(pa.concat_tables([copy, copy.slice(0, 1)]), rows) != ""
