"""Files that a bloom filter of the metadata table excludes, and filters that exclude nothing."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pytest

from penstock.enumerator.planning.pruning import key_filters
from penstock.enumerator.planning.pruning.key_filters import FilesWithoutKeys, may_be_filtered, without_possible_keys
from penstock.proto.model.files import FileRef
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import Split
from penstock.table.metadata.keys import bloom_filter_key
from penstock.table.parquet.bloom_filter import DYNAMIC, SIMPLE, BloomFilter
from penstock.table.timeline.fields import Fields
from penstock.writer.kernels.bloom import set_key_bits

FILE = "f-0_0-1-2_20260101000000000.parquet"


def bloom(*keys: str, grows: bool = True) -> BloomFilter:
    made = BloomFilter.growing(100, 200) if grows else BloomFilter.for_keys(len(keys))
    made.add(pa.array(keys, pa.string()), set_key_bits)
    return made


def record(made: BloomFilter, **changed: Any) -> Fields:
    fields = {"type": made.type_code, "timestamp": "1", "bloomFilter": made.encoded().encode(), "isDeleted": False}
    return Fields({"BloomFilterMetadata": {**fields, **changed}}, "record")


def lacks(keys: Collection[str], *versions: Fields | None) -> bool:
    """Whether the file with these records, oldest first, is one without the keys."""
    files = FilesWithoutKeys(keys)
    for version in versions:
        files.add("file", b"" if version is None else b"stored", lambda value, version=version: version)  # type: ignore[misc]
    return files.names == {"file"}


@pytest.mark.parametrize("grows", [False, True])
def test_a_file_without_the_keys_is_excluded(grows: bool) -> None:
    of_file = record(bloom("a", "b", grows=grows))
    assert lacks({"x"}, of_file) and lacks({"x", "y"}, of_file)
    assert not lacks({"a"}, of_file) and not lacks({"x", "b"}, of_file)
    assert lacks({"a"}, record(bloom(grows=grows))), "a file without rows"


@pytest.mark.parametrize(
    "changed",
    [
        {"isDeleted": True},
        {"bloomFilter": b""},
        {"bloomFilter": None},
        {"bloomFilter": b"not base64"},
        {"bloomFilter": "é".encode()},
        {"bloomFilter": bloom("a").encoded().encode()[:-8]},
        {"bloomFilter": base64.b64encode(base64.b64decode(bloom("a").encoded())[:25].replace(b"\0\0\0\1", b"\0" * 4))},
        {"type": SIMPLE},
        {"type": ""},
        {"type": None},
    ],
)
def test_a_filter_that_cannot_be_read_excludes_nothing(changed: dict[str, Any]) -> None:
    assert not lacks({"x"}, record(bloom("a"), **changed))


def test_a_filter_of_another_type_than_recorded_excludes_nothing() -> None:
    assert lacks({"x"}, record(bloom("a", grows=False), type=SIMPLE))
    assert not lacks({"x"}, record(bloom("a", grows=False), type=DYNAMIC))


def test_other_records_exclude_nothing() -> None:
    assert not lacks({"x"}, Fields({"filesystemMetadata": {}}, "record"))
    assert not lacks({"x"}, Fields({"BloomFilterMetadata": "text"}, "record"))


def test_the_newest_record_counts() -> None:
    assert lacks({"x"}, record(bloom("x")), record(bloom("a")))
    assert not lacks({"x"}, record(bloom("a")), record(bloom("x")))
    assert not lacks({"x"}, record(bloom("a")), None)
    files = FilesWithoutKeys({"x"})
    files.add("file", b"stored", lambda value: record(bloom("a")))
    files.delete("file")
    assert not files.names


def test_filters_of_other_sizes_have_their_own_bits() -> None:
    small, large = record(bloom("a", grows=False)), record(bloom("a"))
    files = FilesWithoutKeys({"x"})
    for number, of_file in enumerate((small, large, small, large)):
        files.add(str(number), b"stored", lambda value, of_file=of_file: of_file)  # type: ignore[misc]
    assert files.names == {"0", "1", "2", "3"}


def test_keys_that_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    assert may_be_filtered({"a", "é"})
    assert not may_be_filtered({"a\ufffd"}), "stored as other bytes, perhaps"
    monkeypatch.setattr(key_filters, "MOST_KEYS", 1)
    assert may_be_filtered({"a"}) and not may_be_filtered({"a", "b"})


def split(partition: str, name: str = FILE) -> Split:
    return Split(
        split_id=partition,
        partition=partition,
        partition_values=(),
        file_group="f-0",
        order_key=InstantTime("1"),
        base=FileRef(f"{partition}/{name}", 100),
        logs=(),
    )


class Metadata:
    """A metadata table with one file group of bloom filters."""

    def __init__(self, filters: Mapping[str, Fields]) -> None:
        self.filters = filters

    def read_into(self, records: Any, partition: str, keys_of: Any) -> None:
        assert partition == "bloom_filters"
        (keys,) = keys_of(("group",)).values()
        for key in keys:
            if key in self.filters:
                records.add(key, b"stored", lambda value, key=key: self.filters[key])


def test_groups_of_files_without_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_filters, "keys_by_group", lambda groups, keys: dict.fromkeys(groups, keys))
    filters = {bloom_filter_key("p", FILE): record(bloom("a")), bloom_filter_key("q", FILE): record(bloom("x"))}
    metadata: Any = Metadata(filters | {bloom_filter_key("o", "f.orc"): record(bloom("a"))})
    candidates = [split("p"), split("q"), split("unknown"), split("o", "f.orc")]
    assert without_possible_keys(candidates, {"x"}, metadata) == {("p", "f-0")}
    assert without_possible_keys(candidates, {"a"}, metadata) == {("q", "f-0")}
    assert without_possible_keys(candidates, {"z"}, metadata) == {("p", "f-0"), ("q", "f-0")}
