"""Archive files of layout 1: whole entries, or CorruptFile; nothing outside of the bytes is read."""

from __future__ import annotations

import io
import json
import struct
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock, CorruptFile, PenstockError
from penstock.table.timeline.archive_v1 import archive_entries

SCHEMA = {
    "type": "record",
    "name": "HoodieArchivedMetaEntry",
    "fields": [
        {"name": "commitTime", "type": ["null", "string"]},
        {"name": "actionType", "type": ["null", "string"]},
        {"name": "actionState", "type": ["null", "string"], "default": None},
        {"name": "stateTransitionTime", "type": ["null", "string"], "default": None},
    ],
}


def entry(time: str | None, action: str = "commit", state: str | None = "COMPLETED") -> dict[str, Any]:
    return {"commitTime": time, "actionType": action, "actionState": state, "stateTransitionTime": None}


def block(*entries: dict[str, Any], schema: Any = SCHEMA, kind: int = 3, version: int = 3) -> bytes:
    """An Avro block as `HoodieAvroDataBlock` writes it, with a SCHEMA and no instant."""
    content = struct.pack(">ii", version, len(entries))
    for item in entries:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), item)
        content += struct.pack(">i", len(out.getvalue())) + out.getvalue()
    text = json.dumps(schema).encode()
    body = struct.pack(">ii", 1, kind) + struct.pack(">iii", 1, 2, len(text)) + text
    body += struct.pack(">q", len(content)) + content + struct.pack(">i", 0)
    return b"#HUDI#" + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 8 + 6)


def times(data: bytes) -> list[str]:
    return [item.requested_time for item in archive_entries(data, "archive file f of table t")]


def test_entries_come_block_after_block() -> None:
    data = block(entry("1"), entry("2", "clean", "INFLIGHT")) + block(entry("3", state=None))
    result = list(archive_entries(data, "f"))
    assert [(e.requested_time, e.action, e.is_completed) for e in result] == [
        ("1", "commit", True),
        ("2", "clean", False),
        ("3", "commit", True),
    ]
    assert times(b"") == []


def test_file_that_ends_early_is_corrupt_and_says_where() -> None:
    data = block(entry("1")) + block(entry("2"))
    half = len(data) // 2
    with pytest.raises(CorruptFile, match=rf"archive file f of table t is damaged or truncated at byte {half}"):
        times(data[:-1])
    with pytest.raises(CorruptFile, match="neither a block nor the end of the file follows"):
        times(data + b"x" * 30)


@pytest.mark.parametrize("version", [0, 4, -1])
def test_unknown_content_is_corrupt(version: int) -> None:
    with pytest.raises(CorruptFile, match=f"1 records of version {version}"):
        times(block(entry("1"), version=version))


def test_fewer_records_than_bytes_are_corrupt() -> None:
    whole = block(entry("1"), entry("2"))
    at = whole.index(struct.pack(">ii", 3, 2)) + 7
    for count in (0, 1):
        with pytest.raises(CorruptFile, match=f"bytes are left after its {count} records"):
            times(whole[:at] + bytes([count]) + whole[at + 1 :])


def test_entry_without_a_time_is_corrupt() -> None:
    with pytest.raises(CorruptFile, match="commitTime"):
        times(block(entry(None)))


def test_schema_that_is_not_bounded_is_refused() -> None:
    loop = {"type": "record", "name": "a", "fields": [{"name": "b", "type": ["null", "a"]}]}
    for schema in (loop, "no such type", {"type": "array", "items": "null"}):
        with pytest.raises(CorruptFile, match="schema is not a valid, bounded Avro schema"):
            times(block(entry("1"), schema=schema))


def test_other_blocks_are_refused() -> None:
    with pytest.raises(CorruptBlock, match="type 1; expected"):
        times(block(entry("1"), kind=1))


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_bytes_never_give_other_entries_in_silence(data: st.DataObject) -> None:
    """A changed byte is an error, or changes what an entry says; entries are never lost."""
    whole = bytearray(block(entry("1"), entry("2")) + block(entry("3")))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    try:
        result = times(bytes(whole))
    except PenstockError:
        return
    assert len(result) == 3


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_entries_or_a_named_error(noise: bytes) -> None:
    for data in (noise, b"#HUDI#" + noise, block(entry("1")) + noise):
        try:
            times(data)
        except PenstockError:
            continue
