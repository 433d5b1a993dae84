"""Decodes Debezium's envelopes as JSON in bulk, with the results of `debezium.json`.

Envelope, image and source are scanned in place. Events that the kernels cannot decode exactly are passed to
`debezium.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.reader.kernels import json_scan as scan
from penstock.reader.topics.debezium.envelope import ADDED, KINDS, SEQUENCE, event_sequence
from penstock.reader.topics.debezium.json import DebeziumJson
from penstock.reader.topics.json.columns import JsonColumn, JsonColumns
from penstock.reader.topics.json.objects import JsonObjects, Scanned, Spans, Tokens, spans_of
from penstock.reader.topics.record.decoded import DELETE, PASSED, UPSERT, Values, replaced
from penstock.reader.topics.record.read_schema import TopicReadSchema
from penstock.table.schema.arrow import arrow_type
from penstock.table.schema.avro import Primitive

_OP, _TS, _BEFORE, _AFTER, _SOURCE, _SCHEMA, _PAYLOAD = range(7)
_NAMES: Final = ("op", "ts_ms", "before", "after", "source", "schema", "payload")
_NO_EVENT: Final = 255
_TEXTS: Final = JsonColumn(Primitive("string"), pa.string())
_LONGS: Final = JsonColumn(Primitive("long"), pa.int64())


class DebeziumColumns:
    """Decodes values that are envelopes. For one thread at a time."""

    def __init__(self, read_schema: TopicReadSchema) -> None:
        self._one_by_one = DebeziumJson(read_schema)
        self._schema = read_schema.decoded
        self._envelope, self._payload = JsonObjects(_NAMES), JsonObjects(_NAMES)
        added = {field.name: field for field in read_schema.fields if field.name in ADDED}
        self._direct = {
            name: (_OP if ADDED[name] == ("op",) else _TS, JsonColumn(field.type, arrow_type(field.type)))
            for name, field in added.items()
            if len(ADDED[name]) == 1
        }
        image = [field for field in read_schema.fields if field.name not in added and field.name != SEQUENCE]
        self._image = JsonColumns(
            image, pa.schema([read_schema.decoded.field(f.name) for f in image]), read_schema.known
        )
        self._from_source = {ADDED[name][1]: name for name in added if len(ADDED[name]) == 2}
        source = [replace(added[name], name=member) for member, name in self._from_source.items()]
        schema = pa.schema([pa.field(field.name, arrow_type(field.type)) for field in source])
        self._source = JsonColumns(source, schema, ()) if source else None
        self._places = JsonObjects(("file", "pos")) if SEQUENCE in read_schema.decoded.names else None

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """See `ValuesDecoder`."""
        spans = spans_of(texts)
        envelopes = self._unwrapped(spans)
        slow = envelopes.slow
        kinds = _kinds(envelopes.members[_OP], slow)
        columns = {name: column.array(envelopes.members[place]) for name, (place, column) in self._direct.items()}
        rows, unknown_members = self._images(envelopes, kinds, slow)
        columns.update(zip(rows.schema.names, rows.columns, strict=True))
        columns.update(self._sources(envelopes.members[_SOURCE], slow))
        decoded = (slow == 0) & (kinds != PASSED)
        unknown = int(unknown_members[decoded].sum())
        parsed = pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)
        parsed = _nulled(parsed, ~decoded)
        places = [place for place in np.flatnonzero(slow).tolist() if texts[place] is not None]
        kinds[slow != 0] = UPSERT
        if not places:
            return Values(rows=parsed, reasons={}, kinds=kinds, unknown=unknown)
        others = self._one_by_one.values([texts[place] for place in places])
        kinds[places] = others.kinds
        reasons = {places[number]: reason for number, reason in others.reasons.items()}
        rows = replaced(parsed, places, others.rows)
        return Values(rows=rows, reasons=reasons, kinds=kinds, unknown=unknown + others.unknown)

    def _unwrapped(self, spans: Spans) -> Scanned:
        """The envelopes' members; for an envelope with its schema around it, those of the payload."""
        outer = self._envelope.scanned(spans)
        seen = np.stack([tokens.at[1] >= 0 for tokens in outer.members])
        wrapped = seen[_SCHEMA] & seen[_PAYLOAD] & ~seen[:_SCHEMA].any(axis=0) & (outer.unknown_members == 0)
        outer.slow[(seen[_SCHEMA] | seen[_PAYLOAD]) & ~wrapped] = 1
        places = np.flatnonzero(wrapped)
        if len(places):
            payload = outer.members[_PAYLOAD].at[:, places]
            inner = self._payload.scanned(Spans(spans.data, payload[1], payload[2]))
            for own, members in zip(outer.members, inner.members, strict=True):
                own.at[:, places] = members.at
            outer.slow[places] = inner.slow
        return outer

    def _images(self, envelopes: Scanned, kinds: np.ndarray, slow: np.ndarray) -> tuple[pa.RecordBatch, np.ndarray]:
        """The image of each event; a delete may have none."""
        is_delete = kinds == DELETE
        at = np.where(is_delete, envelopes.members[_BEFORE].at, envelopes.members[_AFTER].at)
        absent = at[0] == scan.ABSENT
        slow[absent & (kinds == UPSERT)] = 1
        present = ~absent & (kinds != PASSED)
        begin, end = np.where(present, at[1], 0), np.where(present, at[2], 0)
        rows, others, unknown_members = self._image.parsed(Spans(envelopes.members[_OP].data, begin, end))
        slow[present & (others != 0)] = 1
        return rows, np.where(present, unknown_members, 0)

    def _sources(self, tokens: Tokens, slow: np.ndarray) -> dict[str, pa.Array]:
        """The columns that come from the events' source."""
        absent = tokens.at[0] == scan.ABSENT
        begin, end = np.where(absent, 0, tokens.at[1]), np.where(absent, 0, tokens.at[2])
        spans = Spans(tokens.data, begin, end)
        columns: dict[str, pa.Array] = {}
        if self._source is not None:
            rows, others, _ = self._source.parsed(spans)
            slow[~absent & (others != 0)] = 1
            rows = _nulled(rows, absent)
            columns = {name: rows.column(member) for member, name in self._from_source.items()}
        if self._places is not None:
            envelopes = self._places.scanned(spans)
            files, positions = (
                column.array(member) for column, member in zip((_TEXTS, _LONGS), envelopes.members, strict=True)
            )
            envelopes.slow[envelopes.members[0].at[0] == scan.WHOLE] = 1
            slow[~absent & (envelopes.slow != 0)] = 1
            pairs = zip(files.to_pylist(), positions.to_pylist(), strict=True)
            sequences = pa.array([event_sequence(file, position) for file, position in pairs], pa.string())
            columns[SEQUENCE] = sequences.cast(self._schema.field(SEQUENCE).type)
        return columns


def _kinds(operation: Tokens, slow: np.ndarray) -> np.ndarray:
    """UPSERT, DELETE or PASSED by the letter of the operation; others are marked in `slow`."""
    kinds_of = np.full(256, _NO_EVENT, np.uint8)
    for letter, kind in KINDS.items():
        kinds_of[ord(letter)] = kind
    kind, first, end = operation.at
    plain = (kind == scan.TEXT) & (end - first == 3)
    letters = operation.data[np.where(plain, first + 1, 0)]
    kinds = np.where(plain, kinds_of[letters], _NO_EVENT).astype(np.uint8)
    slow[kinds == _NO_EVENT] = 1
    return kinds


def _nulled(rows: pa.RecordBatch, gone: np.ndarray) -> pa.RecordBatch:
    """The rows, null where `gone`."""
    if not gone.any():
        return rows
    places = pa.array(np.arange(rows.num_rows), mask=gone)
    return pa.RecordBatch.from_arrays([column.take(places) for column in rows.columns], schema=rows.schema)
