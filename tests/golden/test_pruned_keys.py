"""Reads by record key on golden tables with a bucket index or a record index: pruned rows equal the full read's."""

from __future__ import annotations

import pathlib
from dataclasses import replace
from typing import Protocol

import pytest

from penstock.enumerator.planning.pruning import bucket_hash, groups
from penstock.enumerator.planning.pruning.pruned_plan import Reason
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.queries import Query, ReadOptimized, Snapshot, SnapshotAsOf
from penstock.table.files.buckets import BUCKETS, HASHING_FOLDER, INDEX_TYPE
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.metadata.key_groups import group_number, keys_by_group
from penstock.table.metadata.metadata_table import MetadataTable, open_metadata_table
from penstock.table.metadata.record_index import RECORD_INDEX
from tests.pruned_keys import KeyReads, check, reads_by_key

pytestmark = pytest.mark.golden

ABSENT = ("absent", "id-999", "k:1", "k,1")


class Golden(Protocol):
    def table(self, name: str) -> pathlib.Path: ...
    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path: ...


def with_buckets(path: pathlib.Path, buckets: int) -> HudiTable:
    """The table as if `create_table` had recorded its bucket index, which Hudi does not."""
    table = open_table(str(path))
    raw = {**table.properties.raw, INDEX_TYPE: "BUCKET", BUCKETS: str(buckets)}
    return HudiTable(table.storage, replace(table.properties, raw=raw))


def by_key(table: HudiTable, query: Query) -> KeyReads:
    fields = table.properties.record_key_fields
    return reads_by_key(table, query, ABSENT, fields[0] if len(fields) == 1 else "")


@pytest.mark.parametrize(("case", "buckets"), [("A_bucket_index_v9_h120", 3), ("B_v9_cdc_mor_bucket", 2)])
def test_bucket_hash_keeps_every_row(golden: Golden, case: str, buckets: int) -> None:
    table = with_buckets(golden.table(case), buckets)
    times = [item.requested_time for item in table.timeline().completed_writes]
    queries: list[Query] = [Snapshot(), ReadOptimized(), *(SnapshotAsOf(InstantTime(time)) for time in times[1::3])]
    for query in queries:
        check(by_key(table, query), Reason.BUCKET_HASH)


def test_a_wrong_hash_would_lose_rows(golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the comparison."""
    monkeypatch.setattr(bucket_hash, "bucket_of_key", lambda key, buckets: len(key) % buckets)
    assert by_key(with_buckets(golden.table("A_bucket_index_v9_h120"), 3), Snapshot()).wrong


def test_a_number_above_that_of_the_files_excludes_nothing(golden: Golden) -> None:
    reads = by_key(with_buckets(golden.table("A_bucket_index_v9_h120"), 5), Snapshot())
    assert not reads.wrong and not reads.excluded[Reason.BUCKET_HASH]


def test_a_number_that_the_files_contradict_excludes_nothing(golden: Golden) -> None:
    reads = by_key(with_buckets(golden.table("A_bucket_index_v9_h120"), 2), Snapshot())
    assert not reads.wrong and not reads.excluded[Reason.BUCKET_HASH]


def test_consistent_hashing_excludes_nothing(golden: Golden, tmp_path: pathlib.Path) -> None:
    path = golden.copy("A_bucket_index_v9_h120", tmp_path)
    (path / HASHING_FOLDER).mkdir()
    assert not by_key(with_buckets(path, 5), Snapshot()).wrong


def test_groups_without_buckets_exclude_nothing(golden: Golden) -> None:
    reads = by_key(with_buckets(golden.table("A_merge_commit_long_v9_h120"), 4), Snapshot())
    assert reads.groups and not reads.wrong and not reads.excluded[Reason.BUCKET_HASH]


def metadata_of(table: HudiTable) -> MetadataTable:
    opened = open_metadata_table(table, table.timeline())
    assert isinstance(opened, MetadataTable)
    return opened


def test_each_key_of_a_record_index_is_in_the_group_of_its_hash(golden: Golden) -> None:
    metadata = metadata_of(open_table(str(golden.table("A_mdt_all_v9_h120"))))
    keys = list(metadata.records(RECORD_INDEX, None))
    chosen = metadata.visible(RECORD_INDEX)
    assert len(chosen) == 10 and len(keys) > 20
    by_group = {files.files[0].name.file_id: set(wanted) for files, wanted in keys_by_group(chosen, keys).items()}
    found = metadata.records_by_group(RECORD_INDEX, lambda all_groups: dict.fromkeys(all_groups, keys))
    for number, records in enumerate(found):
        assert set(records) == by_group.get(f"record-index-{number:04d}-0", set())
        assert all(group_number(key, 10) == number for key in records)


def test_a_table_by_event_time_with_logs_is_not_pruned_by_its_record_index(
    golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete that loses against an older row is a delete in the index."""
    monkeypatch.setattr(groups, "FEW_FILES", 0)
    table = open_table(str(golden.table("A_mdt_all_v9_h120")))
    for query in (Snapshot(), ReadOptimized()):
        reads = by_key(table, query)
        assert not reads.wrong and Reason.RECORD_INDEX not in reads.excluded
    monkeypatch.setattr(groups, "is_of_newest_rows", lambda state: True)
    assert by_key(table, Snapshot()).wrong and by_key(table, ReadOptimized()).wrong


def test_a_damaged_record_index_excludes_nothing(
    golden: Golden, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "FEW_FILES", 0)
    monkeypatch.setattr(groups, "is_of_newest_rows", lambda state: True)
    path = golden.copy("A_mdt_all_v9_h120", tmp_path)
    assert by_key(open_table(str(path)), Snapshot()).excluded[Reason.RECORD_INDEX]
    for file in (path / ".hoodie/metadata" / RECORD_INDEX).glob("*.hfile"):
        file.write_bytes(b"damaged" * 1000)
    reads = by_key(open_table(str(path)), Snapshot())
    assert not reads.wrong and not reads.excluded[Reason.RECORD_INDEX]
    assert any("damaged" in why for why in reads.unused)
