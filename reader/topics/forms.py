"""The decoders of values and keys by `ValueFormat`. A new format is a decoder and a case here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from penstock.kafka.factory import open_registry
from penstock.kafka.protocols import SchemaRegistry
from penstock.proto.errors import ConfigurationError
from penstock.proto.model.hybrid import ValueFormat
from penstock.reader.topics.avro.rows import AvroKeys, AvroRows
from penstock.reader.topics.chunks import Chunks
from penstock.reader.topics.debezium.avro import DebeziumAvro
from penstock.reader.topics.debezium.columns import DebeziumColumns
from penstock.reader.topics.debezium.json import DebeziumJson, DebeziumJsonKeys
from penstock.reader.topics.json.columns import JsonColumns
from penstock.reader.topics.json.keys import JsonKeys
from penstock.reader.topics.json.rows import JsonRows
from penstock.reader.topics.record.decoded import Values, ValuesDecoder
from penstock.reader.topics.record.read_schema import TopicReadSchema

FEW: Final = 64
"""Fewer values than this are decoded one by one, which is about as fast as in bulk and needs no kernel: a reader of few
records never waits for one to be compiled."""


@dataclass(frozen=True, slots=True)
class _BySize:
    """Decodes few values one by one and many in bulk, with equal results."""

    one_by_one: ValuesDecoder
    in_bulk: ValuesDecoder

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """See `ValuesDecoder`."""
        return (self.one_by_one if len(texts) < FEW else self.in_bulk).values(texts)


def chunks_of(
    read_schema: TopicReadSchema, table: str, registry: SchemaRegistry | None, registry_url: str, *, compiled: bool
) -> Chunks:
    """The decoder of one range. ConfigurationError for Avro without a registry."""
    match read_schema.topic.value_format:
        case ValueFormat.JSON:
            rows: ValuesDecoder = JsonRows(read_schema.fields, read_schema.decoded, read_schema.known)
            if compiled:
                rows = _BySize(rows, JsonColumns(read_schema.fields, read_schema.decoded, read_schema.known))
            return Chunks(
                read_schema, rows, JsonKeys(read_schema.topic.key_fields, read_schema.table), tombstone_pairs=False
            )
        case ValueFormat.DEBEZIUM_JSON:
            events: ValuesDecoder = DebeziumJson(read_schema)
            if compiled:
                events = _BySize(events, DebeziumColumns(read_schema))
            return Chunks(read_schema, events, DebeziumJsonKeys(read_schema), tombstone_pairs=True)
        case ValueFormat.AVRO | ValueFormat.DEBEZIUM_AVRO as form:
            schemas = registry if registry is not None else _registry(registry_url, form, table)
            keys = AvroKeys(read_schema, schemas)
            if form is ValueFormat.AVRO:
                return Chunks(
                    read_schema, AvroRows(read_schema, schemas, compiled=compiled), keys, tombstone_pairs=False
                )
            return Chunks(
                read_schema, DebeziumAvro(read_schema, schemas, compiled=compiled), keys, tombstone_pairs=True
            )


def _registry(url: str, form: ValueFormat, table: str) -> SchemaRegistry:
    if not url:
        raise ConfigurationError(f"table {table}: values of a topic as {form}, and no address of a schema registry")
    return open_registry(url)
