"""Inputs from grammars: bytes for a decoder, valid or with one damaged place, and their meaning.

A grammar writes with a `Wire`. Each number, length and text that it writes is a place. A damaged input has another
value at one place; checksums and lengths around it are recomputed, so that the damage reaches the decoder.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HOSTILE = (0, 1, -1, 2, 3, 63, 64, 127, 128, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2**31, 2**62, 2**63 - 1, -(2**63))
WHOLE_SHARE = 0.4
"""Share of valid inputs."""


@dataclass(frozen=True)
class Case:
    """An input: the bytes, the decoder's other arguments (JSON), and the meaning of valid bytes."""

    data: bytes
    context: Any
    meaning: Any


@dataclass(frozen=True)
class Decoder:
    """A grammar and its decoder.

    `decode` returns an input's meaning by every implementation, asserts that they agree, and does not catch errors.
    """

    name: str
    grammar: Callable[[Wire], Case]
    decode: Callable[[bytes, Any], Any]


class Wire:
    """Writes the parts of an input; the part at `damaged_place` is damaged."""

    def __init__(self, seed: str, damaged_place: int = -1) -> None:
        self.rng = random.Random(seed)
        self._harm = random.Random(f"{seed} harm")
        self._damaged_place = damaged_place
        self.places = 0

    def _is_damaged(self) -> bool:
        self.places += 1
        return self.places - 1 == self._damaged_place

    def number(self, value: int) -> int:
        """Writes a number, which is a place."""
        if not self._is_damaged():
            return value
        return self._harm.choice((*HOSTILE, value + 1, value - 1, value * 2, -value))

    def zigzag(self, value: int) -> bytes:
        """An Avro number."""
        return zigzag(self.number(value))

    def big(self, value: int, width: int) -> bytes:
        """A big-endian number."""
        return (self.number(value) & (1 << 8 * width) - 1).to_bytes(width, "big")

    def little(self, value: int, width: int) -> bytes:
        """A little-endian number."""
        return (self.number(value) & (1 << 8 * width) - 1).to_bytes(width, "little")

    def raw(self, data: bytes) -> bytes:
        """Writes bytes without a length; if damaged, some bytes are changed, removed or added."""
        if not self._is_damaged():
            return data
        harm, at = self._harm, self._harm.randrange(len(data) + 1)
        size = harm.choice((1, 1, 2, 8))
        return harm.choice(
            (
                data[:at],
                data[:at] + data[at + size :],
                data[:at] + harm.randbytes(size) + data[at + size :],
                data[:at] + harm.randbytes(size) + data[at:],
                data[:at] + bytes([harm.choice((0, 2, 127, 128, 255))]) * size + data[at + size :],
            )
        )

    def text(self, data: bytes) -> bytes:
        """Avro bytes: a length and a text."""
        return self.zigzag(len(data)) + self.raw(data)

    def changed(self, data: bytes, change: Callable[[bytes, random.Random], bytes]) -> bytes:
        """Writes bytes with a specific damage; truncated to half if the damage does not apply."""
        if not self._is_damaged():
            return data
        try:
            return change(data, self._harm)
        except (LookupError, ValueError, TypeError, AttributeError):
            return data[: len(data) // 2]

    def json_tree(self, value: Any) -> Any:
        """A JSON value of which each part is a place."""
        if isinstance(value, dict):
            value = {name: self.json_tree(item) for name, item in value.items()}
        elif isinstance(value, list):
            value = [self.json_tree(item) for item in value]
        return self.json(value)

    def json(self, value: Any) -> Any:
        """A JSON value; if damaged, one of another type, size or depth."""
        if not self._is_damaged():
            return value
        deep: Any = 1
        for _ in range(self._harm.choice((3, 70, 300))):
            deep = [deep] if self._harm.random() < 0.5 else {"a": deep}
        return self._harm.choice(
            (None, True, -1, 2**63, 10**400, 1.5, "", "x" * 5000, "\ud800", "../x", [], {}, deep, [value], {"a": value})
        )


def zigzag(value: int) -> bytes:
    """A number as Avro writes it."""
    unsigned = (value << 1 ^ value >> 63) & 2**64 - 1
    return varint(unsigned)


def varint(unsigned: int) -> bytes:
    """A number of 7 bits per byte, low ones first."""
    out = bytearray()
    while unsigned > 0x7F:
        out.append(unsigned & 0x7F | 0x80)
        unsigned >>= 7
    return bytes([*out, unsigned])


def some_text(rng: random.Random) -> str:
    """A text with a length around the widths that decoders copy."""
    size = rng.choice((0, 1, 1, 3, 7, 8, 9, 15, 16, 17, 33, 100))
    return "".join(rng.choice("abcxyz0189 _-é€😀") for _ in range(size))


def case_of(decoder: Decoder, seed: int) -> tuple[Case, bool]:
    """(the input of a seed, whether it is valid). The same seed returns the same input."""
    name = f"{decoder.name} {seed}"
    wire = Wire(name)
    case = decoder.grammar(wire)
    chance = random.Random(f"{name} which")
    if not wire.places or chance.random() < WHOLE_SHARE:
        return case, True
    damaged = decoder.grammar(Wire(name, chance.randrange(wire.places)))
    return damaged, False
