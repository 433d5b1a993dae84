"""Debezium's types, each as a column with its values in an event and in the copy, and events in JSON and in Avro."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.engine.sync.topics.decoding import EventDecoder
from penstock.kafka.protocols import RecordChunk
from penstock.proto.model.hybrid import KafkaAccess, ValueFormat
from tests.unit.reader.topics.fake_registry import FakeRegistry

UTC = dt.UTC
CONNECT = "org.apache.kafka.connect.data"


@dataclass(frozen=True)
class Column:
    """A column's type in both schemas, a value as Connect holds it, and what the copy has."""

    connect: dict[str, Any]
    avro: Any
    value: Any
    type: pa.DataType
    expected: Any

    @property
    def json_value(self) -> Any:
        """The value as Connect's JSON converter writes it: bytes in Base64."""
        return base64.b64encode(self.value).decode() if isinstance(self.value, bytes) else self.value


def named(kind: str, name: str, value: Any, target: pa.DataType, expected: Any) -> Column:
    avro = {"int32": "int", "int64": "long"}.get(kind, kind)
    return Column(
        {"type": kind, "name": name, "version": 1}, {"type": avro, "connect.name": name}, value, target, expected
    )


def decimal_column(precision: int | None, scale: int, unscaled: int, target: pa.DataType) -> Column:
    value = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    parameters = {"scale": str(scale)} | ({} if precision is None else {"connect.decimal.precision": str(precision)})
    connect = {"type": "bytes", "name": f"{CONNECT}.Decimal", "version": 1, "parameters": parameters}
    avro = {
        "type": "bytes",
        "logicalType": "decimal",
        "scale": scale,
        "precision": precision or 64,
        "connect.name": f"{CONNECT}.Decimal",
        "connect.parameters": parameters,
    }
    return Column(connect, avro, value, target, decimal.Decimal(unscaled).scaleb(-scale))


def connect_time(kind: str, name: str, logical: str, value: int, target: pa.DataType, expected: Any) -> Column:
    avro = {"type": "int" if kind == "int32" else "long", "logicalType": logical, "connect.name": f"{CONNECT}.{name}"}
    return Column({"type": kind, "name": f"{CONNECT}.{name}"}, avro, value, target, expected)


