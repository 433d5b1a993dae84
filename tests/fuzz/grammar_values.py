"""Grammars of texts: JSON records of topics, filters, schemas, properties."""

from __future__ import annotations

import json
import operator
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock.proto.errors import CorruptBlock
from penstock.reader.split.filter import evaluate
from penstock.reader.topics.json.columns import JsonColumns
from penstock.reader.topics.json.rows import JsonRows
from penstock.table.config.properties import parse_table_properties
from penstock.table.predicate.parse import parse_predicate
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema
from tests.fuzz.grammar import Case, Decoder, Wire, some_text
from tests.fuzz.grammar_avro import plain, random_record

_BETWEEN = b"\0"
_TOPIC: dict[str, Any] = {
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "b": "boolean",
    "s": "string",
    "y": "bytes",
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "list": {"type": "array", "items": "long"},
}
_TOPIC_SCHEMA = parse_record_schema(
    json.dumps({"type": "record", "name": "r", "fields": [{"name": n, "type": ["null", t]} for n, t in _TOPIC.items()]})
)


def _json_text(rng: random.Random, text: str) -> str:
    """A JSON string with some of its characters escaped."""
    return '"' + "".join(_json_character(rng, letter) for letter in text) + '"'


def _json_character(rng: random.Random, letter: str) -> str:
    if rng.random() < 0.2:
        return json.dumps(letter)[1:-1]
    return f"\\u{ord(letter):04x}" if rng.random() < 0.1 and ord(letter) < 0x10000 else letter


def _member(rng: random.Random, name: str) -> tuple[str, Any]:
    """A value's JSON, and its meaning."""
    if rng.random() < 0.15:
        return "null", None
    if name in ("i", "l"):
        most = 2**31 - 1 if name == "i" else 2**63 - 1
        number = rng.choice((0, 1, -1, most, -most - 1, 12345, -77))
        return (f'"{number}"' if rng.random() < 0.1 else str(number)), number
    if name in ("f", "d"):
        text, value = rng.choice((("0", 0.0), ("1.5", 1.5), ("-2.25e1", -22.5), ("125E-3", 0.125), ("-3", -3.0)))
        return text, value
    if name == "b":
        value = rng.random() < 0.5
        return json.dumps(value), value
    if name == "day":
        return rng.choice((("0", 0), ("19000", 19000), ('"1970-01-02"', 1), ('"2024-02-29"', 19782)))
    if name == "at":
        return rng.choice((("1", 1), ('"1970-01-01T00:00:01.000002Z"', 1_000_002), ('"1970-01-01T01:00:00+01:00"', 0)))
    if name == "list":
        items = [rng.randrange(-9, 99) for _ in range(rng.randrange(4))]
        return json.dumps(items), items
    text = some_text(rng)
    return _json_text(rng, text), (text.encode().hex() if name == "y" else text)


def _topic(wire: Wire) -> Case:
    rng, records, rows = wire.rng, [], []
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        names = [name for name in _TOPIC if rng.random() < 0.7]
        rng.shuffle(names)
        row: dict[str, Any] = dict.fromkeys(_TOPIC)
        parts = []
        for name in names:
            text, row[name] = _member(rng, name)
            blank = rng.choice(("", "", " ", "\n\t"))
            parts.append(wire.raw(f'"{name}"'.encode()) + f"{blank}:{blank}".encode() + wire.raw(text.encode()))
        if rng.random() < 0.2:
            parts.append(b'"unknown":{"a":[1,{"b":null}]}')
        records.append(wire.raw(b"{" + b",".join(parts) + b"}"))
        rows.append(row)
    return Case(_BETWEEN.join(records), None, rows)


