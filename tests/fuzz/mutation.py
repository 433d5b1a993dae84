"""Mutations of bytes: blind ones, and ones within a format's framing, which recompute checksums and lengths.

A mutation is a function of (member, seed): the seed in a report reproduces the bytes.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Sequence

from tests.fuzz import lance_mutation, orc_mutation, thrift_tree
from tests.fuzz.corpus import Member

HOSTILE = (0, 1, -1, 127, 128, 255, 2**15, 2**16 - 1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1, 2**62, 2**63 - 1, -(2**63))
_TEXT = frozenset({"schema", "schema_history", "manifest", "properties"})
_PARQUET = frozenset({"parquet", "history"})
_LOGS = frozenset({"log", "archive"})
_BY_PARTS = {"lance": lance_mutation.mutated_part, "orc": orc_mutation.mutated_part}
_LARGEST = 4


def mutated(member: Member, others: Sequence[Member], seed: int) -> bytes:
    """The member's bytes after one to three changes; at most four times as long."""
    rng = random.Random(f"{member.name} {seed}")
    data = member.data
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        change = _structured if data and rng.random() < 0.5 else _blind
        data = change(member.kind, data, others, rng)
    return data[: _LARGEST * len(member.data) + 4096]


def _structured(kind: str, data: bytes, others: Sequence[Member], rng: random.Random) -> bytes:
    try:
        if kind in _PARQUET:
            return thrift_tree.mutated_footer(data, rng) if rng.random() < 0.7 else page_header(data, rng)
        if kind in _LOGS:
            return _resealed_block(data, others, rng)
        if kind in _BY_PARTS:
            return _BY_PARTS[kind](data, lambda part: _blind("", part, others, rng), rng)
        if kind == "hfile":
            return _resealed_hfile_block(data, rng)
    except (
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        struct.error,
        zlib.error,
    ):  # an earlier change broke the framing
        return _blind(kind, data, others, rng)
    if kind in _TEXT or data[:1] == b"{":
        return _text(data, rng)
    return _varint_at(data, rng)


def _blind(kind: str, data: bytes, others: Sequence[Member], rng: random.Random) -> bytes:
    if not data:
        return rng.choice(others).data
    at = rng.randrange(len(data))
    size = min(len(data) - at, rng.choice((1, 2, 4, 8, 16, 64, 1024)))
    match rng.randrange(11):
        case 0 | 1:
            return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
        case 2:
            return data[:at] + bytes([rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))]) + data[at + 1 :]
        case 3 | 4:
            return _integer_at(data, at, rng)
        case 5:
            return data[:at]
        case 6:
            return data[: at + size] + data[at : at + size] + data[at + size :]
        case 7:
            return data[:at] + data[at + size :]
        case 8:
            donor = rng.choice(others).data
            start = rng.randrange(len(donor))
            return data[:at] + donor[start : start + size] + data[at + rng.choice((0, size)) :]
        case 9:
            return data[:at] + rng.randbytes(size) + data[at + size :]
        case _:
            return _varint_at(data, rng)


def _integer_at(data: bytes, at: int, rng: random.Random) -> bytes:
    width = rng.choice((2, 4, 4, 8, 8))
    value = rng.choice(HOSTILE) & (1 << 8 * width) - 1
    return data[:at] + value.to_bytes(width, rng.choice(("big", "little"))) + data[at + width :]


def _varint_at(data: bytes, rng: random.Random) -> bytes:
    """Replaces a byte that may begin a varint by another number: zigzag of Avro or Thrift, or protobuf."""
    at = rng.randrange(len(data))
    value = rng.choice(HOSTILE)
    unsigned = (value << 1 ^ value >> 63) & 2**64 - 1 if rng.random() < 0.7 else value & 2**64 - 1
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    out.append(unsigned)
    return data[:at] + bytes(out) + data[at + rng.choice((1, len(out))) :]


