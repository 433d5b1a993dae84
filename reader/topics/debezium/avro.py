"""Debezium's envelopes as framed Avro, decoded to columns of the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kafka.protocols import SchemaRegistry
from penstock.reader.topics.avro.framed import FramedAvro, Group, relaxed
from penstock.reader.topics.debezium.envelope import ADDED, SEQUENCE, SOURCE_FIELDS, event_sequence, kind_of
from penstock.reader.topics.record.decoded import DELETE, PASSED, UPSERT, Unfit, Values, gathered
from penstock.reader.topics.record.read_schema import TopicReadSchema
from penstock.table.schema.avro import AvroField, RecordSchema, RecordType


class DebeziumAvro:
    """Decodes values that are envelopes. For one thread at a time."""

    def __init__(self, read_schema: TopicReadSchema, registry: SchemaRegistry, *, compiled: bool) -> None:
        self._read_schema = read_schema
        own = read_schema.table.by_name()
        self._added = {name: path for name, path in ADDED.items() if name in own}
        self._image = tuple(
            field for field in relaxed(read_schema.fields) if field.name not in self._added and field.name != SEQUENCE
        )
        self._framed = FramedAvro(registry, self._target, compiled=compiled)

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """See `ValuesDecoder`."""
        reasons: dict[int, str] = {}
        kinds = np.full(len(texts), UPSERT, np.uint8)
        parts: list[tuple[np.ndarray, pa.RecordBatch]] = []
        unknown = 0
        for group in self._framed.groups(texts, reasons):
            self._kinds(group, kinds, reasons)
            try:
                parts.append((group.places, self._rows(group, kinds[group.places] == DELETE)))
            except pa.ArrowException as error:
                reasons.update(dict.fromkeys(group.places.tolist(), f"value: {str(error)[:200]}"))
                continue
            written = _image_fields(group.writer)
            unknown += int((kinds[group.places] != PASSED).sum()) * sum(
                field.name not in self._read_schema.known for field in written
            )
        rows = gathered(parts, len(texts), self._read_schema.decoded)
        return Values(rows=rows, reasons=reasons, kinds=kinds, unknown=unknown)

    def _target(self, writer: RecordSchema) -> RecordSchema:
        """The columns to decode of an envelope: images with the table's columns, the source as written."""
        written = writer.by_name()
        if not {"op", "before", "after"} <= written.keys():
            raise Unfit("not a Debezium event: its schema has no op, before and after")
        image = RecordType(self._image)
        fields = [written["op"]]
        fields += [replace(written[side], type=image) for side in ("before", "after")]
        if "ts_ms" in written:
            fields.append(written["ts_ms"])
        source = written.get("source")
        kept = [field for field in _fields(source) if field.name in SOURCE_FIELDS]
        if source is not None and kept:
            fields.append(replace(source, type=RecordType(tuple(kept))))
        return RecordSchema("event", relaxed(fields), "")

    def _kinds(self, group: Group, kinds: np.ndarray, reasons: dict[int, str]) -> None:
        operations = group.rows.column("op").to_pylist()
        absent = group.rows.column("after").is_null().to_pylist()
        for place, operation, lacks in zip(group.places.tolist(), operations, absent, strict=True):
            try:
                kinds[place] = kind_of(operation)
                if lacks and kinds[place] == UPSERT:
                    reasons[place] = "value is a Debezium event whose after is null, expected a record"
            except Unfit as error:
                reasons[place] = str(error)

    def _rows(self, group: Group, is_delete: np.ndarray) -> pa.RecordBatch:
        """The columns of the image that is the row, and of the source."""
        rows = group.rows
        count = rows.num_rows
        before, after = (
            dict(zip((field.name for field in self._image), rows.column(side).flatten(), strict=True))
            for side in ("before", "after")
        )
        places = pa.array(np.where(is_delete, np.arange(count), count + np.arange(count)))
        columns: list[pa.Array] = []
        for field in self._read_schema.decoded:
            if field.name in before:
                columns.append(pa.concat_arrays([before[field.name], after[field.name]]).take(places))
            elif field.name == SEQUENCE:
                columns.append(_sequence(rows).cast(field.type))
            else:
                values = _member(rows, self._added[field.name])
                columns.append(pa.nulls(count, field.type) if values is None else values.cast(field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self._read_schema.decoded)


def _sequence(rows: pa.RecordBatch) -> pa.Array:
    files, positions = _member(rows, ("source", "file")), _member(rows, ("source", "pos"))
    if files is None or positions is None:
        return pa.nulls(rows.num_rows, pa.string())
    sequences = [
        event_sequence(file, position) for file, position in zip(files.to_pylist(), positions.to_pylist(), strict=True)
    ]
    return pa.array(sequences, pa.string())


def _member(rows: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array | None:
    """A field of the envelope or its source; None if the writer's schema has none."""
    if path[0] not in rows.schema.names:
        return None
    column = rows.column(path[0])
    if len(path) == 1:
        return column
    kind: pa.StructType = column.type
    return pc.struct_field(column, [path[1]]) if kind.get_field_index(path[1]) >= 0 else None


def _fields(field: AvroField | None) -> tuple[AvroField, ...]:
    return field.type.fields if field is not None and isinstance(field.type, RecordType) else ()


def _image_fields(writer: RecordSchema) -> tuple[AvroField, ...]:
    return _fields(writer.by_name().get("after"))