def _decode_topic(data: bytes, _context: Any) -> Any:
    texts = data.split(_BETWEEN)
    decoders = [
        path(_TOPIC_SCHEMA.fields, arrow_schema(_TOPIC_SCHEMA), tuple(_TOPIC)) for path in (JsonRows, JsonColumns)
    ]
    plainly, compiled = (path.values(texts) for path in decoders)
    assert plainly.reasons.keys() == compiled.reasons.keys(), f"{plainly.reasons} and {compiled.reasons}"
    assert plainly.unknown == compiled.unknown
    good = pa.array([place not in plainly.reasons for place in range(len(texts))])
    columns = [[column.filter(good) for column in path.rows.columns] for path in (plainly, compiled)]
    for one, two in zip(*columns, strict=True):
        two.validate(full=True)
        assert one.equals(two) or str(one) == str(two), f"{one} and {two}"
    if plainly.reasons:
        raise CorruptBlock(next(iter(plainly.reasons.values())))
    try:
        return [plain(row) for row in compiled.rows.to_pylist()]
    except (OverflowError, ValueError):
        return []


_FILTER_ROWS: list[dict[str, Any]] = [
    {"n": n, "x": x, "t": t, "b": b}
    for n, x, t, b in zip(
        (1, 2, None, -5, 0, 2**40, 7, 7),
        (0.5, None, 1.5, -2.0, 0.0, 1e9, 0.5, 3.0),
        ("a", "ab", "", None, "b'c", "é", "ab%", "zz"),
        (True, False, None, True, False, None, True, True),
        strict=True,
    )
]
_FILTER_SCHEMA = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("t", pa.string()), ("b", pa.bool_())])
_FILTER_BATCH = pa.RecordBatch.from_pylist(_FILTER_ROWS, schema=_FILTER_SCHEMA)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_LITERALS = {"n": ("1", "7", "-5", "0", "3.5"), "x": ("0.5", "-2.0", "1", "0"), "t": ("'a'", "'ab'", "''", "'é'")}


def _not(answer: bool | None) -> bool | None:
    return None if answer is None else not answer


def _chain(answers: list[bool | None], ends: bool) -> bool | None:
    """Kleene logic: AND ends at False, OR at True."""
    if ends in answers:
        return ends
    return None if None in answers else not ends


def _literal(text: str) -> Any:
    return text[1:-1] if text.startswith("'") else float(text)


def _condition(wire: Wire, depth: int) -> tuple[bytes, list[bool | None]]:
    rng = wire.rng
    kind = rng.choice(("compare", "compare", "null", "in", "like") + (("and", "or", "not") * 2 if depth else ()))
    if kind in ("and", "or"):
        terms = [_condition(wire, depth - 1) for _ in range(rng.choice((2, 2, 3)))]
        text = f" {kind} ".encode().join(b"(" + text + b")" for text, _ in terms)
        answers = [_chain(list(row), kind == "or") for row in zip(*(answer for _, answer in terms), strict=True)]
        return text, answers
    if kind == "not":
        text, inner = _condition(wire, depth - 1)
        return b"NOT (" + text + b")", [_not(answer) for answer in inner]
    name = "t" if kind == "like" else rng.choice("nxt")
    values = [row[name] for row in _FILTER_ROWS]
    column = wire.raw(name.encode())
    if kind == "null":
        negated = rng.random() < 0.5
        return column + (b" IS NOT NULL" if negated else b" IS NULL"), [(value is None) != negated for value in values]
    if kind == "like":
        prefix = rng.choice(("a", "ab", "z"))
        return column + wire.raw(f" LIKE '{prefix}%'".encode()), [
            None if value is None else value.startswith(prefix) for value in values
        ]
    if kind == "in":
        texts = rng.sample(_LITERALS[name], rng.choice((1, 2, 3)))
        known = [_literal(text) for text in texts]
        text = column + b" IN (" + b", ".join(wire.raw(text.encode()) for text in texts) + b")"
        return text, [None if value is None else value in known for value in values]
    sign, literal = rng.choice(list(_OPERATORS)), rng.choice(_LITERALS[name])
    text = column + b" " + wire.raw(sign.encode()) + b" " + wire.raw(literal.encode())
    return text, [None if value is None else _OPERATORS[sign](value, _literal(literal)) for value in values]


def _filter(wire: Wire) -> Case:
    text, answers = _condition(wire, wire.rng.choice((0, 1, 2)))
    return Case(text, None, answers)


