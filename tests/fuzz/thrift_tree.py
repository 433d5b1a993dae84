"""Thrift's compact protocol as a tree that can be changed and written again: footers and page headers of Parquet.

For mutations that pass the framing. It shares no code with the checks under test.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field
from typing import Any

STOP, TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
HOSTILE = (0, 1, -1, 2, 3, 7, 255, 2**15, 2**31 - 1, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))


@dataclass
class Node:
    """A value: `kind` is its compact type, `value` an int, bytes, or a list of (field id, Node) or of Node."""

    kind: int
    value: Any
    of: int = 0
    fields: list[tuple[int, Node]] = field(default_factory=list)


def parse(data: bytes) -> tuple[Node, int]:
    """The struct at the beginning of the bytes, and its end."""
    return _struct(data, 0)


def write(node: Node) -> bytes:
    """The bytes of a struct."""
    out = bytearray()
    last = 0
    for number, child in node.fields:
        delta = number - last
        kind = child.kind
        if 0 < delta <= 15:
            out.append(delta << 4 | kind)
        else:
            out.append(kind)
            out += _zigzag(number)
        last = number
        out += _value(child)
    out.append(STOP)
    return bytes(out)


def _value(node: Node) -> bytes:
    match node.kind:
        case 1 | 2:
            return b""
        case 3:
            return bytes([node.value & 0xFF])
        case 4 | 5 | 6:
            return _zigzag(node.value)
        case 7:
            return node.value
        case 8:
            return _varint(len(node.value)) + node.value
        case 9 | 10:
            size = len(node.value)
            head = bytes([size << 4 | node.of]) if size < 15 else bytes([0xF0 | node.of]) + _varint(size)
            parts = b"".join(bytes([child.kind]) if node.of in (1, 2) else _value(child) for child in node.value)
            return head + parts
        case _:
            return write(node)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return _varint((value << 1) ^ (value >> 63) if -(2**63) <= value < 2**63 else 0)


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = _number(data, at)
    return (value >> 1) ^ -(value & 1), at


def _struct(data: bytes, at: int) -> tuple[Node, int]:
    node = Node(STRUCT, None)
    last = 0
    while data[at]:
        delta, kind = data[at] >> 4, data[at] & 15
        at += 1
        if delta:
            last += delta
        else:
            last, at = _signed(data, at)
        child, at = _read(data, at, kind)
        node.fields.append((last, child))
    return node, at + 1


def _read(data: bytes, at: int, kind: int) -> tuple[Node, int]:
    match kind:
        case 1 | 2:
            return Node(kind, None), at
        case 3:
            return Node(kind, data[at]), at + 1
        case 4 | 5 | 6:
            value, at = _signed(data, at)
            return Node(kind, value), at
        case 7:
            return Node(kind, data[at : at + 8]), at + 8
        case 8:
            size, at = _number(data, at)
            return Node(kind, data[at : at + size]), at + size
        case 9 | 10:
            size, of = data[at] >> 4, data[at] & 15
            at += 1
            if size == 15:
                size, at = _number(data, at)
            items = []
            for _ in range(size):
                if of in (1, 2):
                    item, at = Node(data[at], None), at + 1
                else:
                    item, at = _read(data, at, of)
                items.append(item)
            return Node(kind, items, of), at
        case 12:
            return _struct(data, at)
    raise ValueError(f"type {kind}")


def nodes(node: Node) -> list[tuple[Node, Node | None, int]]:
    """Every node below, with its parent and its position in the parent."""
    visited: list[tuple[Node, Node | None, int]] = []

    def visit(one: Node) -> None:
        children = [child for _, child in one.fields] if one.kind == STRUCT else one.value
        if one.kind not in (STRUCT, LIST, SET):
            return
        for place, child in enumerate(children):
            visited.append((child, one, place))
            visit(child)

    visit(node)
    return visited


def mutate(root: Node, rng: random.Random) -> None:
    """One change: an extreme number, a removed, duplicated or moved field or item, a changed field number, or changed
    text."""
    everything = nodes(root)
    for _ in range(8):
        node, parent, place = rng.choice(everything)
        if node.kind in (I8, I16, I32, I64) and rng.random() < 0.6:
            node.value = rng.choice((*HOSTILE, node.value + 1, node.value - 1, node.value ^ 1 << rng.randrange(31)))
            return
        if node.kind == BINARY and node.value and rng.random() < 0.4:
            place = rng.randrange(len(node.value))
            changed = bytearray(node.value[: 1 << 16])
            changed[min(place, len(changed) - 1)] = rng.randrange(256)
            node.value = rng.choice((bytes(changed), b"", node.value[:place]))
            return
        if parent is None or rng.random() < 0.2:
            continue
        items = parent.fields if parent.kind == STRUCT else parent.value
        match rng.randrange(5):
            case 0:
                del items[place]
            case 1:
                items.insert(place, copy.deepcopy(items[place]))
            case 2:
                other = rng.randrange(len(items))
                items[place], items[other] = items[other], items[place]
            case 3 if parent.kind == STRUCT:
                items[place] = (rng.randrange(1, 16), items[place][1])
            case _:
                donor = copy.deepcopy(rng.choice(everything)[0])
                if parent.kind == STRUCT:
                    items[place] = (items[place][0], donor)
                elif donor.kind == node.kind:
                    items[place] = donor
        return


def mutated_footer(data: bytes, rng: random.Random, changes: int = 1) -> bytes:
    """A Parquet file with several changes in its footer and the right length."""
    size = int.from_bytes(data[-8:-4], "little")
    root, _ = parse(data[-8 - size : -8])
    for _ in range(changes):
        mutate(root, rng)
    footer = write(root)
    return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"
