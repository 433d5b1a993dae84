"""Cardinality of serialised record positions."""

from __future__ import annotations

import base64
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.proto.errors import CorruptBlock
from penstock.table.log.positions import cardinality


def array(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def bitmap(values: list[int]) -> bytes:
    bits = bytearray(8192)
    for value in values:
        bits[value // 8] |= 1 << value % 8
    return bytes(bits)


def runs(pairs: list[tuple[int, int]]) -> bytes:
    """(first, last) of each run."""
    return struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", a, b - a) for a, b in pairs)


def roaring(containers: list[tuple[int, int, bytes, bool]]) -> bytes:
    """(key, cardinality, body, is_run) as Java's RoaringBitmap.serialize writes them."""
    count = len(containers)
    if any(is_run for *_, is_run in containers):
        flags = bytearray((count + 7) // 8)
        for number, (*_, is_run) in enumerate(containers):
            flags[number // 8] |= is_run << number % 8
        out = struct.pack("<I", 12347 | (count - 1) << 16) + bytes(flags)
        with_offsets = count >= 4
    else:
        out, with_offsets = struct.pack("<II", 12346, count), True
    out += b"".join(struct.pack("<HH", key, size - 1) for key, size, *_ in containers)
    if with_offsets:
        out += bytes(4 * count)
    return out + b"".join(body for *_, body, _ in containers)


def text(*maps: tuple[int, bytes]) -> str:
    raw = struct.pack("<Q", len(maps)) + b"".join(struct.pack("<I", high) + body for high, body in maps)
    return base64.b64encode(raw).decode()


SMALL = roaring([(0, 3, array([1, 5, 9]), False)])


def test_no_positions() -> None:
    assert cardinality(text()) == 0
    assert cardinality(text((0, roaring([])))) == 0


def test_each_kind_of_container() -> None:
    many = list(range(0, 10_000, 2))
    assert cardinality(text((0, SMALL))) == 3
    assert cardinality(text((0, roaring([(2, len(many), bitmap(many), False)])))) == 5000
    assert cardinality(text((0, roaring([(0, 111, runs([(0, 99), (200, 210)]), True)])))) == 111
    assert cardinality(text((0, roaring([(7, 65536, runs([(0, 65535)]), True)])))) == 65536
    mixed = [(i, 10, runs([(1, 10)]), True) if i % 2 else (i, 1, array([i]), False) for i in range(9)]
    assert cardinality(text((0, roaring(mixed)), (3, SMALL))) == 4 * 10 + 5 + 3


@given(st.sets(st.integers(0, 2**20), max_size=200))
def test_set_of_positions(positions: set[int]) -> None:
    by_key: dict[int, list[int]] = {}
    for position in sorted(positions):
        by_key.setdefault(position >> 16, []).append(position & 0xFFFF)
    containers = [(key, len(low), array(low), False) for key, low in by_key.items()]
    assert cardinality(text((0, roaring(containers)))) == len(positions)


@pytest.mark.parametrize(
    "bad",
    [
        "no base64!",
        "é",
        "AAA",
        "",
        base64.b64encode(struct.pack("<Q", 2**64 - 1)).decode(),
        text((0, SMALL + b"\0")),
        text((0, SMALL[:-1])),
        text((1, SMALL), (0, SMALL)),
        text((1, SMALL), (1, SMALL)),
        text((0, struct.pack("<I", 12345))),
        text((0, struct.pack("<II", 12346, 2**32 - 1))),
        text((0, roaring([(0, 3, array([1, 9, 5]), False)]))),
        text((0, roaring([(0, 3, array([1, 5, 5]), False)]))),
        text((0, roaring([(0, 5001, bitmap(list(range(5000))), False)]))),
        text((0, roaring([(3, 1, array([1]), False), (2, 1, array([1]), False)]))),
        text((0, roaring([(0, 12, runs([(0, 10)]), True)]))),
        text((0, roaring([(0, 12, runs([(0, 10), (10, 10)]), True)]))),
        text((0, roaring([(0, 11, runs([(65530, 65540)]), True)]))),
    ],
)
def test_invalid_maps_are_corrupt(bad: str) -> None:
    with pytest.raises(CorruptBlock, match=r"log\.1 of t"):
        cardinality(bad, "log.1 of t")


def test_damaged_maps_never_crash() -> None:
    chance = random.Random(5)
    good = base64.b64decode(
        text((0, roaring([(0, 111, runs([(0, 99), (200, 210)]), True), (1, 2, array([1, 2]), False)])))
    )
    outcomes = set()
    for _ in range(2000):
        raw = bytearray(good[: chance.randint(0, len(good))])
        for _ in range(chance.randint(0, 3)):
            if raw:
                raw[chance.randrange(len(raw))] = chance.randrange(256)
        try:
            outcomes.add(cardinality(base64.b64encode(raw).decode()) >= 0)
        except CorruptBlock:
            outcomes.add(False)
    assert outcomes == {True, False}
