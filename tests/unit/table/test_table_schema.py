"""Which schema a table has."""

from __future__ import annotations

import json

import pytest

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.table.config.properties import parse_table_properties
from penstock.table.schema.avro import META_COLUMNS, parse_record_schema
from penstock.table.schema.tables import table_schema_json

BASE = b"hoodie.table.name=t\nhoodie.table.version=9\n"
PLAIN = parse_table_properties(BASE, "/base")


def _schema(*names: str) -> str:
    return json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", "long"]} for n in names]})


def _names(text: str) -> list[str]:
    return [field["name"] for field in json.loads(text)["fields"]]


def test_newest_recorded_schema_with_meta_columns_in_front() -> None:
    result = table_schema_json(["", "  ", _schema("a", "b"), _schema("a")], PLAIN, stores_operation=False)
    assert _names(result) == [*META_COLUMNS, "a", "b"]
    parsed = parse_record_schema(result)
    assert [field.name for field in parsed.fields] == [*META_COLUMNS, "a", "b"]
    assert all(field.nullable for field in parsed.fields)


def test_recorded_meta_columns_are_not_doubled() -> None:
    assert _names(table_schema_json([_schema("a", *META_COLUMNS)], PLAIN, stores_operation=False)) == [
        *META_COLUMNS,
        "a",
    ]


def test_create_schema_is_the_fallback() -> None:
    properties = parse_table_properties(BASE + b"hoodie.table.create.schema=" + _schema("c").encode(), "/base")
    assert _names(table_schema_json([""], properties, stores_operation=False)) == [*META_COLUMNS, "c"]
    assert _names(table_schema_json([_schema("a")], properties, stores_operation=False)) == [*META_COLUMNS, "a"]


def test_no_meta_columns_where_none_are_written() -> None:
    properties = parse_table_properties(BASE + b"hoodie.populate.meta.fields=false\n", "/base")
    assert _names(table_schema_json([_schema("a")], properties, stores_operation=False)) == ["a"]


def test_no_schema_at_all_is_said() -> None:
    with pytest.raises(SchemaMismatch, match="no schema: table /base"):
        table_schema_json(["", ""], PLAIN, stores_operation=False)


@pytest.mark.parametrize(
    "text", ["{", '"long"', "[]", '{"type":"record","fields":[]}', '{"fields":[1]}', '{"fields":7}', "[" * 100_000]
)
def test_recorded_schema_that_is_none_is_corrupt_and_not_passed_over(text: str) -> None:
    with pytest.raises(CorruptFile, match="schema of table /base"):
        table_schema_json([text, _schema("a")], PLAIN, stores_operation=False)


def test_partition_columns_that_files_leave_out_are_text_in_their_place_or_last() -> None:
    dropping = BASE + b"hoodie.datasource.write.drop.partition.columns=true\nhoodie.table.partition.fields=p,d\n"
    properties = parse_table_properties(dropping, "/base")
    for recorded, names in (
        (("a", "b"), ("a", "b", "p", "d")),
        (("d", "a", "p", "b"), ("d", "a", "p", "b")),
        (("a", "P", "b"), ("a", "P", "b", "d")),
    ):
        result = json.loads(table_schema_json([_schema(*recorded)], properties, stores_operation=False))["fields"]
        assert [field["name"] for field in result] == [*META_COLUMNS, *names]
        assert [field["name"] for field in result if field["type"] == ["null", "string"]][5:] == [
            name for name in names if name.lower() in "pd"
        ]
