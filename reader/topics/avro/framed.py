"""Decodes Avro values with the id of their schema in front, in bulk by schema, and finds those that do not fit.

Layout (Confluent's serialisers): a zero byte, the id as int32 big-endian, the value. `rows` and `debezium.avro` use the
columns; `penstock.kafka.schema_registry` resolves ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.kafka.protocols import SchemaRegistry, UnusableSchema
from penstock.proto.errors import CorruptBlock, FormatError, SchemaMismatch
from penstock.reader.avro.decoder import AvroDecoder
from penstock.reader.topics.record.decoded import Unfit
from penstock.table.log.blocks import BlockPlace
from penstock.table.schema.avro import (
    ArrayType,
    AvroField,
    AvroType,
    MapType,
    RecordSchema,
    RecordType,
    parse_record_schema,
)

HEADER_BYTES: Final = 5
_MAX_ID: Final = 2**31 - 1

Target = Callable[[RecordSchema], RecordSchema]
"""From a writer's schema to the columns to decode. SchemaMismatch or Unfit if there are none."""


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Values of one schema."""

    schema_id: int
    """The schema's id."""
    writer: RecordSchema
    """The schema."""
    places: npt.NDArray[np.int64]
    """The indices of the values among those passed in, ascending."""
    rows: pa.RecordBatch
    """One row per value."""


class FramedAvro:
    """Decodes framed values to columns that depend on the writer's schema. For one thread at a time."""

    def __init__(
        self, registry: SchemaRegistry, target: Target, *, compiled: bool, lone_column: str = "", what: str = "value"
    ) -> None:
        """lone_column: the column name for a schema that is not a record."""
        self._lone_column = lone_column
        self._registry, self._target, self._compiled, self._what = registry, target, compiled, what
        self._decoders: dict[int, tuple[RecordSchema, AvroDecoder] | str] = {}

    def groups(self, values: Sequence[bytes | None], reasons: dict[int, str]) -> Iterator[Group]:
        """The values by schema. For other values the reason is put into `reasons`; None is skipped."""
        by_id: dict[int, list[int]] = {}
        for place, value in enumerate(values):
            if value is None:
                continue
            if len(value) < HEADER_BYTES or value[0] != 0:
                reasons[place] = f"{self._what} does not begin with the id of a schema (a zero byte, four bytes)"
            else:
                by_id.setdefault(int.from_bytes(value[1:HEADER_BYTES], "big"), []).append(place)
        for schema_id, places in by_id.items():
            known = self._known(schema_id)
            if isinstance(known, str):
                reasons.update(dict.fromkeys(places, known))
                continue
            writer, decoder = known
            encoded = [value for value in (values[place] for place in places) if value is not None]
            ends = np.cumsum([len(value) for value in encoded])
            begins = ends - np.array([len(value) - HEADER_BYTES for value in encoded])
            decoding = _Decoding(decoder, b"".join(encoded), begins, ends, [])
            parts = [pa.Table.from_batches([], schema=decoder.schema)]
            parts += [pa.Table.from_batches([batch]) for batch in decoding.decoded(0, len(encoded))]
            for number in decoding.bad:
                reasons[places[number]] = f"{self._what} does not fit its schema, {schema_id} of the registry"
            good = np.delete(np.asarray(places, np.int64), decoding.bad)
            if len(good):
                rows = pa.concat_tables(parts).combine_chunks().to_batches()[0]
                yield Group(schema_id, writer, good, rows)

    def _known(self, schema_id: int) -> tuple[RecordSchema, AvroDecoder] | str:
        """A schema's decoder, or the reason why there is none. Each schema is requested once per read."""
        if schema_id not in self._decoders:
            self._decoders[schema_id] = self._new_decoder(schema_id)
        return self._decoders[schema_id]

    def _new_decoder(self, schema_id: int) -> tuple[RecordSchema, AvroDecoder] | str:
        where = f"schema {schema_id} of the registry"
        if schema_id > _MAX_ID:
            return f"{self._what}: there is no schema {schema_id}"
        try:
            writer = self._parsed(self._registry.schema(schema_id), where)
            target = self._target(writer)
            names = [field.name for field in target.fields]
            return writer, AvroDecoder(writer, names, target, compiled=self._compiled, where=where)
        except (Unfit, UnusableSchema, FormatError) as error:
            return f"{self._what}: {error}"

    def _parsed(self, text: str, where: str) -> RecordSchema:
        if self._lone_column:
            try:
                node = json.loads(text)
            except (ValueError, RecursionError):
                raise Unfit(f"{where} is no JSON") from None
            if not isinstance(node, dict) or node.get("type") != "record":
                text = json.dumps(
                    {"type": "record", "name": "key", "fields": [{"name": self._lone_column, "type": node}]}
                )
        return parse_record_schema(text, where)


@dataclass(frozen=True, slots=True, eq=False)
class _Decoding:
    """Values of one schema in one buffer; `bad` are the indices of those that do not fit, ascending."""

    decoder: AvroDecoder
    data: bytes
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    bad: list[int]

    def decoded(self, first: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows of first..end-1 that fit: all at once, or by halves around those that do not."""
        place = BlockPlace("", "topic", 0, "")
        try:
            batches = list(self.decoder.decode(self.data, self.begins[first:end], self.ends[first:end], place))
        except (CorruptBlock, SchemaMismatch):
            if end - first == 1:
                self.bad.append(first)
                return
            middle = (first + end) // 2
            yield from self.decoded(first, middle)
            yield from self.decoded(middle, end)
        else:
            yield from batches


def relaxed(fields: Sequence[AvroField]) -> tuple[AvroField, ...]:
    """The same fields, all nullable: a field that the writer lacks is null."""
    return tuple(
        replace(field, type=_relaxed(field.type), nullable=True, null_branch=0, has_default=False) for field in fields
    )


def _relaxed(kind: AvroType) -> AvroType:
    match kind:
        case RecordType(fields):
            return RecordType(relaxed(fields))
        case ArrayType(items, null_branch):
            return ArrayType(_relaxed(items), null_branch)
        case MapType(values, null_branch):
            return MapType(_relaxed(values), null_branch)
    return kind
