"""The schema of logged changes in each mode, as Hudi writes its text."""

from __future__ import annotations

import json

import pytest

from penstock.proto.errors import CorruptFile
from penstock.table.config.change_logging import ChangeLogging
from penstock.table.schema.avro import parse_record_schema
from penstock.table.schema.logged_changes import logged_changes_json

ROW = {"type": "record", "name": "t_record", "namespace": "hoodie.t", "fields": [{"name": "id", "type": "string"}]}
TEXT = {"type": ["null", "string"], "doc": "", "default": None}


def schema_of(mode: ChangeLogging, row: dict[str, object]) -> dict[str, object]:
    parsed: dict[str, object] = json.loads(logged_changes_json(mode, json.dumps(row)))
    return parsed


def test_schemas_are_those_of_hudi() -> None:
    before = {"name": "before", "type": ["null", ROW], "doc": "", "default": None}
    after = {"name": "after", "type": ["null", "hoodie.t.t_record"], "doc": "", "default": None}
    changes = {"type": "record", "name": "CDC", "namespace": "hoodie.t", "doc": ""}
    assert schema_of(ChangeLogging.DATA_BEFORE_AFTER, ROW) == {
        **changes,
        "fields": [{"name": "op", **TEXT}, {"name": "ts_ms", **TEXT}, before, after],
    }
    assert schema_of(ChangeLogging.DATA_BEFORE, ROW) == {
        **changes,
        "fields": [{"name": "op", **TEXT}, {"name": "record_key", **TEXT}, before],
    }
    assert logged_changes_json(ChangeLogging.OP_KEY_ONLY, json.dumps(ROW)) == (
        '{"type":"record","name":"Record","fields":[{"name":"op","type":["string","null"]},'
        '{"name":"record_key","type":["string","null"]}]}'
    )


@pytest.mark.parametrize(
    ("name", "namespace", "reference"),
    [("row", None, "row"), ("a.b.row", None, "a.b.row"), ("a.row", "other", "a.row")],
)
def test_second_image_refers_to_the_name_of_the_first(name: str, namespace: str | None, reference: str) -> None:
    row = {key: part for key, part in {**ROW, "name": name, "namespace": namespace}.items() if part is not None}
    schema = schema_of(ChangeLogging.DATA_BEFORE_AFTER, row)
    assert schema["fields"][3]["type"] == ["null", reference]  # type: ignore[index]
    assert ("namespace" in schema) == ("." in reference)
    parse_record_schema(json.dumps(schema))


def test_table_with_the_name_of_changes_cannot_be_logged() -> None:
    with pytest.raises(CorruptFile, match="defined twice"):
        parse_record_schema(logged_changes_json(ChangeLogging.DATA_BEFORE, json.dumps({**ROW, "name": "CDC"})))
