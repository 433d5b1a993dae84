"""Avro values and keys with the id of a registry's schema."""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib

import pytest

from penstock.proto.errors import ConfigurationError, UndecodableRecord
from penstock.proto.model.hybrid import HybridMode, KafkaAccess, ValueFormat
from penstock.proto.model.splits import Scan
from penstock.reader.read_split import SplitBatch, SplitTally
from tests.unit.reader.topics.fake_registry import FakeRegistry
from tests.unit.reader.topics.fake_topic import FakeTopic, read_all, rows_of, topic_of, topic_scan

PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
AT = {"type": "long", "logicalType": "timestamp-millis"}
FIELDS = (
    {"name": "id", "type": "long"},
    {"name": "city", "type": "string", "default": "nowhere"},
    {"name": "price", "type": ["null", PRICE]},
    {"name": "at", "type": ["null", AT]},
    {"name": "tags", "type": ["null", {"type": "array", "items": "string"}]},
)
FULL = {"type": "record", "name": "order", "fields": list(FIELDS)}
OLD = {
    "type": "record",
    "name": "order",
    "fields": [{"name": "extra", "type": ["null", "int"]}, {"name": "id", "type": "int"}],
}
WHEN = datetime.datetime(2024, 1, 2, 3, 4, 5, 6000, tzinfo=datetime.UTC)
ROW = {"id": 1, "city": "a", "price": decimal.Decimal("12.34"), "at": WHEN, "tags": ["x", "y"]}


def registry() -> FakeRegistry:
    created = FakeRegistry()
    created.add(7, FULL)
    created.add(8, OLD)
    created.add(9, "long")
    created.add(10, {"type": "record", "name": "k", "fields": [{"name": "id", "type": "long"}]})
    return created


def avro_scan(*, mode: HybridMode = HybridMode.CHANGELOG, columns: tuple[str, ...] = (), **more: object) -> Scan:
    names = tuple(str(item["name"]) for item in FIELDS)
    extra = ("_change_type",) if mode is HybridMode.CHANGELOG else ()
    return topic_scan(*FIELDS, mode=mode, columns=columns or (*names, *extra), value_format=ValueFormat.AVRO, **more)


def read(scan: Scan, topic: FakeTopic, schemas: FakeRegistry, **more: object) -> list[SplitBatch]:
    return read_all(scan, topic, registry=schemas, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("compiled", [True, False])
def test_row_17_values_of_several_schemas_in_one_chunk(compiled: bool) -> None:
    schemas = registry()
    values = [
        schemas.framed(7, ROW),
        schemas.framed(8, {"extra": 5, "id": 2}),
        schemas.framed(7, {**ROW, "id": 3, "price": None, "at": None, "tags": None}),
    ]
    nothing = {"price": None, "at": None, "tags": None, "_change_type": "+U"}
    tally = SplitTally()
    (batch,) = read(avro_scan(), topic_of(*values), schemas, compiled=compiled, tally=tally)
    assert rows_of([batch]) == [
        {**ROW, "_change_type": "+U"},
        {"id": 2, "city": None, **nothing},
        {"id": 3, "city": "a", **nothing},
    ]
    assert dict(tally.report().counts) == {"kafka_records": 3, "kafka_unknown_fields": 1}
    assert sorted(schemas.asked) == [7, 8], "each schema is asked for once"


def test_flat_columns_alone() -> None:
    schemas = registry()
    topic = topic_of(*(schemas.framed(7, {**ROW, "id": number}) for number in range(100)))
    scan = avro_scan(columns=("price", "id"), mode=HybridMode.APPEND)
    assert rows_of(read(scan, topic, schemas)) == [{"price": ROW["price"], "id": n} for n in range(100)]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"", "value does not begin with the id of a schema"),
        (b'{"id": 1}', "value does not begin with the id of a schema"),
        (b"\0\0\0\0\x63\x02", "value: schema 99 is not known"),
        (b"\0\xff\xff\xff\xff\x02", "value: there is no schema 4294967295"),
        (b"\0\0\0\0\x07", "value does not fit its schema, 7 of the registry"),
        (b"\0\0\0\0\x08\x00\x02\x02", "value does not fit its schema, 8 of the registry"),
        (b"\0\0\0\0\x09\x02", "value: schema 9 of the registry: schema is 'long', expected a record"),
    ],
)
def test_bad_value_is_detected_among_good_ones(value: bytes, problem: str, tmp_path: pathlib.Path) -> None:
    schemas = registry()
    values = [schemas.framed(7, {**ROW, "id": number}) for number in range(40)]
    values[17] = value
    scan = avro_scan(columns=("id",))
    with pytest.raises(UndecodableRecord, match=f"partition 0, offset 17: {problem}"):
        read(scan, topic_of(*values), schemas)
    access = KafkaAccess(dead_letter=str(tmp_path))
    rows = rows_of(read(scan, topic_of(*values), schemas, access=access))
    assert [row["id"] for row in rows] == [n for n in range(40) if n != 17]
    (file,) = tmp_path.iterdir()
    assert problem in json.loads(file.read_text())["reason"]


