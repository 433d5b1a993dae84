"""Schema-on-read histories: parsed within bounds, versions by instant, columns matched by id at every depth."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.proto.errors import CorruptFile, SchemaMismatch
from penstock.table.schema.avro import ArrayType, AvroField, MapType, Primitive, RecordType, parse_record_schema
from penstock.table.schema.compatibility import lost_variant_part
from penstock.table.schema.history import (
    ColumnMapping,
    HistoryField,
    check_current,
    history_json,
    parse_history,
    renamed,
)

INT, TEXT = Primitive("int"), Primitive("string")
WHERE = "table t"


def version(number: int, *fields: tuple[int, str, Any]) -> dict[str, Any]:
    listed = [{"id": id_, "name": name, "optional": True, "type": type_} for id_, name, type_ in fields]
    return {"max_column_id": 99, "version_id": number, "type": "record", "fields": listed}


def text_of(*versions: dict[str, Any]) -> str:
    return json.dumps({"schemas": list(versions)})


def nested(*fields: tuple[int, str, Any]) -> dict[str, Any]:
    return {"type": "record", "fields": version(0, *fields)["fields"]}


def field(name: str, type_: Any = INT) -> AvroField:
    return AvroField(name, type_, True, 0)


def test_own_version_comes_first_and_only_older_ones_after_it() -> None:
    old, mid, new = (version(number, (1, f"c{number}", "int")) for number in (0, 20, 30))
    result = parse_history(history_json(json.dumps(mid), text_of(old, new, mid), WHERE), WHERE)
    assert [one.id for one in result.versions] == [20, 0]
    assert result.current.columns == (HistoryField(1, "c20"),)


def test_file_is_of_the_newest_version_not_younger_than_its_instant() -> None:
    result = parse_history(text_of(*(version(number, (1, "c", "int")) for number in (30, 20, 0))), WHERE)
    assert [result.at(instant).id for instant in ("19", "020", "29", "30", "99")] == [0, 20, 20, 30, 30]
    later = parse_history(text_of(*(version(number, (1, f"c{number}", "int")) for number in (30, 20))), WHERE)
    assert [later.at(instant).id for instant in ("", "x", "²", "7")] == [20, 20, 20, 20]


def test_names_go_by_id_at_every_depth() -> None:
    inner = nested((5, "x", "int"), (6, "gone", "int"))
    inner_now = nested((6, "back", "int"), (5, "y", "int"))
    array = {"type": "array", "element_id": 7, "element": inner, "element_optional": True}
    mapping = {"type": "map", "key_id": 8, "key": "string", "value_id": 9, "value": inner, "value_optional": True}
    array_now = {**array, "element": inner_now}
    mapping_now = {**mapping, "value": {**inner_now, "fields": inner_now["fields"][1:]}}
    old = version(0, (1, "a", inner), (2, "l", array), (3, "m", mapping), (4, "dropped", "int"))
    new = version(9, (3, "mm", mapping_now), (1, "aa", inner_now), (2, "l", array_now), (10, "dropped", "string"))
    history = parse_history(text_of(new, old), WHERE)
    record = RecordType((field("x"), field("gone")))
    fields = [field("a", record), field("l", ArrayType(record, 0)), field("m", MapType(record, 1)), field("dropped")]
    names = ColumnMapping(history.at("3").columns, history.current.columns, WHERE)
    record_now = RecordType((field("y"), field("back")))
    assert [names.in_table(each) for each in fields] == [
        field("aa", record_now),
        field("l", ArrayType(record_now, 0)),
        field("mm", MapType(RecordType((field("y"), field("\x006=gone"))), 1)),
        field("\x004=dropped"),
    ]
    assert names.in_file(field("aa", RecordType((field("back"), field("y"))))) == field(
        "a", RecordType((field("gone"), field("x")))
    )
    assert names.in_file(field("dropped", TEXT)).name == "\x0010=dropped"


@pytest.mark.parametrize("has_id", [True, False])
def test_shredded_variant_is_known_by_the_names_of_its_file(has_id: bool) -> None:
    """The table lacks a part, which its version of the file has or has not."""
    parts = ((2, "metadata", "binary"), (3, "value", "binary"), (4, "typed_value", "int"))
    new = version(9, (1, "v", nested(*parts[:2])))
    old = version(0, (1, "v", nested(*parts[: 3 if has_id else 2])))
    history = parse_history(text_of(new, old), WHERE)
    names = ColumnMapping(history.at("3").columns, history.current.columns, WHERE)
    stored = field("v", RecordType(tuple(field(name) for _, name, _ in parts)))
    table = RecordType(tuple(field(name) for _, name, _ in parts[:2]))
    assert "part typed_value," in lost_variant_part(names.in_table(stored).type, table, "v")
    whole = field("v", table)
    assert lost_variant_part(names.in_table(whole).type, table, "v") == ""


def test_column_outside_the_history_has_no_id_except_meta_columns() -> None:
    places = (HistoryField(1, "a"),)
    assert renamed([field("_hoodie_commit_time")], places, places, WHERE) == [field("_hoodie_commit_time")]
    assert renamed([field("b")], places, places, WHERE) == [field("\0=b")]
    with pytest.raises(SchemaMismatch, match="not of the type"):
        renamed([field("a", ArrayType(INT))], places, places, WHERE)


def test_every_column_of_the_table_must_be_in_its_own_version() -> None:
    history = parse_history(text_of(version(1, (1, "a", "int"))), WHERE)
    listed = [{"name": name, "type": ["null", "int"]} for name in ("a", "p")]
    record = parse_record_schema(json.dumps({"type": "record", "name": "r", "fields": listed}))
    check_current(record, history, ("p",), WHERE)
    with pytest.raises(SchemaMismatch, match="'p'"):
        check_current(record, history, (), WHERE)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"schemas": []}',
        '{"schemas": [1]}',
        '{"schemas": [{"version_id": "1", "fields": []}]}',
        '{"schemas": [{"version_id": true, "fields": []}]}',
        '{"schemas": [{"version_id": 1, "fields": {}}]}',
        '{"schemas": [{"version_id": 1, "fields": [{"id": 1}]}]}',
        text_of(version(1, (1, "a", 7))),
        text_of(version(1, (1, "a", {"type": "what"}))),
        text_of(version(1, (1, "a", "int"), (1, "b", "int"))),
        text_of(version(1, (1, "a", "int"), (2, "a", "int"))),
        text_of(version(1, (-1, "a", "int"))),
        '{"schemas": ' + "[" * 100_000,
    ],
)
def test_damage_is_named(text: str) -> None:
    with pytest.raises(CorruptFile, match="table t: schema history"):
        parse_history(text, WHERE)


def test_depth_and_size_are_bounded() -> None:
    type_: Any = "int"
    for number in range(70):
        type_ = nested((number, "a", type_))
    with pytest.raises(CorruptFile, match="nest"):
        parse_history(text_of(version(1, (1, "a", type_))), WHERE)
    with pytest.raises(CorruptFile, match="more than 20000"):
        parse_history(text_of(version(1, *((n, f"c{n}", "int") for n in range(20_001)))), WHERE)
    with pytest.raises(CorruptFile, match="characters"):
        parse_history(" " * (16 << 20) + "{}", WHERE)
