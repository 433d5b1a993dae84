"""Container files with one record: what the decoder and fastavro read. Values in the form of a schema."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptFile
from penstock.table.timeline.avro_container import single_record
from penstock.table.timeline.container_encoder import encode_container, fitted

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "namespace": "n.s",
    "fields": [
        {"name": "text", "type": ["null", {"type": "string", "avro.java.string": "String"}], "default": None},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
    ],
}
RECORDS = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(max_size=20),
        "counts": st.dictionaries(st.text(max_size=5), st.integers(-(2**63), 2**63 - 1), max_size=4),
    }
)


@given(RECORDS)
def test_record_is_decoded_from_its_file(record: dict[str, Any]) -> None:
    data = encode_container(SCHEMA, record)
    assert single_record(data, "file") == record
    assert encode_container(SCHEMA, record) == data


def test_files_of_different_records_have_different_sync_markers() -> None:
    files = {encode_container(SCHEMA, {"text": text, "counts": {}})[-16:] for text in ("a", "b")}
    assert len(files) == 2


@pytest.mark.parametrize(
    "record", [{"text": None}, {"text": None, "counts": {}, "other": 1}, {"text": 1, "counts": {}}]
)
def test_record_of_another_schema_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"text|counts|schema"):
        encode_container(SCHEMA, record)


INNER = {key: value for key, value in SCHEMA.items() if key != "namespace"}
ALIEN: dict[str, Any] = {
    "type": "record",
    "name": "Outer",
    "fields": [
        {"name": "first", "type": ["null", {"type": "array", "items": INNER}], "default": None},
        {"name": "second", "type": ["null", "R"], "default": None},
        {"name": "version", "type": ["int", "null"], "default": 1},
        {"name": "share", "type": ["null", "double"], "default": None},
        {"name": "is_done", "type": ["null", "boolean"], "default": None},
    ],
}


def test_value_takes_the_form_of_a_schema() -> None:
    value = {
        "first": [],
        "second": {"text": "a", "counts": {"x": 1, "y": None}, "unknown": 7},
        "share": 2,
        "more": {"deeply": [1]},
    }
    result = fitted(value, ALIEN, "file")
    assert result == {
        "first": [],
        "second": {"text": "a", "counts": {"x": 1}},
        "version": 1,
        "share": 2.0,
        "is_done": None,
    }
    assert single_record(encode_container(ALIEN, result), "file") == result


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"first": {}},
        {"first": [None]},
        {"second": {"counts": None}},
        {"second": {"counts": {"x": "1"}}},
        {"second": {"counts": {"x": 2**63}}},
        {"version": True},
        {"version": 2**31},
        {"share": "1"},
        {"is_done": 1},
        {"second": {"text": 1, "counts": {}}},
    ],
)
def test_value_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(CorruptFile, match=r"^file"):
        fitted(value, ALIEN, "file")
