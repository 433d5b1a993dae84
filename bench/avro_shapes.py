"""Avro records for `avro_decode`: flat columns, and shapes with nested ones.

Records have Hudi's five meta columns and mixed nullable columns; a tenth of the values is null. The nested shapes are
25 columns of which three are nested (a struct, a list of structs, a map), a change event of Debezium's shape with the
row before and after, and a page event with nested lists.
"""

from __future__ import annotations

import io
import json
import random
import re
import struct
from collections.abc import Callable
from typing import Any

import fastavro

from penstock.table.schema.avro import META_COLUMNS, RecordSchema, parse_record_schema

SIZES = ((10, 60_000), (25, 40_000), (105, 10_000))
WORDS = ("alpha", "bravo charlie", "delta-echo-foxtrot-golf", "h", "india juliet kilo")
KINDS: tuple[tuple[Any, Callable[[random.Random], Any]], ...] = (
    ("long", lambda r: r.getrandbits(40)),
    ("double", lambda r: r.random()),
    ("string", lambda r: r.choice(WORDS)),
    ("int", lambda r: r.randint(-1000, 100_000)),
    ("boolean", lambda r: r.random() < 0.5),
    ({"type": "long", "logicalType": "timestamp-micros"}, lambda r: 1_700_000_000_000_000 + r.getrandbits(30)),
    ("float", lambda r: r.randint(0, 999) / 4),
    ("string", lambda r: r.choice(WORDS)),
)


NULLABLE_ADDRESS: Any = [
    "null",
    {
        "type": "record",
        "name": "address",
        "fields": [
            {"name": "street", "type": ["null", "string"]},
            {"name": "zip", "type": ["null", "string"]},
            {"name": "x", "type": ["null", "double"]},
            {"name": "y", "type": ["null", "double"]},
        ],
    },
]
LINES: Any = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "line",
        "fields": [{"name": "sku", "type": ["null", "string"]}, {"name": "count", "type": ["null", "int"]}],
    },
}
ATTRIBUTES: Any = {"type": "map", "values": ["null", "string"]}


def address(chance: random.Random) -> Any:
    return {"street": chance.choice(WORDS), "zip": "12345", "x": chance.random(), "y": chance.random()}


def lines(chance: random.Random) -> Any:
    return [{"sku": chance.choice(WORDS), "count": chance.randint(1, 9)} for _ in range(chance.randint(0, 4))]


def attributes(chance: random.Random) -> Any:
    return {word: chance.choice(WORDS) for word in chance.sample(WORDS, chance.randint(0, 3))}


NESTED_KINDS: tuple[tuple[Any, Callable[[random.Random], Any]], ...] = (
    (NULLABLE_ADDRESS[1], address),
    (LINES, lines),
    (ATTRIBUTES, attributes),
)
IMAGE: Any = {
    "type": "record",
    "name": "value",
    "fields": [{"name": f"c{i}", "type": ["null", kind]} for i, (kind, _) in enumerate(KINDS)],
}


def image(chance: random.Random) -> Any:
    return {f"c{i}": make(chance) for i, (_, make) in enumerate(KINDS)}


SOURCE: Any = {
    "type": "record",
    "name": "source",
    "fields": [
        {"name": "connector", "type": "string"},
        {"name": "ts_ms", "type": "long"},
        {"name": "db", "type": "string"},
        {"name": "table", "type": "string"},
        {"name": "lsn", "type": ["null", "long"]},
    ],
}


def source(chance: random.Random) -> Any:
    values = {"connector": "postgresql", "db": "shop", "table": "orders"}
    return {**values, "ts_ms": 1_700_000_000_000 + chance.getrandbits(20), "lsn": chance.getrandbits(40)}


PAGES: Any = {
    "type": "array",
    "items": {
        "type": "record",
        "name": "page",
        "fields": [
            {"name": "url", "type": "string"},
            {"name": "ms", "type": "long"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    },
}


def pages(chance: random.Random) -> Any:
    def tags() -> list[str]:
        return [chance.choice(WORDS) for _ in range(chance.randint(0, 3))]

    return [{"url": "https://shop.example/p", "ms": chance.getrandbits(16), "tags": tags()} for _ in range(5)]


def kinds_of(columns: int) -> tuple[tuple[Any, Callable[[random.Random], Any]], ...]:
    """Mixed kinds that are not nested."""
    return tuple(KINDS[i % len(KINDS)] for i in range(columns - len(META_COLUMNS)))


Kinds = tuple[tuple[Any, Callable[[random.Random], Any]], ...]
SHAPES: dict[str, tuple[Kinds, int]] = {
    **{str(columns): (kinds_of(columns), rows) for columns, rows in SIZES},
    "25, 3 nested": ((*kinds_of(22), *NESTED_KINDS), 20_000),
    "Debezium": (((IMAGE, image), (IMAGE, image), (SOURCE, source), *KINDS[:2]), 20_000),
    "page events": ((*kinds_of(12), (PAGES, pages)), 10_000),
}
"""Name -> kinds of the columns after the meta columns, and records."""


def sample(kinds: Kinds, rows: int, seed: int) -> tuple[RecordSchema, bytes]:
    """Returns (schema, log block content followed by 12 bytes, as in every log file)."""
    chance = random.Random(seed)
    named = [(f"c{i}", kind, make) for i, (kind, make) in enumerate(kinds)]
    fields = [{"name": name, "type": ["null", "string"]} for name in META_COLUMNS]
    fields += [{"name": name, "type": ["null", _named(kind, name)]} for name, kind, _ in named]
    node = {"type": "record", "name": "r", "fields": fields}
    parsed, parts = fastavro.parse_schema(json.loads(json.dumps(node))), [struct.pack(">ii", 3, rows)]
    file_name = "6a1c1d5e-8b1f-4f5f-9a63-0f1f2d9c7b10-0_0-1-0.parquet"
    for number in range(rows):
        meta = ("20260101000000000", f"20260101000000000_0_{number}", f"key-{number:010d}", "region=eu", file_name)
        row: dict[str, Any] = dict(zip(META_COLUMNS, meta, strict=True))
        row |= {name: None if chance.random() < 0.1 else make(chance) for name, _, make in named}
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        parts += [struct.pack(">i", len(out.getvalue())), out.getvalue()]
    return parse_record_schema(json.dumps(node)), b"".join(parts) + bytes(12)


def _named(kind: Any, name: str) -> Any:
    """The kind with record names of its own: a schema defines a name once."""
    text = json.dumps(kind)
    return json.loads(re.sub(r'"name": "(address|line|value|source|page)"', rf'"name": "\1_{name}"', text))