US, ZONED = pa.timestamp("us"), pa.timestamp("us", "UTC")
AT = dt.datetime(2018, 6, 20, 6, 37, 3, 123456)  # noqa: DTZ001 - Debezium's timestamps have no zone
AT_US = 1_529_476_623_123_456
MS = AT.replace(microsecond=123000)
COLUMNS = {
    "flag": Column({"type": "boolean"}, "boolean", True, pa.bool_(), True),
    "small": Column({"type": "int16"}, {"type": "int", "connect.type": "int16"}, -7, pa.int32(), -7),
    "whole": Column({"type": "int32"}, "int", 7, pa.int32(), 7),
    "big": Column({"type": "int64"}, "long", 1 << 60, pa.int64(), 1 << 60),
    "real": Column({"type": "float"}, "float", 1.5, pa.float32(), 1.5),
    "wide": Column({"type": "double"}, "double", 0.1, pa.float64(), 0.1),
    "text": Column({"type": "string"}, "string", "MTIz", pa.string(), "MTIz"),
    "blob": Column({"type": "bytes"}, "bytes", b"\x00\xff12", pa.binary(), b"\x00\xff12"),
    "bits": named("bytes", "io.debezium.data.Bits", b"\x05", pa.binary(), b"\x05"),
    "uuid": named("string", "io.debezium.data.Uuid", "a" * 36, pa.string(), "a" * 36),
    "day": named("int32", "io.debezium.time.Date", -1, pa.date32(), dt.date(1969, 12, 31)),
    "time": named("int32", "io.debezium.time.Time", 1500, pa.time64("us"), dt.time(0, 0, 1, 500000)),
    "micro_time": named("int64", "io.debezium.time.MicroTime", 1, pa.time64("us"), dt.time(0, 0, 0, 1)),
    "nano_time": named("int64", "io.debezium.time.NanoTime", 5, pa.int64(), 5),
    "at": named("int64", "io.debezium.time.Timestamp", AT_US // 1000, US, MS),
    "micro_at": named("int64", "io.debezium.time.MicroTimestamp", AT_US, US, AT),
    "nano_at": named("int64", "io.debezium.time.NanoTimestamp", AT_US * 1000, pa.int64(), AT_US * 1000),
    "zoned": named(
        "string", "io.debezium.time.ZonedTimestamp", "2018-06-20T08:37:03.123456+02:00", ZONED, AT.replace(tzinfo=UTC)
    ),
    "connect_day": connect_time("int32", "Date", "date", 17702, pa.date32(), dt.date(2018, 6, 20)),
    "connect_time": connect_time("int32", "Time", "time-millis", 1, pa.time64("us"), dt.time(0, 0, 0, 1000)),
    "connect_at": connect_time("int64", "Timestamp", "timestamp-millis", AT_US // 1000, ZONED, MS.replace(tzinfo=UTC)),
    "money": decimal_column(12, 2, -123, pa.decimal128(12, 2)),
    "digits": decimal_column(9, 0, 0x31D69E, pa.decimal128(9, 0)),
    "large": decimal_column(None, 3, 10**37, pa.decimal128(38, 3)),
    "tags": Column(
        {"type": "array", "items": {"type": "string", "optional": True}},
        {"type": "array", "items": ["null", "string"]},
        ["a", None],
        pa.list_(pa.field("element", pa.string())),
        ["a", None],
    ),
}


@dataclass
class Events:
    """Events with these columns in one of the forms."""

    form: ValueFormat
    columns: dict[str, Column]
    registry: FakeRegistry
    schema_id: int = 1

    def __post_init__(self) -> None:
        fields = [{"name": "id", "type": "long"}]
        fields += [{"name": name, "type": ["null", one.avro], "default": None} for name, one in self.columns.items()]
        row = {"type": "record", "name": "Value", "fields": fields}
        images = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
        event = {
            "type": "record",
            "name": "Envelope",
            "namespace": "shop.t",
            "fields": [*images, {"name": "op", "type": "string"}],
        }
        self.registry.add(100, {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]})
        self.registry.add(self.schema_id, event)

    def value(self, op: str, after: dict[str, Any] | None, before: dict[str, Any] | None = None) -> bytes:
        if self.form is ValueFormat.DEBEZIUM_AVRO:
            images = [None if one is None else {**dict.fromkeys(self.columns), **one} for one in (before, after)]
            return self.registry.framed(self.schema_id, {"before": images[0], "after": images[1], "op": op})
        fields = [{"type": "int64", "field": "id"}]
        fields += [{**one.connect, "optional": True, "field": name} for name, one in self.columns.items()]
        image = {"type": "struct", "optional": True, "fields": fields}
        schema = {
            "type": "struct",
            "fields": [{**image, "field": "before"}, {**image, "field": "after"}, {"type": "string", "field": "op"}],
        }
        return json.dumps(
            {"schema": schema, "payload": {"before": before, "after": after, "op": op}}, separators=(",", ":")
        ).encode()

    def key(self, number: int) -> bytes:
        if self.form is ValueFormat.DEBEZIUM_AVRO:
            return self.registry.framed(100, {"id": number})
        schema = {"type": "struct", "fields": [{"type": "int64", "field": "id"}]}
        return json.dumps({"schema": schema, "payload": {"id": number}}).encode()

    def row(self, number: int, **nulls: None) -> dict[str, Any]:
        is_avro = self.form is ValueFormat.DEBEZIUM_AVRO
        values = {name: one.value if is_avro else one.json_value for name, one in self.columns.items()}
        if is_avro:  # fastavro takes the values of logical types
            for name, one in self.columns.items():
                if "logicalType" in (one.avro if isinstance(one.avro, dict) else {}):
                    values[name] = one.expected
        return {"id": number, **values, **nulls}

    def decoder(self) -> EventDecoder:
        return EventDecoder(self.form, KafkaAccess(), self.registry, checks_partitions=False)


def chunk(keys: Sequence[bytes | None], values: Sequence[bytes | None], first: int = 0) -> RecordChunk:
    offsets = np.arange(first, first + len(keys))
    return RecordChunk(
        offsets=offsets,
        timestamps_ms=offsets,
        keys=list(keys),
        values=list(values),
        next_offset=first + len(keys),
    )