def _decode_filter(data: bytes, _context: Any) -> Any:
    predicate = parse_predicate(data.decode("utf-8", "replace"), _FILTER_SCHEMA)
    answers = evaluate(predicate, _FILTER_BATCH)
    assert len(answers) == len(_FILTER_ROWS)
    return answers.to_pylist()


_ARROW = {"boolean": "bool", "int": "int32", "long": "int64", "float": "float", "double": "double", "bytes": "binary"}
_LOGICAL = {
    "date": "date32[day]",
    "time-millis": "time64[us]",
    "timestamp-micros": "timestamp[us, tz=UTC]",
    "local-timestamp-millis": "timestamp[us]",
    "decimal": "decimal128(9, 2)",
}


def _arrow_text(node: Any) -> str:
    """Arrow's text for the type of a schema's node."""
    if isinstance(node, list):
        return _arrow_text(node[1] if node[0] == "null" else node[0])
    if isinstance(node, str):
        return _ARROW.get(node, node)
    if "logicalType" in node:
        return _LOGICAL[node["logicalType"]]
    match node["type"]:
        case "fixed":
            return "binary"
        case "enum":
            return "string"
        case "array":
            return f"list<element: {_arrow_text(node['items'])}>"
        case "map":
            return f"map<string, {_arrow_text(node['values'])}>"
    return "struct<" + ", ".join(f"{field['name']}: {_arrow_text(field['type'])}" for field in node["fields"]) + ">"


def _schema(wire: Wire) -> Case:
    node, _ = random_record(wire.rng)
    meaning = [[field["name"], isinstance(field["type"], list), _arrow_text(field["type"])] for field in node["fields"]]
    return Case(json.dumps(wire.json_tree(node)).encode(), None, meaning)


def _decode_schema(data: bytes, _context: Any) -> Any:
    record = parse_record_schema(data.decode())
    types = arrow_schema(record)
    return [[field.name, field.nullable, str(types.field(field.name).type)] for field in record.fields]


def _properties(wire: Wire) -> Case:
    rng = wire.rng
    meaning = {
        "hoodie.table.name": "t",
        "hoodie.table.type": rng.choice(("MERGE_ON_READ", "COPY_ON_WRITE")),
        "hoodie.table.version": rng.choice(("8", "9")),
        "hoodie.timeline.layout.version": "2",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.recordkey.fields": "id,other",
        "hoodie.table.partition.fields": rng.choice(("p", "p,q")),
        "hoodie.datasource.write.hive_style_partitioning": rng.choice(("true", "false")),
    }
    for place in range(rng.randrange(4)):
        meaning[f"other {place}:=" if rng.random() < 0.3 else f"other.{place}"] = some_text(rng).strip()
    lines = [b"#" + some_text(rng).encode("ascii", "ignore")]
    for key, value in meaning.items():
        written = _escaped(rng, key, is_key=True)
        lines.append(wire.raw(written) + rng.choice((b"=", b" = ", b":", b"= \\\n  ")) + wire.raw(_escaped(rng, value)))
    rng.shuffle(lines)
    return Case(rng.choice((b"\n", b"\r\n")).join(lines), None, meaning)


def _escaped(rng: random.Random, text: str, *, is_key: bool = False) -> bytes:
    out = b""
    for place, letter in enumerate(text):
        units = letter.encode("utf-16-be")
        if ord(letter) > 126:
            out += b"".join(b"\\u%04x" % int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2))
        elif letter == "\\" or (is_key and letter in " :=") or (letter == " " and not place):
            out += b"\\" + letter.encode()
        else:
            out += b"\\u%04X" % ord(letter) if rng.random() < 0.05 else letter.encode()
    return out


def _decode_properties(data: bytes, _context: Any) -> Any:
    return dict(parse_table_properties(data, "memory").raw)


DECODERS = (
    Decoder("json topic records", _topic, _decode_topic),
    Decoder("filter", _filter, _decode_filter),
    Decoder("schema", _schema, _decode_schema),
    Decoder("properties", _properties, _decode_properties),
)
