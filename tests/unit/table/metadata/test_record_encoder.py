"""Records of the partition `files` that Penstock encodes, and their schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile, InvariantViolation, TableError
from penstock.table.config.properties import load_properties
from penstock.table.hfile.reader import HFile
from penstock.table.hudi_table import HudiTable, open_table
from penstock.table.metadata.files import ALL_PARTITIONS, data_files, files_key, listing_of, partition_paths
from penstock.table.metadata.folder import FolderStorage
from penstock.table.metadata.metadata_table import METADATA_FOLDER
from penstock.table.metadata.record_encoder import PartitionFiles, encode_changes, encode_listing
from penstock.table.metadata.record_schema import RECORD_SCHEMA, block_schema
from penstock.table.metadata.records import RecordReader
from penstock.table.timeline.fields import Fields

SCHEMA = block_schema(RECORD_SCHEMA, "test")
PARTITIONS = st.sampled_from(["", "p=a", "p=b/q=c", "é"])
NAMES = st.sampled_from([f"{letter}-0_0-1-2_20260101000000000.parquet" for letter in "abcd"])
CHANGES = st.lists(
    st.builds(
        lambda partition, added, deleted: PartitionFiles(
            partition=partition, added=added, deleted=frozenset(deleted - {*added})
        ),
        PARTITIONS,
        st.dictionaries(NAMES, st.integers(1, 2**40), max_size=3),
        st.sets(NAMES, max_size=2),
    ),
    max_size=4,
    unique_by=lambda change: change.partition,
)


def records(data: bytes) -> dict[str, Fields]:
    reader = RecordReader(SCHEMA, "file")
    return {row.decode(): reader.read(value) for row, value in HFile(pa.BufferReader(data), "file").scan()}


@given(instants=st.lists(CHANGES, max_size=4))
@settings(max_examples=60, deadline=None)
def test_changes_of_instants_give_their_listing(instants: list[list[PartitionFiles]]) -> None:
    versions: dict[str, list[Fields | None]] = {}
    expected: dict[str, dict[str, int]] = {}
    for changes in instants:
        for key, record in records(encode_changes(changes, SCHEMA, "file")).items():
            versions.setdefault(key, []).append(record)
        for change in changes:
            if change.added:
                expected.setdefault(change.partition, {})
            files = expected.get(change.partition, {})
            for name, size_bytes in change.added.items():
                files[name] = max(size_bytes, files.get(name, 0))
            for name in change.deleted:
                files.pop(name, None)
    assert partition_paths(versions.get(ALL_PARTITIONS, ())) == expected.keys()
    for partition, files in expected.items():
        found = data_files(partition, versions.get(files_key(partition), ()))
        assert {file.file_name: file.ref.size_bytes for file in found} == files
    assert listing_of(versions) == expected
    base = {key: [record] for key, record in records(encode_listing(expected, SCHEMA, "file")).items()}
    assert listing_of(base) == expected


def test_deleted_partition_has_no_files() -> None:
    name = "a-0_0-1-2_20260101000000000.parquet"
    added = records(encode_changes([PartitionFiles(partition="p=a", added={name: 5})], SCHEMA, "file"))
    gone = PartitionFiles(partition="p=a", deleted=frozenset({name}), is_deleted=True)
    deleted = records(encode_changes([gone], SCHEMA, "file"))
    versions = {key: [added[key], deleted[key]] for key in added}
    assert listing_of(versions) == {} and not partition_paths(versions[ALL_PARTITIONS])


def test_record_of_nothing_lists_no_partition() -> None:
    (only,) = records(encode_changes([], SCHEMA, "file")).items()
    assert only[0] == ALL_PARTITIONS and not only[1].mapping("filesystemMetadata")


def test_file_without_bytes_and_reserved_partition_are_refused() -> None:
    with pytest.raises(InvariantViolation, match="x of 0 bytes"):
        encode_changes([PartitionFiles(partition="p", added={"x": 0})], SCHEMA, "file")
    with pytest.raises(TableError, match="__all_partitions__"):
        encode_changes([PartitionFiles(partition=ALL_PARTITIONS, added={"x": 1})], SCHEMA, "file")


@pytest.mark.parametrize("schema", ["", "{", '"string"', '{"type":"record","name":"x","fields":[]}', "[]"])
def test_schema_of_other_records_is_refused(schema: str) -> None:
    with pytest.raises(CorruptFile, match="file"):
        encode_changes([PartitionFiles(partition="p", added={"x": 1})], schema, "file")
    if "record" not in schema:
        with pytest.raises(CorruptFile, match="file is damaged: its schema"):
            block_schema(schema, "file")


def without_texts(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {key: without_texts(value) for key, value in node.items() if key != "doc"}
    return [without_texts(item) for item in node] if isinstance(node, list) else node


@pytest.mark.golden
def test_schema_is_that_of_hudi(golden: Any) -> None:
    table = open_table(str(golden.table("A_mdt_all_v9_h120")))
    storage = FolderStorage(table.storage, METADATA_FOLDER)
    metadata = HudiTable(storage, load_properties(storage))
    recorded = metadata.commit(metadata.timeline().completed_writes[-1]).schema_json
    assert without_texts(json.loads(recorded)) == json.loads(RECORD_SCHEMA)
    base = next(info for info in storage.list_dir("files") if info.name.endswith(".hfile"))
    stored = HFile(pa.BufferReader(storage.read_bytes(base.path, 1 << 20)), "base").info()[b"schema"]
    assert json.loads(block_schema(recorded, "base")) == json.loads(stored)
