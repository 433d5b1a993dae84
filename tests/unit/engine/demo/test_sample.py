"""The packaged table is complete and consistent with its expectations."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.engine.demo.comparison import compare_rows
from penstock.engine.demo.sample import load_sample, packaged_data, unpack_new, unpack_table
from penstock.engine.demo.server_process import Handout, HandoutSummary, handouts, summary
from penstock.proto.errors import ConfigurationError
from penstock.proto.logging import event_text


def test_commits_are_in_order_and_hold_late_and_deleted_rows() -> None:
    sample = load_sample(packaged_data())
    keys = [commit.order_key for commit in sample.commits]
    assert keys == sorted(keys)
    assert len(sample.data_commits) == len(sample.commits) - 1
    assert [commit.rows.num_rows for commit in sample.commits if not commit.is_data] == [0]


def test_every_row_of_the_snapshot_was_written_last_by_one_commit() -> None:
    """Rows of a commit that no later commit wrote are the rows of this commit in the snapshot."""
    sample = load_sample(packaged_data())
    for commit in sample.commits:
        of_commit = sample.snapshot.filter(pc.equal(sample.snapshot["_hoodie_commit_time"], commit.requested_time))
        written = commit.rows.filter(
            pc.is_in(commit.rows["_hoodie_record_key"], value_set=of_commit["_hoodie_record_key"].combine_chunks())
        )
        left_out = {"_hoodie_file_name"}  # a compaction may have moved the row to another file
        assert compare_rows(written.drop_columns(list(left_out)), of_commit.drop_columns(list(left_out))).is_empty
    assert pa.compute.count_distinct(sample.snapshot["_hoodie_record_key"]).as_py() == sample.snapshot.num_rows


def test_sample_table_is_unpacked_into_the_folder(tmp_path: pathlib.Path) -> None:
    table = unpack_table(packaged_data(), tmp_path / "orders")
    assert (table / ".hoodie" / "hoodie.properties").is_file()
    assert {path.name for path in table.iterdir() if path.is_dir()} > {".hoodie", "country=NO"}


def test_new_table_gets_its_name_and_replaces_nothing(tmp_path: pathlib.Path) -> None:
    table = unpack_new(packaged_data(), tmp_path / "lake")
    assert table == tmp_path / "lake" / "orders"
    before = sorted(table.rglob("*"))
    assert table / ".hoodie" / "hoodie.properties" in before
    with pytest.raises(ConfigurationError, match="exists already"):
        unpack_new(packaged_data(), tmp_path / "lake")
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        unpack_new(packaged_data(), tmp_path / "file")
    assert sorted(table.rglob("*")) == before


def test_split_assignments_are_read_from_the_server_log() -> None:
    assigned = [
        event_text("split assigned", plan="p1", slot=slot, index=0, split=split, partition="a b")
        for slot, split in ((0, "s-1"), (1, "s 2"))
    ]
    other = [event_text("plan opened", plan="p1", slots=2), event_text("slot sealed", plan="p1", slot=0, index=1)]
    log = "\n".join(f"2026-01-01 INFO penstock.enumerator: {line}" for line in [*other, *assigned])
    assert handouts(log) == (Handout("p1", 0, "s-1"), Handout("p1", 1, "s 2"))


def test_split_assigned_twice_is_reported() -> None:
    once = [Handout("p", 0, "a"), Handout("p", 1, "b"), Handout("q", 0, "a")]
    assert summary(once) == HandoutSummary(splits=3, plans=2, slots=3, most_slots=2, repeated=())
    assert summary([*once, Handout("p", 1, "a")]).repeated == ("a",)
    assert summary([]) == HandoutSummary(splits=0, plans=0, slots=0, most_slots=0, repeated=())
