"""Random Avro records: a schema, rows as bytes and the meaning of each row. Rows of Arrow in the same plain form."""

from __future__ import annotations

import datetime
import random
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from itertools import count
from typing import Any

import pyarrow as pa

from tests.fuzz.grammar import Wire, some_text

Write = Callable[[Wire], tuple[bytes, Any]]
"""Writes a value of one type: (bytes, meaning)."""

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICRO = datetime.timedelta(microseconds=1)


def random_record(rng: random.Random, name: str = "row") -> tuple[dict[str, Any], Write]:
    """A schema's JSON, and the writer of its rows."""
    return _record(rng, name, count(), rng.choice((0, 0, 1, 2)))


def _record(rng: random.Random, name: str, fresh: Any, depth: int) -> tuple[dict[str, Any], Write]:
    slots = [_slot(rng, fresh, depth) for _ in range(rng.choice((1, 2, 3, 6)))]
    fields = [{"name": f"c{place}", "type": node} for place, (node, _) in enumerate(slots)]

    def write(wire: Wire) -> tuple[bytes, Any]:
        data, row = b"", {}
        for place, (_, inner) in enumerate(slots):
            body, row[f"c{place}"] = inner(wire)
            data += body
        return data, row

    return {"type": "record", "name": name, "fields": fields}, write


def _slot(rng: random.Random, fresh: Any, depth: int) -> tuple[Any, Write]:
    node, write = _type(rng, fresh, depth)
    branch = rng.choice((-1, 0, 0, 1))
    if branch < 0:
        return node, write

    def union(wire: Wire) -> tuple[bytes, Any]:
        if wire.rng.random() < 0.3:
            return wire.zigzag(branch), None
        body, meaning = write(wire)
        return wire.zigzag(1 - branch) + body, meaning

    return (["null", node] if branch == 0 else [node, "null"]), union


def _type(rng: random.Random, fresh: Any, depth: int) -> tuple[Any, Write]:
    if depth == 0 or rng.random() < 0.5:
        return _flat(rng, fresh)
    kind = rng.choice(("array", "map", "record"))
    if kind == "record":
        return _record(rng, f"r{next(fresh)}", fresh, depth - 1)
    node, inner = _slot(rng, fresh, depth - 1)

    def write(wire: Wire) -> tuple[bytes, Any]:
        data, meaning = b"", []
        for block in range(wire.rng.choice((0, 1, 1, 2))):
            items = wire.rng.choice((1, 2, 3))
            body = b""
            for item in range(items):
                if kind == "map":
                    body += wire.text(f"k{block}{item}".encode())
                value, reported = inner(wire)
                body += value
                meaning.append((f"k{block}{item}", reported) if kind == "map" else reported)
            sized = wire.rng.random() < 0.3
            data += wire.zigzag(-items) + zig_size(wire, body) if sized else wire.zigzag(items)
            data += body
        return data + wire.zigzag(0), meaning

    return {"type": kind, "items" if kind == "array" else "values": node}, write


def zig_size(wire: Wire, body: bytes) -> bytes:
    """The size in bytes of a block of items."""
    return wire.zigzag(len(body))


def _long(low: int, high: int) -> Write:
    def write(wire: Wire) -> tuple[bytes, Any]:
        value = wire.rng.choice((low, high, 0, min(high, 63), min(high, 64), wire.rng.randrange(low, high + 1)))
        return wire.zigzag(value), value

    return write


def _millis(low: int, high: int) -> Write:
    inner = _long(low, high)

    def write(wire: Wire) -> tuple[bytes, Any]:
        data, value = inner(wire)
        return data, value * 1000

    return write


def _text(wire: Wire) -> tuple[bytes, Any]:
    text = some_text(wire.rng)
    return wire.text(text.encode()), text


def _bytes(wire: Wire) -> tuple[bytes, Any]:
    data = wire.rng.randbytes(wire.rng.choice((0, 1, 15, 16, 17, 50)))
    return wire.text(data), data.hex()


def _real(form: str) -> Write:
    def write(wire: Wire) -> tuple[bytes, Any]:
        value = wire.rng.choice((0.0, 1.5, -2.25, 1e10))
        value = struct.unpack(form, struct.pack(form, value))[0]
        return wire.raw(struct.pack(form, value)), value

    return write


