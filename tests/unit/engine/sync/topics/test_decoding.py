"""Debezium's types as columns: events in JSON and in Avro decode to equal rows, of the type that the value means."""

from __future__ import annotations

import base64
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.sync.topics.connect_types import given_type
from penstock.engine.sync.topics.decoding import EventDecoder
from penstock.engine.sync.topics.partitioner import partitions_of
from penstock.engine.sync.topics.position import TopicPosition, parse_position
from penstock.kafka.protocols import RecordChunk
from penstock.proto.errors import ConfigurationError, DataInvalidated, PenstockError, SchemaMismatch, UndecodableRecord
from penstock.proto.model.hybrid import KafkaAccess, ValueFormat
from tests.unit.engine.sync.topics.typed_events import COLUMNS, Column, Events, chunk, decimal_column
from tests.unit.reader.topics.fake_registry import FakeRegistry

FORMS = [ValueFormat.DEBEZIUM_JSON, ValueFormat.DEBEZIUM_AVRO]


@pytest.fixture(params=FORMS, ids=str)
def form(request: pytest.FixtureRequest) -> ValueFormat:
    return ValueFormat(request.param)


def position(**offsets: int) -> TopicPosition:
    return TopicPosition(
        topic="shop.t", topic_id="i", offsets={int(one[1:]): at for one, at in offsets.items()} or {0: 0}
    )


def rows_of(decoder: EventDecoder, *chunks: RecordChunk, at: TopicPosition | None = None) -> pa.Table:
    decoded = decoder.decoded(at or position(), dict(enumerate(chunks)))
    return pa.Table.from_batches(decoded.rows).sort_by("_change_seq")


@pytest.mark.parametrize("count", [1, 70], ids=["one by one", "in bulk"])
@pytest.mark.parametrize("name", COLUMNS)
def test_value_of_each_type_is_equal_in_json_and_avro(form: ValueFormat, name: str, count: int) -> None:
    column = COLUMNS[name]
    events = Events(form, {name: column}, FakeRegistry())
    values = [events.value("c", events.row(number)) for number in range(count)]
    values += [events.value("u", events.row(count, **{name: None}))]
    rows = rows_of(events.decoder(), chunk([events.key(number) for number in range(count + 1)], values))
    assert rows.schema.field(name).type == column.type
    assert rows[name].to_pylist() == [column.expected] * count + [None]
    assert rows["id"].to_pylist() == list(range(count + 1))


def test_all_types_together_survive_the_position(form: ValueFormat) -> None:
    events = Events(form, COLUMNS, FakeRegistry())
    decoded = events.decoder().decoded(position(), {0: chunk([events.key(1)], [events.value("r", events.row(1))])})
    (batch,) = decoded.rows
    assert {name: batch[name].to_pylist()[0] for name in COLUMNS} == {
        name: one.expected for name, one in COLUMNS.items()
    }
    stored = parse_position(decoded.position.text(), "shop.t")
    assert stored == decoded.position
    assert stored.key is not None and stored.key.names == ("id",)


def test_deletes_tombstones_and_truncates(form: ValueFormat) -> None:
    events = Events(form, {"text": COLUMNS["text"]}, FakeRegistry())
    keys = [events.key(number) for number in (1, 1, 1, 2, 3)]
    values = [
        events.value("c", events.row(1)),
        events.value("d", None, events.row(1)),
        None,
        None,
        events.value("c", events.row(3)),
    ]
    rows = rows_of(events.decoder(), chunk(keys, values))
    kinds = list(zip(rows["_change_type"].to_pylist(), rows["id"].to_pylist(), strict=True))
    assert kinds == [("+U", 1), ("-D", 1), ("-D", 2), ("+U", 3)]
    with pytest.raises(UndecodableRecord, match=r"offset 0: .* truncation of its table"):
        rows_of(events.decoder(), chunk([events.key(1)], [events.value("t", None)]))


