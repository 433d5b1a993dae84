"""Records of the record index: file ids in both encodings."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.metadata.record_index import location_of
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
