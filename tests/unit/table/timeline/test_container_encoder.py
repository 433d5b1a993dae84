"""Container files with one record: what the decoder and fastavro read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.timeline.avro_container import single_record
from penstock.table.timeline.container_encoder import encode_container

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