def test_deletes_before_the_first_row_have_no_columns(form: ValueFormat) -> None:
    events = Events(form, {"text": COLUMNS["text"]}, FakeRegistry())
    decoded = events.decoder().decoded(position(), {0: chunk([events.key(1)], [None])})
    assert decoded.rows == () and decoded.position.schema_json == ""
    with pytest.raises(UndecodableRecord, match="partition 0, offset 1"):
        events.decoder().decoded(position(), {0: chunk([events.key(1)] * 2, [None, b"\x01"])})


def test_each_event_has_the_types_of_its_own_schema(form: ValueFormat) -> None:
    """Two schemas in one chunk: an unscaled value means another number with another scale."""
    registry = FakeRegistry()
    old = Events(form, {"v": decimal_column(9, 2, 12345, pa.decimal128(9, 2))}, registry, 1)
    new = Events(form, {"v": decimal_column(12, 4, 12345, pa.decimal128(12, 4)), "w": COLUMNS["whole"]}, registry, 2)
    keys = [old.key(number) for number in range(3)]
    values = [old.value("c", old.row(0)), new.value("c", new.row(1)), old.value("c", old.row(2))]
    rows = rows_of(old.decoder(), chunk(keys, values))
    assert rows.schema.field("v").type == pa.decimal128(12, 4)
    assert rows["v"].to_pylist() == [decimal.Decimal("123.45"), decimal.Decimal("1.2345"), decimal.Decimal("123.45")]
    assert rows["w"].to_pylist() == [None, 7, None]


def test_whole_number_that_a_wider_float_rounds_is_read(form: ValueFormat) -> None:
    """As in a table whose column becomes wider: a number beyond 2**53 is rounded, not an error of Arrow."""
    registry, large = FakeRegistry(), (1 << 60) + 1
    old = Events(form, {"v": Column({"type": "int64"}, "long", large, pa.int64(), large)}, registry, 1)
    new = Events(form, {"v": COLUMNS["wide"]}, registry, 2)
    rows = rows_of(
        old.decoder(), chunk([old.key(0), old.key(1)], [old.value("c", old.row(0)), new.value("c", new.row(1))])
    )
    assert rows["v"].to_pylist() == [float(1 << 60), 0.1]


def test_number_that_becomes_text_is_written_as_text_and_not_reverse(form: ValueFormat) -> None:
    registry = FakeRegistry()
    old = Events(form, {"v": COLUMNS["day"]}, registry, 1)
    new = Events(form, {"v": COLUMNS["text"]}, registry, 2)
    rows = rows_of(
        old.decoder(), chunk([old.key(0), old.key(1)], [old.value("c", old.row(0)), new.value("c", new.row(1))])
    )
    assert rows["v"].to_pylist() == ["1969-12-31", "MTIz"]
    back = Events(form, {"v": COLUMNS["flag"]}, registry, 3)
    at = old.decoder().decoded(position(), {0: chunk([old.key(0)], [old.value("c", old.row(0))])}).position
    with pytest.raises(SchemaMismatch, match=r"column v was date32.* and is bool"):
        rows_of(back.decoder(), chunk([back.key(1)], [back.value("c", back.row(1))]), at=at)


SCALED = "io.debezium.data.VariableScaleDecimal"
NO_COLUMN_TYPES = {
    "a decimal of 39 digits": decimal_column(39, 0, 1, pa.null()),
    r".*struct \(io.debezium.data.VariableScaleDecimal\)": Column(
        {"type": "struct", "name": SCALED, "fields": [{"type": "int32", "field": "scale"}]},
        {"type": "record", "name": SCALED, "connect.name": SCALED, "fields": [{"name": "scale", "type": "int"}]},
        None,
        pa.null(),
        None,
    ),
    ".*bytes": Column(
        {"type": "array", "items": {"type": "bytes"}}, {"type": "array", "items": "bytes"}, 0, pa.null(), 0
    ),
}