def _boolean(wire: Wire) -> tuple[bytes, Any]:
    value = wire.rng.randrange(2)
    return wire.raw(bytes([value])), bool(value)


def _fixed(size: int) -> Write:
    def write(wire: Wire) -> tuple[bytes, Any]:
        data = wire.rng.randbytes(size)
        return wire.raw(data), data.hex()

    return write


def _decimal(size: int | None) -> Write:
    def write(wire: Wire) -> tuple[bytes, Any]:
        value = wire.rng.choice((0, 1, -1, 12345, -(10**9) + 1, 10**9 - 1))
        data = value.to_bytes(size or value.bit_length() // 8 + 1, "big", signed=True)
        return (wire.raw(data) if size else wire.text(data)), value

    return write


def _symbol(wire: Wire) -> tuple[bytes, Any]:
    value = wire.rng.randrange(3)
    return wire.zigzag(value), ("A", "B", "long_symbol")[value]


def _flat(rng: random.Random, fresh: Any) -> tuple[Any, Write]:
    decimal = {"logicalType": "decimal", "precision": 9, "scale": 2}
    year_micros = (-(10**15), 10**15)
    return rng.choice(
        (
            lambda: ("boolean", _boolean),
            lambda: ("int", _long(-(2**31), 2**31 - 1)),
            lambda: ("long", _long(-(2**63), 2**63 - 1)),
            lambda: ("float", _real("<f")),
            lambda: ("double", _real("<d")),
            lambda: ("string", _text),
            lambda: ("string", _text),
            lambda: ("bytes", _bytes),
            lambda: ({"type": "int", "logicalType": "date"}, _long(-100_000, 100_000)),
            lambda: ({"type": "int", "logicalType": "time-millis"}, _millis(0, 86_399_999)),
            lambda: ({"type": "long", "logicalType": "timestamp-micros"}, _long(*year_micros)),
            lambda: ({"type": "long", "logicalType": "local-timestamp-millis"}, _millis(-(10**12), 10**12)),
            lambda: ({"type": "fixed", "name": f"f{next(fresh)}", "size": 5}, _fixed(5)),
            lambda: ({"type": "bytes", **decimal}, _decimal(None)),
            lambda: ({"type": "fixed", "name": f"d{next(fresh)}", "size": 16, **decimal}, _decimal(16)),
            lambda: ({"type": "enum", "name": f"e{next(fresh)}", "symbols": ["A", "B", "long_symbol"]}, _symbol),
        )
    )()


def plain(value: Any) -> Any:
    """A value of Arrow in the form of grammars: times as numbers, decimals unscaled, bytes in hex."""
    match value:
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case tuple():
            return tuple(plain(item) for item in value)
        case bytes():
            return value.hex()
        case datetime.datetime():
            return (value.replace(tzinfo=datetime.UTC) - _EPOCH) // _MICRO
        case datetime.date():
            return (value - _EPOCH.date()).days
        case datetime.time():
            return (datetime.datetime.combine(_EPOCH, value, datetime.UTC) - _EPOCH) // _MICRO
        case float() if value != value:
            return "NaN"
        case Decimal():
            return int(value.scaleb(2))
    return value


def plain_rows(batches: Sequence[pa.RecordBatch]) -> list[Any]:
    """The rows, each a dict of plain values; if Python cannot represent a time of the batch, its text for each row."""
    rows: list[Any] = []
    for batch in batches:
        try:
            rows += [plain(row) for row in batch.to_pylist()]
        except (OverflowError, ValueError):
            rows += [as_text([batch])] * batch.num_rows
    return rows


def as_text(batches: Sequence[pa.RecordBatch]) -> str:
    """Every value as text, to compare the results of two decoders, with NaN and times of any year."""
    return "\n".join(
        column.to_string(window=1000, container_window=1000) for batch in batches for column in batch.columns
    )


class SameValues:
    """Batches that are equal if their values are, also with NaN and times of any year."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.batches = batches

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SameValues) or len(self.batches) != len(other.batches):
            return False
        pairs = zip(self.batches, other.batches, strict=True)
        return all(one.equals(two) for one, two in pairs) or as_text(self.batches) == as_text(other.batches)

    __hash__ = None  # type: ignore[assignment]