def _text(data: bytes, rng: random.Random) -> bytes:
    digits = [place for place, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    at = rng.choice(digits) if digits and rng.random() < 0.4 else rng.randrange(len(data) + 1)
    inserted = rng.choice(
        (
            str(rng.choice(HOSTILE)).encode(),
            b"9" * rng.choice((20, 400, 5000)),
            b"[" * rng.choice((10, 100, 3000)),
            b'{"type":"array","items":' * rng.choice((3, 70, 900)),
            b'{"type":"record","name":"r","fields":[{"name":"a","type":' * rng.choice((3, 70, 900)),
            b"null",
            b"1e999",
            b"NaN",
            b'"\\ud800"',
            b"\\u0000",
            b"../../x",
            b"\xff\xfe",
            b'"',
            b",",
            b"}",
            b"\\",
            b"=",
        )
    )
    return data[:at] + inserted + data[at + rng.choice((0, 0, 1, len(inserted))) :]


def _resealed_block(data: bytes, others: Sequence[Member], rng: random.Random) -> bytes:
    """A log file with one changed block, whose lengths and reverse pointer are recomputed."""
    starts = []
    at = 0
    while data[at : at + 6] == b"#HUDI#":
        starts.append(at)
        at += 14 + int.from_bytes(data[at + 6 : at + 14], "big")
    at = rng.choice(starts)
    end = min(len(data), at + 14 + int.from_bytes(data[at + 6 : at + 14], "big"))
    place = at + 22
    for _ in range(int.from_bytes(data[place : place + 4], "big")):
        place += 8 + int.from_bytes(data[place + 8 : place + 12], "big")
        if place >= end:
            raise ValueError("the headers leave the block")
    place += 4
    size = int.from_bytes(data[place : place + 8], "big")
    head, content, foot = data[at + 14 : place], data[place + 8 : place + 8 + size], data[place + 8 + size : end - 8]
    match rng.randrange(8):
        case 0 | 1 | 2 | 3:
            if content[:4] == b"PAR1" and rng.random() < 0.7:
                content = thrift_tree.mutated_footer(content, rng)
            else:
                content = _blind("", content, others, rng) if content else rng.randbytes(8)
        case 4 | 5:
            head = _blind("", head, others, rng)
        case 6:
            head = head[:4] + rng.randrange(8).to_bytes(4, "big") + head[8:]
        case _:
            foot = _blind("", foot, others, rng)
    inside = head + len(content).to_bytes(8, "big") + content + foot
    total = len(inside) + 8
    block = b"#HUDI#" + total.to_bytes(8, "big") + inside + (total + 6).to_bytes(8, "big")
    return data[:at] + block + data[end:]


def _resealed_hfile_block(data: bytes, rng: random.Random) -> bytes:
    """An HFile with one changed compressed block of the same position and length."""
    blocks = []
    at = 0
    while at + 33 < len(data) - 4096:
        stored = int.from_bytes(data[at + 8 : at + 12], "big")
        if stored <= 0 or at + 33 + stored > len(data) - 4096:
            break
        blocks.append((at, stored))
        at += 33 + stored
    at, stored = rng.choice(blocks)
    data_end = int.from_bytes(data[at + 29 : at + 33], "big")
    inside = zlib.decompress(data[at + 33 : at + data_end], 31)
    changed = _blind("", inside, [Member("", "", inside)], rng)
    if rng.random() < 0.15:
        changed = bytes(rng.choice((1 << 16, 1 << 20)))
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = packer.compress(changed) + packer.flush()
    if len(packed) > stored:
        raise ValueError("does not fit")
    message = len(changed) if rng.random() < 0.8 else rng.choice((1, 2**31 - 1, 2**30))
    head = bytearray(data[at : at + 33])
    head[12:16] = message.to_bytes(4, "big")
    head[29:33] = (33 + len(packed)).to_bytes(4, "big")
    return data[:at] + bytes(head) + packed + bytes(stored - len(packed)) + data[at + 33 + stored :]


def page_header(data: bytes, rng: random.Random) -> bytes:
    """A Parquet file with a changed header of one column's first page, at the same position."""
    size = int.from_bytes(data[-8:-4], "little")
    root, _ = thrift_tree.parse(data[-8 - size : -8])
    groups = dict(root.fields)[4].value
    chunk = dict(rng.choice(dict(rng.choice(groups).fields)[1].value).fields)[3]
    fields = dict(chunk.fields)
    at = fields[11].value if 11 in fields and rng.random() < 0.5 else fields[9].value
    header, length = thrift_tree.parse(data[at : at + 4096])
    thrift_tree.mutate(header, rng)
    changed = thrift_tree.write(header)
    return data[:at] + changed + data[at + length + max(0, len(changed) - length) :]