@pytest.mark.parametrize("expected", NO_COLUMN_TYPES)
def test_type_without_column_type_names_the_column(form: ValueFormat, expected: str) -> None:
    events = Events(form, {"v": NO_COLUMN_TYPES[expected]}, FakeRegistry())
    row = {"id": 1, "v": None}
    with pytest.raises(SchemaMismatch, match=f"column v: {expected}"):
        rows_of(events.decoder(), chunk([events.key(1)], [events.value("c", row)]))


def test_reserved_column_is_refused(form: ValueFormat) -> None:
    events = Events(form, {"_event_lsn": COLUMNS["big"]}, FakeRegistry())
    with pytest.raises(SchemaMismatch, match="column _event_lsn: this name"):
        rows_of(events.decoder(), chunk([events.key(1)], [events.value("c", events.row(1))]))


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("blob", "AA", "column blob: a text that is not Base64"),
        ("zoned", "infinity", "column zoned"),
        ("zoned", "2018-06-20T06:37:03.1234567Z", "column zoned"),
        ("money", base64.b64encode(b"\x7f" * 6).decode(), "column money"),
        ("money", 1.23, "column money"),
        ("digits", 1234, "decimals are JSON numbers"),
        ("micro_time", 86_400_000_000, "column micro_time: a time outside"),
    ],
)
def test_json_value_that_is_none_of_its_type_is_refused(name: str, value: Any, expected: str) -> None:
    events = Events(ValueFormat.DEBEZIUM_JSON, {name: COLUMNS[name]}, FakeRegistry())
    good = events.row(1)
    assert rows_of(events.decoder(), chunk([events.key(1)], [events.value("c", good)])).num_rows == 1
    with pytest.raises((UndecodableRecord, SchemaMismatch), match=expected):
        rows_of(events.decoder(), chunk([events.key(1)], [events.value("c", {**good, name: value})]))


def test_key_of_another_schema_and_no_key_are_refused(form: ValueFormat) -> None:
    events = Events(form, {"text": COLUMNS["text"]}, FakeRegistry())
    other = {
        "type": "record",
        "name": "Key",
        "fields": [{"name": "id", "type": "long"}, {"name": "text", "type": "string"}],
    }
    events.registry.add(101, other)
    key = events.registry.framed(101, {"id": 1, "text": "a"})
    if form is ValueFormat.DEBEZIUM_JSON:
        fields = [{"type": "int64", "field": "id"}, {"type": "string", "field": "text"}]
        key = json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": {"id": 1, "text": "a"}}).encode()
    value = events.value("c", events.row(1))
    with pytest.raises(SchemaMismatch, match=r"had the key \(id\) and have \(id, text\)"):
        rows_of(events.decoder(), chunk([events.key(1), key], [value, value]))
    with pytest.raises(SchemaMismatch, match="have no key"):
        rows_of(events.decoder(), chunk([events.key(1), None], [value, value]))


def test_record_in_a_partition_that_its_key_does_not_select(form: ValueFormat) -> None:
    events = Events(form, {"text": COLUMNS["text"]}, FakeRegistry())
    decoder = EventDecoder(form, KafkaAccess(), events.registry)
    places = partitions_of([events.key(number) for number in range(20)], 3).tolist()
    keys: list[list[int]] = [[number for number in range(20) if places[number] == part] for part in range(3)]
    chunks = {
        part: chunk([events.key(one) for one in own], [events.value("c", events.row(one)) for one in own])
        for part, own in enumerate(keys)
    }
    at = position(_0=0, _1=0, _2=0)
    assert sum(one.num_rows for one in decoder.decoded(at, chunks).rows) == 20
    with pytest.raises(DataInvalidated, match="partition 0, offset 0: the record's key selects another one of 3"):
        decoder.decoded(at, {0: chunks[1]})
    free = EventDecoder(form, KafkaAccess(), events.registry, checks_partitions=False)
    assert free.decoded(at, {0: chunks[1]}).rows


