"""A schema registry in memory, and values framed with its ids."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass, field

import fastavro

from penstock.kafka.protocols import UnusableSchema


@dataclass(slots=True)
class FakeRegistry:
    """Schemas by id, and which ids were asked for."""

    texts: dict[int, str] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)

    def add(self, schema_id: int, schema: object) -> None:
        self.texts[schema_id] = json.dumps(schema)

    def schema(self, schema_id: int) -> str:
        self.asked.append(schema_id)
        if schema_id not in self.texts:
            raise UnusableSchema(f"schema {schema_id} is not known")
        return self.texts[schema_id]

    def framed(self, schema_id: int, value: object) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(self.texts[schema_id])), value)
        return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()
