"""Properties of new tables: the keys and values of Hudi's own tables, and each setting that is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from penstock.proto.errors import ConfigurationError
from penstock.proto.model.splits import CommitTimeOrdering, EventTimeOrdering
from penstock.table.config.java_properties import format_properties, parse_properties
from penstock.table.config.merge_rules import merge_mode, refuse_unsupported
from penstock.table.config.new_table import NewTable, new_table_properties
from penstock.table.config.properties import TableProperties, parse_table_properties

SCHEMA = json.dumps({"type": "record", "name": "r", "fields": [{"name": name, "type": "string"} for name in "abcd"]})
TABLE = NewTable(
    name="orders",
    database="",
    table_type="MERGE_ON_READ",
    version=9,
    record_key_fields=("a",),
    partition_fields=("b",),
    ordering_fields=("c",),
    key_generator="SIMPLE",
    hive_style=True,
    url_encode=False,
    create_schema_json=SCHEMA,
)
OWN_KEYS = {"hoodie.table.partition_extractor_class", "hoodie.database.name", "hoodie.table.create.schema"}
"""Keys that a table may lack: of Hive's sync, or with an empty or optional value."""


def parsed(table: NewTable) -> TableProperties:
    properties = parse_table_properties(format_properties(new_table_properties(table)), "file:/t")
    refuse_unsupported(properties)
    return properties


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("ordering", [("c",), ()])
def test_properties_are_read_back_as_they_were_given(version: int, ordering: tuple[str, ...]) -> None:
    table = replace(TABLE, version=version, ordering_fields=ordering, database="sales", url_encode=True)
    properties = parsed(table)
    assert (properties.name, properties.database, properties.version) == ("orders", "sales", version)
    assert properties.layout == (2 if version == 9 else 1)
    assert properties.timezone == "UTC"
    assert properties.record_key_fields == ("a",)
    assert properties.partition_fields == ("b",)
    assert properties.create_schema == SCHEMA
    assert properties.populate_meta_fields
    assert merge_mode(properties) == (EventTimeOrdering(ordering) if ordering else CommitTimeOrdering())


def test_name_with_letters_of_another_alphabet_has_the_checksum_of_its_utf_8() -> None:
    assert parsed(replace(TABLE, name="βιβλία", database="δ")).name == "βιβλία"


GOLDEN = {
    "A_merge_event_long_v9_h120": {},
    "A_merge_event_long_v6_h0150": {"version": 6},
    "A_merge_commit_long_v6_h0150": {"version": 6, "ordering_fields": ()},
    "A_custom_keygen_v9_h120": {
        "key_generator": "CUSTOM",
        "partition_fields": ("p:SIMPLE", "t:TIMESTAMP"),
        "ordering_fields": (),
    },
    "A_key_composite_v6_h0150": {
        "version": 6,
        "key_generator": "COMPLEX",
        "record_key_fields": ("k1", "k2"),
        "partition_fields": ("p", "q"),
        "hive_style": False,
        "ordering_fields": (),
    },
    "A_ts_keygen_v9_h120": {"key_generator": "TIMESTAMP", "hive_style": False, "ordering_fields": ()},
}


@pytest.mark.golden
@pytest.mark.parametrize("case", GOLDEN)
def test_entries_are_those_of_hudi(golden: Any, case: str) -> None:
    file = golden.table(case) / ".hoodie" / "hoodie.properties"
    by_hudi = parse_properties(file.read_bytes())
    table = replace(
        TABLE,
        **{
            "name": by_hudi["hoodie.table.name"],
            "table_type": by_hudi["hoodie.table.type"],
            "record_key_fields": ("id",),
            "partition_fields": (by_hudi["hoodie.table.partition.fields"],),
            "ordering_fields": ("ts",),
            "create_schema_json": "",
            **GOLDEN[case],
        },
    )
    entries = new_table_properties(table)
    differences = {
        key: (entries.get(key), by_hudi.get(key))
        for key in entries.keys() | by_hudi.keys()
        if entries.get(key) != by_hudi.get(key)
    }
    assert differences.pop("hoodie.table.timeline.timezone") == ("UTC", "LOCAL")
    extra = {key for key in differences if not key.startswith("hoodie.keygen.timebased.")} - OWN_KEYS
    # Hudi's writers record an ordering column for commit time ordering too, which no reader uses
    assert extra <= (
        {"hoodie.table.precombine.field", "hoodie.table.ordering.fields"} if not table.ordering_fields else set()
    )


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"version": 8}, "version 8: .*; 8 is that of Hudi 1.0"),
    ({"version": 10}, "version 10"),
    ({"version": 5}, "version 5"),
    ({"table_type": "merge_on_read"}, "table type"),
    ({"name": ""}, "table name"),
    ({"name": " orders"}, "table name"),
    ({"name": "a/b"}, "character '/'"),
    ({"name": "a\nhoodie.table.version=6"}, "character"),
    ({"name": ".."}, "table name"),
    ({"name": "x" * 256}, "table name"),
    ({"database": "a b\t"}, "database name"),
    ({"record_key_fields": ()}, "record key"),
    ({"record_key_fields": ("a", "a"), "key_generator": "COMPLEX"}, "given twice"),
    ({"record_key_fields": ("a,b",)}, "column name"),
    ({"record_key_fields": ("",)}, "column name"),
    ({"record_key_fields": ("z",)}, "not in the schema"),
    ({"partition_fields": ("z",)}, "not in the schema"),
    ({"ordering_fields": ("z",)}, "not in the schema"),
    ({"partition_fields": ()}, "does not allow"),
    ({"record_key_fields": ("a", "b")}, "does not allow"),
    ({"key_generator": "NON_PARTITION"}, "does not allow"),
    ({"key_generator": "COMPLEX", "partition_fields": ()}, "does not allow"),
    ({"key_generator": "USER_PROVIDED"}, "key generator"),
    ({"key_generator": "CUSTOM"}, "b.*CUSTOM"),
    ({"key_generator": "CUSTOM", "partition_fields": ("b:HOURLY",)}, "b:HOURLY"),
    ({"partition_fields": ("b:SIMPLE",)}, "without a kind"),
    ({"version": 6, "ordering_fields": ("c", "d")}, "version 6"),
    ({"create_schema_json": "{}"}, "expected an Avro record"),
    ({"create_schema_json": "[" * 100_000}, "expected an Avro record"),
]


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_table_that_cannot_be_is_refused(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        new_table_properties(replace(TABLE, **change))


def test_nested_key_and_several_ordering_fields_are_allowed_on_version_9() -> None:
    table = replace(TABLE, record_key_fields=("a.x",), ordering_fields=("c", "d"))
    assert parsed(table).ordering_fields == ("c", "d")


def test_table_without_partitions_records_that_it_has_none() -> None:
    table = replace(TABLE, key_generator="NON_PARTITION", partition_fields=(), record_key_fields=("a", "b"))
    assert new_table_properties(table)["hoodie.table.partition.fields"] == ""
    assert parsed(table).partition_fields == ()
