"""Decodes JSON objects to columns one value at a time. It decodes every object, and defines the result."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from penstock.reader.topics.json.texts import parse_json
from penstock.reader.topics.json.values import converter, value_text
from penstock.reader.topics.record.decoded import Unfit, Values, rows_of_cells
from penstock.table.schema.avro import AvroField


class JsonRows:
    """Decodes to these columns. `known`: names that are not counted as unknown fields. Immutable."""

    def __init__(self, fields: Sequence[AvroField], schema: pa.Schema, known: Collection[str]) -> None:
        self._schema, self._known = schema, frozenset(known)
        self._columns = [(field.name, converter(field.type)) for field in fields]

    def values(self, texts: Sequence[bytes | None]) -> Values:
        """The columns of JSON objects; a None is a row of nulls."""
        documents: list[object] = []
        reasons: dict[int, str] = {}
        for place, text in enumerate(texts):
            document: object = None
            try:
                document = None if text is None else parse_json(text)
                if document is None and text is not None:
                    reasons[place] = "value is null as JSON, expected an object"
            except Unfit as error:
                reasons[place] = f"value {error}"
            documents.append(document)
        return self.objects(documents, reasons)

    def objects(self, documents: Sequence[object], reasons: dict[int, str]) -> Values:
        """The same for parsed documents. `reasons` has those not parsed, and gets those that do not fit."""
        cells: dict[str, list[object]] = {name: [None] * len(documents) for name, _ in self._columns}
        lanes = [(name, convert, cells[name]) for name, convert in self._columns]
        unknown, known = 0, self._known
        for place, document in enumerate(documents):
            if document is None:
                continue
            if not isinstance(document, dict):
                reasons[place] = f"value is {value_text(document)}, expected an object"
                continue
            name = ""
            try:
                for name, convert, lane in lanes:
                    value = document.get(name)
                    if value is not None:
                        lane[place] = convert(value)
            except Unfit as error:
                reasons[place] = f"column {name}: {error}"
                for _, _, lane in lanes:
                    lane[place] = None
                continue
            unknown += sum(1 for field in document if field not in known)
        return Values(rows=rows_of_cells(cells, self._schema), reasons=reasons, unknown=unknown)
