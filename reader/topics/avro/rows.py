"""Framed Avro values and keys as columns of the table."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.kafka.protocols import SchemaRegistry
from penstock.reader.topics.avro.framed import FramedAvro, relaxed
from penstock.reader.topics.json.keys import JsonKeys
from penstock.reader.topics.record.decoded import Unfit, Values, gathered
from penstock.reader.topics.record.read_schema import TopicReadSchema
from penstock.table.schema.avro import RecordSchema


class AvroRows:
    """Values whose schema is a record of the table's columns. For one thread at a time.

    They are decoded like those of log files, except that a column which the writer lacks is null whatever its default
    is.
    """

    def __init__(self, read_schema: TopicReadSchema, registry: SchemaRegistry, *, compiled: bool) -> None:
        target = RecordSchema("row", relaxed(read_schema.fields), "")
        self._read_schema = read_schema
        self._framed = FramedAvro(registry, lambda _writer: target, compiled=compiled)

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """See `ValuesDecoder`."""
        reasons: dict[int, str] = {}
        groups = list(self._framed.groups(texts, reasons))
        unknown = sum(
            len(group.places) * sum(field.name not in self._read_schema.known for field in group.writer.fields)
            for group in groups
        )
        parts = [(group.places, group.rows) for group in groups]
        rows = gathered(parts, len(texts), self._read_schema.decoded)
        return Values(rows=rows, reasons=reasons, unknown=unknown)


class AvroKeys:
    """Keys with a schema id: a record of the key columns, or the value of the only one. Other keys are read as text or
    JSON."""

    def __init__(self, read_schema: TopicReadSchema, registry: SchemaRegistry) -> None:
        own = read_schema.table.by_name()
        columns = [own[name] for name in read_schema.key_columns if name in own]
        self._texts = JsonKeys(read_schema.topic.key_fields, read_schema.table)
        self._paths = [name if name in own else tuple(name.split(".")) for name in read_schema.topic.key_fields]
        target = RecordSchema("key", relaxed(columns), "")
        lone = columns[0].name if len(columns) == 1 else ""
        self._framed = FramedAvro(registry, lambda _writer: target, compiled=False, lone_column=lone, what="key")

    def cells(self, key: bytes | None) -> dict[str, object]:
        """See `KeysDecoder`."""
        if key is None or key[:1] != b"\0" or not self._paths:
            return self._texts.cells(key)
        reasons: dict[int, str] = {}
        groups = list(self._framed.groups([key], reasons))
        if not groups:
            raise Unfit(f"the {reasons[0]}")
        try:
            row: dict[str, object] = groups[0].rows.to_pylist()[0]
        except (OverflowError, ValueError):
            raise Unfit("the key holds a date or time beyond the years 1 to 9999") from None
        for path in self._paths:
            part: object = row
            for name in (path,) if isinstance(path, str) else path:
                part = part.get(name) if isinstance(part, dict) else None
            if part is None:
                raise Unfit(f"the key has no {path if isinstance(path, str) else '.'.join(path)}")
        return row