def test_type_that_does_not_read_as_the_tables() -> None:
    schemas = registry()
    schemas.add(20, {"type": "record", "name": "o", "fields": [{"name": "id", "type": "string"}]})
    with pytest.raises(UndecodableRecord, match=r"type change of column id: string -> long"):
        read(avro_scan(), topic_of(schemas.framed(20, {"id": "x"})), schemas)


@pytest.mark.parametrize("key", [(9, 5), (10, {"id": 5}), b"5", b'{"id": 5}'])
def test_keys_of_tombstones(key: object) -> None:
    schemas = registry()
    created = schemas.framed(*key) if isinstance(key, tuple) else key
    (row,) = rows_of(read(avro_scan(columns=("id", "city", "_change_type")), topic_of(None, keys=[created]), schemas))
    assert row == {"id": 5, "city": None, "_change_type": "-D"}


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (b"\0\0\0\0\x63\x02", "no value: the key: schema 99 is not known"),
        (b"\0\0\0\0\x09", "no value: the key does not fit its schema, 9"),
        (b"\0\0", "no value: the key does not begin with the id of a schema"),
        (None, "no value: there is no key"),
    ],
)
def test_keys_without_the_key_columns_are_unfit(key: object, problem: str) -> None:
    with pytest.raises(UndecodableRecord, match=problem):
        read(avro_scan(), topic_of(None, keys=[key]), registry())


def test_key_of_other_columns_is_unfit() -> None:
    schemas = registry()
    schemas.add(11, {"type": "record", "name": "k", "fields": [{"name": "other", "type": "long"}]})
    with pytest.raises(UndecodableRecord, match="the key has no id"):
        read(avro_scan(), topic_of(None, keys=[schemas.framed(11, {"other": 1})]), schemas)


def test_value_that_says_it_is_deleted() -> None:
    schemas = registry()
    flag = {"name": "_hoodie_is_deleted", "type": "boolean"}
    schemas.add(12, {"type": "record", "name": "o", "fields": [{"name": "id", "type": "long"}, flag]})
    values = [schemas.framed(12, {"id": n, "_hoodie_is_deleted": n == 1}) for n in range(2)]
    rows = rows_of(read(avro_scan(columns=("id", "_change_type")), topic_of(*values), schemas))
    assert [tuple(row.values()) for row in rows] == [(0, "+U"), (1, "-D")]


def test_avro_needs_a_registry() -> None:
    with pytest.raises(ConfigurationError, match="no address of a schema registry"):
        read_all(avro_scan(), topic_of())
    with pytest.raises(ConfigurationError, match="its address must be like") as caught:
        read_all(avro_scan(), topic_of(), access=KafkaAccess(registry_url="ftp://user:secret@host"))
    assert "secret" not in str(caught.value)