@pytest.mark.parametrize(
    ("value", "error", "expected"),
    [
        (b'{"op":"c","after":{"id":1}}', ConfigurationError, "its JSON has no schema"),
        (b'{"schema":null,"payload":{"op":"c","after":{"id":1}}}', ConfigurationError, "its JSON has no schema"),
        (b'{"schema":{"type":"struct","fields":[]},"payload":{"ddl":"DROP"}}', SchemaMismatch, "not Debezium's events"),
        (b"not JSON", UndecodableRecord, "offset 0"),
    ],
)
def test_json_that_is_no_event_with_schema(value: bytes, error: type[PenstockError], expected: str) -> None:
    events = Events(ValueFormat.DEBEZIUM_JSON, {}, FakeRegistry())
    with pytest.raises(error, match=expected):
        rows_of(events.decoder(), chunk([events.key(1)], [value]))


def test_payload_before_schema_is_read() -> None:
    events = Events(ValueFormat.DEBEZIUM_JSON, {"text": COLUMNS["text"]}, FakeRegistry())
    turned = []
    for number in range(3):
        document = json.loads(events.value("c", events.row(number)))
        turned.append(json.dumps({"payload": document["payload"], "schema": document["schema"]}).encode())
    rows = rows_of(events.decoder(), chunk([events.key(number) for number in range(3)], turned))
    assert rows["id"].to_pylist() == [0, 1, 2]


PLAIN = {"id": "int64", "text": "string", "money": "decimal(12,2)", "micro_at": "io.debezium.time.MicroTimestamp"}


def plain(column: str | None = None, key: tuple[str, ...] = ("id",)) -> EventDecoder:
    """A decoder of JSON without schemas; without `column`."""
    columns = {name: given_type(kind, "f") for name, kind in PLAIN.items() if name != column}
    return EventDecoder(
        ValueFormat.DEBEZIUM_JSON, KafkaAccess(), checks_partitions=False, columns=columns, given_key=key
    )


def plain_event(op: str = "c", **changes: Any) -> bytes:
    row = {"id": 1, **{name: COLUMNS[name].json_value for name in PLAIN if name != "id"}, **changes}
    return json.dumps({"op": op, "before": None, "after": row}).encode()


@pytest.mark.parametrize("count", [1, 70])
def test_json_without_schemas_has_the_given_types(count: int) -> None:
    keys = [b'{"id":1}'] * count + [b'{"id":2}']
    rows = rows_of(plain(), chunk(keys, [plain_event()] * count + [None]))
    for name in PLAIN:
        expected = 1 if name == "id" else COLUMNS[name].expected
        assert rows[name].to_pylist()[:count] == [expected] * count
    assert rows["_change_type"].to_pylist() == ["+U"] * count + ["-D"] and rows["id"].to_pylist()[-1] == 2
    wrapped = b'{"schema":null,"payload":%b}' % plain_event()
    assert rows_of(plain(), chunk([b'{"schema":null,"payload":{"id":1}}'], [wrapped]))["id"].to_pylist() == [1]


def test_json_without_schemas_that_does_not_fit_the_job_is_refused() -> None:
    with pytest.raises(SchemaMismatch, match="fields that are not among the job's columns: money"):
        rows_of(plain("money"), chunk([b'{"id":1}'], [plain_event()]))
    with pytest.raises(SchemaMismatch, match="key id: expected keys"):
        rows_of(plain(), chunk([b'{"other":1}'], [plain_event()]))
    with pytest.raises(SchemaMismatch, match="key id: expected keys"):
        rows_of(plain(), chunk([b'{"id":1}', None], [plain_event()] * 2))
    with pytest.raises(UndecodableRecord, match="column money"):
        rows_of(plain(), chunk([b'{"id":1}'], [plain_event(money="1.23")]))
    for kind in ("int", "decimal(9,0)", "decimal(9)", "struct"):
        with pytest.raises(ConfigurationError, match=r"columns: got type '.*', expected one of"):
            given_type(kind, "f")
