"""Debezium's envelopes as JSON, with or without their schema, decoded to columns of the table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from penstock.reader.topics.debezium.envelope import ADDED, SEQUENCE, event_sequence, kind_of
from penstock.reader.topics.json.keys import JsonKeys
from penstock.reader.topics.json.rows import JsonRows
from penstock.reader.topics.json.texts import parse_json
from penstock.reader.topics.json.values import value_text
from penstock.reader.topics.record.decoded import PASSED, UPSERT, Unfit, Values
from penstock.reader.topics.record.read_schema import TopicReadSchema


class DebeziumJson:
    """Decodes values that are envelopes. Immutable."""

    def __init__(self, read_schema: TopicReadSchema) -> None:
        self._rows = JsonRows(read_schema.fields, read_schema.decoded, read_schema.known)
        own = read_schema.table.by_name()
        self._added = {name: path for name, path in ADDED.items() if name in own}
        self._sequence = SEQUENCE in own

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """See `ValuesDecoder`."""
        documents: list[object] = []
        reasons: dict[int, str] = {}
        kinds = np.full(len(texts), UPSERT, np.uint8)
        for place, text in enumerate(texts):
            document: object = None
            try:
                if text is not None:
                    kinds[place], document = self._image(_parsed(text))
            except Unfit as error:
                reasons[place] = str(error)
            documents.append(document)
        rows = self._rows.objects(documents, reasons)
        return Values(rows=rows.rows, reasons=rows.reasons, kinds=kinds, unknown=rows.unknown)

    def _image(self, envelope: dict[str, object]) -> tuple[int, dict[str, object] | None]:
        """The kind of an event, and its row; for a delete the known values."""
        kind = kind_of(envelope.get("op"))
        if kind == PASSED:
            return kind, None
        side = "after" if kind == UPSERT else "before"
        image = envelope.get(side)
        if image is None and kind != UPSERT:
            image = {}
        if not isinstance(image, dict):
            raise Unfit(f"value is a Debezium event whose {side} is {value_text(image)}, expected an object")
        source = envelope.get("source")
        row = dict(image)
        for name, path in self._added.items():
            held = envelope if len(path) == 1 else source
            row[name] = held.get(path[-1]) if isinstance(held, dict) else None
        if self._sequence and isinstance(source, dict):
            row[SEQUENCE] = event_sequence(source.get("file"), source.get("pos"))
        return kind, row


class DebeziumJsonKeys:
    """Decodes keys that are JSON objects, with or without their schema. Immutable."""

    def __init__(self, read_schema: TopicReadSchema) -> None:
        self._keys = JsonKeys(read_schema.topic.key_fields, read_schema.table)

    def cells(self, key: bytes | None) -> dict[str, object]:
        """See `KeysDecoder`."""
        if key is not None and self._keys.complete:
            try:
                document = parse_json(key)
            except Unfit:
                document = None
            if isinstance(document, dict) and _is_wrapped(document) and isinstance(document["payload"], dict):
                return self._keys.of_object(document["payload"])
        return self._keys.cells(key)


def _parsed(text: bytes) -> dict[str, object]:
    """The envelope, without the schema around it."""
    try:
        document = parse_json(text)
    except Unfit as error:
        raise Unfit(f"value {error}") from None
    if isinstance(document, dict) and _is_wrapped(document):
        document = document["payload"]
    if not isinstance(document, dict):
        raise Unfit(f"value is {value_text(document)}, expected a Debezium event")
    if "op" not in document:
        raise Unfit("value is not a Debezium event: it has no op")
    return document


def _is_wrapped(document: dict[str, object]) -> bool:
    return document.keys() == {"schema", "payload"}
