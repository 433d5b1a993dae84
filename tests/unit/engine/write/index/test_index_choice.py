"""The index of a write: given, stored, or refused with the reason."""

from __future__ import annotations

import pathlib

import pytest

from penstock.engine.write.index.index_choice import BucketIndex, Index, KeyIndex, UncountedBuckets, chosen_index
from penstock.engine.write.operations import Operation, parse_operation
from penstock.proto.errors import ConfigurationError, PenstockError, UnsupportedFeature
from penstock.table.config.properties import TableProperties, load_properties
from penstock.table.storage.local_writes import LocalStorage
from tests.unit.engine.write.recorded_storage import Lake


@pytest.fixture
def tables(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, TableProperties]:
    """Properties of a table with each index, and of one that names none."""
    kinds = {index: (9, "merge_on_read", index) for index in ("bucket", "simple")}
    paths = {index: Lake(tmp_path / index, kind, monkeypatch).path for index, kind in kinds.items()}
    found = {name: load_properties(LocalStorage(str(path))) for name, path in paths.items()}
    file = paths["simple"] / ".hoodie/hoodie.properties"
    file.write_text("".join(line for line in file.read_text().splitlines(keepends=True) if "index.type" not in line))
    return {**found, "none": load_properties(LocalStorage(str(paths["simple"])))}


@pytest.mark.parametrize(
    ("table", "index", "buckets", "expected"),
    [
        ("bucket", None, None, BucketIndex(2)),
        ("bucket", "bucket", 2, BucketIndex(2)),
        ("simple", None, None, KeyIndex()),
        ("none", "BUCKET", 7, BucketIndex(7)),
        ("none", "bucket", None, UncountedBuckets()),
        ("none", "simple", None, KeyIndex()),
        ("none", "bloom", None, KeyIndex(reads_footers=True)),
        ("none", "GLOBAL_SIMPLE", None, KeyIndex(is_global=True)),
        ("none", "global_bloom", None, KeyIndex(reads_footers=True, is_global=True)),
    ],
)
def test_index_is_the_given_or_the_stored_one(
    tables: dict[str, TableProperties],
    table: str,
    index: str | None,
    buckets: int | None,
    expected: Index | UncountedBuckets,
) -> None:
    assert chosen_index(index, buckets, tables[table]) == expected


@pytest.mark.parametrize(
    ("table", "index", "buckets", "error", "words"),
    [
        ("none", None, None, ConfigurationError, "does not say which index"),
        ("bucket", "simple", None, ConfigurationError, "the table was created with 'bucket'"),
        ("bucket", None, 3, ConfigurationError, "got buckets=3, and the table was created with 2"),
        ("simple", None, 3, ConfigurationError, "with index 'simple', which has none"),
        ("none", "bucket", 0, ConfigurationError, "expected 1 to"),
        ("none", "hbase", None, UnsupportedFeature, "its keys are in HBase"),
        ("none", "inmemory", None, UnsupportedFeature, "in the memory of its writer"),
        ("none", "flink_state", None, UnsupportedFeature, "state of a Flink job"),
        ("none", "other", None, ConfigurationError, "expected one of bucket, simple, bloom, global_simple, global_b"),
        ("bucket", "HBASE", None, UnsupportedFeature, "its keys are in HBase"),
    ],
)
def test_others_are_refused(
    tables: dict[str, TableProperties],
    table: str,
    index: str | None,
    buckets: int | None,
    error: type[PenstockError],
    words: str,
) -> None:
    with pytest.raises(error, match=words):
        chosen_index(index, buckets, tables[table])


def test_only_a_global_index_moves_keys(tables: dict[str, TableProperties]) -> None:
    for given, moves in ((None, True), (True, True), (False, False)):
        assert chosen_index("global_simple", None, tables["none"], given) == KeyIndex(is_global=True, moves_keys=moves)
    for table, index in (("bucket", None), ("simple", None), ("none", "bloom")):
        with pytest.raises(ConfigurationError, match="only a global index knows the partition of a key"):
            chosen_index(index, None, tables[table], True)


def test_operations_have_hudis_names() -> None:
    assert parse_operation("insert_overwrite_table").hudi_name == "INSERT_OVERWRITE_TABLE"
    assert [one for one in Operation if one.searches_keys] == [Operation.UPSERT, Operation.DELETE]
    with pytest.raises(ConfigurationError, match="operation: got 'UPSERT', expected one of upsert"):
        parse_operation("UPSERT")
