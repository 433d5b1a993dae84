"""The file group of a metadata partition in which a key is looked up."""

from __future__ import annotations

import pytest

from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.table.files.names import BaseName
from penstock.table.files.slices import DataFile, VisibleFiles
from penstock.table.metadata.key_groups import group_number, keys_by_group


def group(file_id: str) -> VisibleFiles:
    name = BaseName(file_id=file_id, write_token="0-0-0", instant=InstantTime("1"), extension="hfile")
    base = DataFile(partition="record_index", ref=FileRef(file_id, 1), name=name, listed=True)
    return VisibleFiles("1", base, ())


@pytest.mark.parametrize("name", ["record-index", "bloom-filters"])
def test_keys_are_looked_up_in_the_group_of_their_hash(name: str) -> None:
    groups = [group(f"{name}-{number:04d}-0") for number in (1, 0, 2)]
    keys = [f"k{number}" for number in range(50)]
    chosen = keys_by_group(groups, keys)
    assert sorted(key for wanted in chosen.values() for key in wanted) == sorted(keys)
    for files, wanted in chosen.items():
        assert all(f"{name}-{group_number(key, 3):04d}-0" == files.files[0].name.file_id for key in wanted)
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
