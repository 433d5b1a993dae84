"""The end of an ORC file with other types of its timestamps: as instants, as seconds, and as nanoseconds.

A timestamp has a stream of seconds (DATA) and one of nanoseconds (SECONDARY). The library of ORC decodes both, and
Arrow returns one number of nanoseconds since 1970, which is out of range before 1677 and after 2262. Two other ends of
the same file give the two parts:

* A footer that declares the timestamps as LONG gives the seconds: DATA of a LONG is encoded in the same way.
* Footers of stripes in which DATA is a stream of zeros give the nanoseconds, as times after 2015-01-01 in UTC. Bytes of
  0 are that stream, of any length: three of them are a run of three zeros in version 1 of the encoding, two in version
  2. They are no bytes of memory, because the reader of the file makes them.

Sources: `TimestampColumnReader`, `RleDecoderV1`, `RleDecoderV2` and `StripeStreamsImpl` of ORC's C++ library, and its
Java library, with which Hudi writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.table.orc_tail import OrcTail, Stripe, stored_blocks, stripes, tail_with, varint
from penstock.table.wire_message import WireMessage

_LONG: Final = b"\x08\x04"
_TIMESTAMP: Final = b"\x08\x09"
_TIMESTAMP_INSTANT: Final = b"\x08\x12"
"""Field 1 of a column's type, the first that writers write."""
_DATA: Final = 1
_UNUSED: Final = 4
"""DICTIONARY_COUNT, a kind of stream that no reader asks for."""
_ZERO_BYTES: Final = 1 << 40
"""About the length of a stream of zeros: more values than a column has."""
_BLOCK_BYTES: Final = 1 << 15
_MOST_FIELDS: Final = 1 << 20
"""Of the footers of all stripes, with those that are added. A stripe has about five for each column."""


@dataclass(frozen=True, slots=True)
class OtherEnd:
    """What follows the bytes of a file before its footer, instead of the footer."""

    repeated: bytes
    """The bytes that are repeated first."""
    repeated_bytes: int
    """How many bytes they are, repeated."""
    tail: bytes
    """The bytes after them."""


def end_of_instants(tail: OrcTail) -> OtherEnd:
    """Timestamps are instants: the stored numbers, after 2015-01-01 in UTC."""
    return OtherEnd(b"", 0, tail_with(_with_types(tail, _TIMESTAMP_INSTANT)[0], tail))


def end_of_seconds(tail: OrcTail) -> OtherEnd:
    """Timestamps are the stored seconds as int64: since 2015-01-01 in the writer's zone, or in UTC for instants."""
    return OtherEnd(b"", 0, tail_with(_with_types(tail, _LONG)[0], tail))


def end_of_nanoseconds(source: pa.NativeFile, tail: OrcTail) -> OtherEnd:
    """Timestamps are the stored nanoseconds of their second, after 2015-01-01 in UTC.

    Errors: pa.ArrowInvalid for damage, and for more than `_MOST_FIELDS`; OSError.
    """
    footer, columns = _with_types(tail, _TIMESTAMP_INSTANT)
    size = min(_BLOCK_BYTES, tail.block_bytes)
    block = stored_blocks(bytes(size), tail)
    zeros = _ZERO_BYTES // len(block) * len(block)
    of_zeros = b"".join(_stream_field(_DATA, column, zeros) for column in columns)
    entries, footers, remaining = [], [], _MOST_FIELDS
    position = tail.footer_at + zeros * len(columns)
    for stripe in stripes(source, tail):
        remaining -= len(columns) + 1
        fields = _stripe_footer(stripe, tail, columns, remaining)
        remaining -= len(fields) - 1
        stored = stored_blocks(b"".join([*fields, of_zeros]), tail)
        entry = footer[stripe.entry.start : stripe.entry.stop]
        entry += _number(3, position - stripe.begin - stripe.index_bytes) + _number(4, len(stored))
        entries.append(_bytes(3, entry))  # the last value of a field counts
        footers.append(stored)
        position += len(stored)
    others = [_field(key, value, footer) for key, value in WireMessage(footer).fields(0, len(footer)) if key != 3]
    end = tail_with(b"".join([*entries, *others]), tail, _number(5, 0))  # without the statistics of stripes
    return OtherEnd(block, zeros * len(columns), b"".join([*footers, end]))


def _with_types(tail: OrcTail, kind: bytes) -> tuple[bytes, list[int]]:
    """The footer with this type of all timestamps, and the numbers of their columns. Footer: 4 the type of a column."""
    footer, columns, column = bytearray(tail.footer), [], 0
    for key, part in WireMessage(tail.footer).fields(0, len(footer)):
        if key != 4 or not isinstance(part, range):
            continue
        if footer.startswith((_TIMESTAMP, _TIMESTAMP_INSTANT), part.start, part.stop):
            footer[part.start : part.start + 2] = kind
            columns.append(column)
        column += 1
    return bytes(footer), columns


def _stripe_footer(stripe: Stripe, tail: OrcTail, columns: Sequence[int], most: int) -> list[bytes]:
    """The fields of the stripe's footer without a stream DATA of these columns, at most `most` and one. The position of
    the file's footer is that of a next stream.

    Footer of a stripe: 1 a stream (1 kind, 2 column, 3 bytes), one after the other from the stripe's begin.
    """
    chosen, end, fields = set(columns), stripe.begin, []
    for key, part in WireMessage(stripe.footer).fields(0, len(stripe.footer)):
        if key == 1 and isinstance(part, range):
            kind, column, size = _stream(stripe.footer, part)
            fields.append(_stream_field(_UNUSED if kind == _DATA and column in chosen else kind, column, size))
            end += size
        else:
            fields.append(_field(key, part, stripe.footer))
        if len(fields) > most:
            break
    if len(fields) > most:
        raise pa.ArrowInvalid(f"footers of stripes of more than {_MOST_FIELDS} fields")
    if end > tail.footer_at:
        raise pa.ArrowInvalid(f"streams of a stripe to {end}, after the footer at {tail.footer_at}")
    return [*fields, _stream_field(_UNUSED, 0, tail.footer_at - end)]


def _stream(footer: bytes, part: range) -> tuple[int, int, int]:
    fields = WireMessage(footer).fields(part.start, part.stop)
    numbers = {key: value for key, value in fields if isinstance(value, int)}
    return numbers.get(1, 0), numbers.get(2, 0), numbers.get(3, 0)


def _stream_field(kind: int, column: int, size: int) -> bytes:
    return _bytes(1, _number(1, kind) + _number(2, column) + _number(3, size))


def _field(key: int, value: int | range, data: bytes) -> bytes:
    return _number(key, value) if isinstance(value, int) else _bytes(key, data[value.start : value.stop])


def _number(key: int, value: int) -> bytes:
    return varint(key << 3) + varint(value)


def _bytes(key: int, value: bytes) -> bytes:
    return varint(key << 3 | 2) + varint(len(value)) + value
