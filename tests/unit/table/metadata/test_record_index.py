"""Records of the record index: file ids in both encodings, and the index's own file groups."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.proto.errors import CorruptFile
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.table.files.names import BaseName
from penstock.table.files.slices import DataFile, VisibleFiles
from penstock.table.metadata.record_index import group_number, keys_by_group, location_of
from penstock.table.timeline.fields import Fields


def record(**changed: Any) -> Fields:
    location = {
        "partitionName": "p=a",
        "fileIdHighBits": -487215447040767532,
        "fileIdLowBits": -8453484914184884234,
        "fileIndex": 0,
        "fileId": "",
        "fileIdEncoding": 0,
    } | changed
    return Fields({"recordIndexMetadata": location}, "record")


@pytest.mark.parametrize(
    ("changed", "file_id"),
    [
        ({}, "f93d1021-de0d-49d4-8aaf-30424fe2eff6-0"),
        ({"fileIndex": 12}, "f93d1021-de0d-49d4-8aaf-30424fe2eff6-12"),
        ({"fileIndex": -1}, "f93d1021-de0d-49d4-8aaf-30424fe2eff6"),
        ({"fileIdHighBits": 0, "fileIdLowBits": 1}, "00000000-0000-0000-0000-000000000001-0"),
        ({"fileIdEncoding": 1, "fileId": "any"}, "any"),
    ],
)
def test_the_location_of_a_key(changed: dict[str, Any], file_id: str) -> None:
    assert location_of([record(**changed)]) == ("p=a", file_id)


def test_the_newest_record_counts() -> None:
    assert location_of([record(), record(partitionName="p=b")]) == ("p=b", "f93d1021-de0d-49d4-8aaf-30424fe2eff6-0")
    assert location_of([record(), None]) is None
    assert location_of([None, record()]) is not None
    assert location_of([]) is None


def test_other_records_are_damaged() -> None:
    with pytest.raises(CorruptFile, match="encoding 2"):
        location_of([record(fileIdEncoding=2)])
    with pytest.raises(CorruptFile, match="no location"):
        location_of([Fields({"filesystemMetadata": {}}, "record")])


def group(file_id: str) -> VisibleFiles:
    name = BaseName(file_id=file_id, write_token="0-0-0", instant=InstantTime("1"), extension="hfile")
    base = DataFile(partition="record_index", ref=FileRef(file_id, 1), name=name, listed=True)
    return VisibleFiles("1", base, ())


def test_keys_are_looked_up_in_the_group_of_their_hash() -> None:
    groups = [group(f"record-index-{number:04d}-0") for number in (1, 0, 2)]
    keys = [f"k{number}" for number in range(50)]
    chosen = keys_by_group(groups, keys)
    assert sorted(key for wanted in chosen.values() for key in wanted) == sorted(keys)
    for files, wanted in chosen.items():
        assert all(f"record-index-{group_number(key, 3):04d}-0" == files.files[0].name.file_id for key in wanted)
    assert [*keys_by_group(groups, ["k1"]).values()] == [["k1"]]


@pytest.mark.parametrize(
    "names",
    [("record-index-0000-0", "record-index-0002-0"), ("record-index-p1-0000-0", "record-index-p2-0000-0"), ("x", "y")],
    ids=["a group is missing", "divided by partitions", "other names"],
)
def test_keys_are_looked_up_in_all_groups_of_another_layout(names: tuple[str, ...]) -> None:
    groups = [group(name) for name in names]
    assert keys_by_group(groups, ["k"]) == {files: ["k"] for files in groups}


@pytest.mark.parametrize(("key", "number"), [("", 0), ("a", 97), ("polygenelubricants", 2147483648 % 1000), ("é", 233)])
def test_the_hash_is_the_absolute_value_of_javas(key: str, number: int) -> None:
    """`polygenelubricants` has the hash -2^31, whose absolute value Java does not have."""
    assert group_number(key, 1000) == number
