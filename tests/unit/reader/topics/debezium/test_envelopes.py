"""Debezium's envelopes, as JSON and as Avro: the same rows from both."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from penstock.proto.errors import UndecodableRecord
from penstock.proto.model.hybrid import HybridMode, ValueFormat
from penstock.reader.read_split import SplitTally
from tests.unit.reader.topics.fake_registry import FakeRegistry
from tests.unit.reader.topics.fake_topic import FakeTopic, read_all, rows_of, topic_of, topic_scan, topic_split

TEXT, LONG = ["null", "string"], ["null", "long"]
IMAGE = (
    {"name": "id", "type": ["null", "int"]},
    {"name": "city", "type": TEXT},
)
ADDED = (
    {"name": "_change_operation_type", "type": TEXT},
    {"name": "_upstream_event_processed_ts_ms", "type": LONG},
    {"name": "db_shard_source_partition", "type": TEXT},
    {"name": "_event_origin_ts_ms", "type": LONG},
    {"name": "_event_lsn", "type": LONG},
    {"name": "_event_bin_file", "type": TEXT},
    {"name": "_event_pos", "type": LONG},
    {"name": "_event_seq", "type": TEXT},
)
POSTGRES = {"name": "pg", "ts_ms": 90, "schema": "public", "lsn": 1234, "txId": 5}
MYSQL = {"name": "my", "ts_ms": 91, "file": "binlog.000012", "pos": 345}
VALUE = {
    "type": "record",
    "name": "Value",
    "fields": [{"name": "id", "type": "int"}, {"name": "city", "type": TEXT}, {"name": "unknown", "type": TEXT}],
}
SOURCE = {
    "type": "record",
    "name": "Source",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "name", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "lsn", "type": LONG},
        {"name": "file", "type": TEXT},
        {"name": "pos", "type": LONG},
    ],
}
ENVELOPE = {
    "type": "record",
    "name": "Envelope",
    "namespace": "server.shop.orders",
    "fields": [
        {"name": "before", "type": ["null", VALUE], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": SOURCE},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": LONG},
    ],
}
Encode = Callable[[dict[str, object]], bytes]


def event(op: str, before: object, after: object, source: dict[str, object] = POSTGRES) -> dict[str, object]:
    return {"op": op, "before": before, "after": after, "source": {"connector": "c", **source}, "ts_ms": 99}


def image(number: int, city: str | None) -> dict[str, object]:
    return {"id": number, "city": city, "unknown": None}


class Form:
    """One form of values: how it is written, how a topic of it is read."""

    def __init__(self, name: str) -> None:
        self.avro = name == "avro"
        self.wrapped = name == "wrapped"
        self.registry = FakeRegistry()
        self.registry.add(1, ENVELOPE)

    def value(self, document: dict[str, object] | None) -> bytes | None:
        if document is None:
            return None
        if self.avro:
            return self.registry.framed(1, document)
        return json.dumps({"schema": {"type": "struct"}, "payload": document} if self.wrapped else document).encode()

    def key(self, number: int) -> bytes:
        key: dict[str, object] = {"id": number}
        return json.dumps({"schema": None, "payload": key} if self.wrapped else key).encode()

    def read(
        self, events: Sequence[dict[str, object] | None], keys: Sequence[int] = (), **more: object
    ) -> list[object]:
        topic = topic_of(*map(self.value, events), keys=[self.key(number) for number in keys])
        return self.rows(topic, **more)

    def rows(self, topic: FakeTopic, **more: object) -> list[object]:
        arguments = {"columns": ("id", "city", "_change_type"), "mode": HybridMode.CHANGELOG, **more}
        form = ValueFormat.DEBEZIUM_AVRO if self.avro else ValueFormat.DEBEZIUM_JSON
        columns, mode = arguments.pop("columns"), arguments.pop("mode")
        scan = topic_scan(*IMAGE, *ADDED, columns=columns, mode=mode, value_format=form)  # type: ignore[arg-type]
        batches = read_all(scan, topic, registry=self.registry, **arguments)  # type: ignore[arg-type]
        return [tuple(row.values()) for row in rows_of(batches)]


@pytest.fixture(params=["plain", "wrapped", "avro"])
def form(request: pytest.FixtureRequest) -> Form:
    return Form(request.param)


def test_row_16_operations_become_changes(form: Form) -> None:
    tally = SplitTally()
    events = [
        event("c", None, image(1, "a")),
        event("u", image(1, "a"), image(1, "b")),
        event("r", None, image(2, "c")),
        event("d", image(1, "b"), None),
    ]
    assert form.read(events, tally=tally) == [(1, "a", "+U"), (1, "b", "+U"), (2, "c", "+U"), (1, "b", "-D")]
    assert dict(tally.report().counts) == {"kafka_records": 4, "kafka_unknown_fields": 4}


def test_append_drops_deletes(form: Form) -> None:
    events = [event("c", None, image(1, "a")), event("d", image(1, "b"), None), None]
    assert form.read(events, columns=("id",), mode=HybridMode.APPEND) == [(1,)]


def test_delete_without_an_image_takes_its_key(form: Form) -> None:
    assert form.read([event("d", None, None)], keys=[7]) == [(7, None, "-D")]


def test_columns_that_hudi_adds_come_from_the_source(form: Form) -> None:
    columns = tuple(str(field["name"]) for field in ADDED)
    events = [event("c", None, image(1, "a")), event("d", image(1, "b"), None, MYSQL)]
    assert form.read(events, columns=columns) == [
        ("c", 99, "pg", 90, 1234, None, None, None),
        ("d", 99, "my", 91, None, "binlog.000012", 345, "000012.345"),
    ]


def test_row_15_tombstone_after_a_delete_of_its_key_is_part_of_it(form: Form) -> None:
    removed = event("d", image(1, "b"), None)
    assert form.read([removed, None, None], keys=[1, 1, 1]) == [(1, "b", "-D"), (1, None, "-D")]
    assert form.read([removed, None], keys=[1, 2]) == [(1, "b", "-D"), (2, None, "-D")]
    assert form.read([event("c", None, image(1, "x")), None], keys=[1, 1]) == [(1, "x", "+U"), (1, None, "-D")]


def test_resuming_anywhere_gives_the_tail_of_the_whole(form: Form) -> None:
    events = [event("d", image(1, "b"), None), None, event("d", image(2, None), None), None, None]
    topic = topic_of(*map(form.value, events), keys=[form.key(number) for number in (1, 1, 2, 3, 3)], first=10)
    offsets = [10, 12, 13, 14]
    whole = form.rows(topic, split=topic_split(10, 15))
    assert whole == [(1, "b", "-D"), (2, None, "-D"), (3, None, "-D"), (3, None, "-D")]
    for start in range(6):
        for batch_rows in (1, 2, 100):
            rest = form.rows(topic, split=topic_split(10, 15), start=start, batch_rows=batch_rows)
            assert rest == [row for offset, row in zip(offsets, whole, strict=True) if offset >= 10 + start]


def test_messages_of_the_databases_log_are_passed_over(form: Form) -> None:
    tally = SplitTally()
    assert form.read([event("m", None, None), event("c", None, image(1, "a"))], tally=tally) == [(1, "a", "+U")]
    assert dict(tally.report().counts)["kafka_records"] == 2


@pytest.mark.parametrize(
    ("op", "problem"),
    [
        ("t", "the truncation of its table, which does not change a row"),
        ("x", "operation 'x', which does not change a row"),
        ("c", "a Debezium event whose after is null"),
    ],
)
def test_events_that_are_no_change(form: Form, op: str, problem: str) -> None:
    with pytest.raises(UndecodableRecord, match=problem):
        form.read([event(op, image(1, "a"), None)])


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b"[]", "value is a list, expected a Debezium event"),
        (b'{"id": 1}', "not a Debezium event: it has no op"),
        (b'{"schema": {}, "payload": null}', "value is null, expected a Debezium event"),
        (b'{"op": "c", "after": 5}', "whose after is the number 5, expected an object"),
        (b'{"op": "c", "after": {"id": "x"}}', "column id: the text 'x', expected an int"),
        (b'{"op": 1}', "operation '1'"),
        (b"{", "value is not JSON"),
    ],
)
def test_json_that_is_no_event(value: bytes, problem: str) -> None:
    with pytest.raises(UndecodableRecord, match=problem):
        Form("plain").rows(topic_of(value))


def test_avro_that_is_no_event() -> None:
    form = Form("avro")
    form.registry.add(2, VALUE)
    with pytest.raises(UndecodableRecord, match="not a Debezium event: its schema has no op, before and after"):
        form.rows(topic_of(form.registry.framed(2, image(1, "a"))))
