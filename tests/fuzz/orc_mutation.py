"""Mutations of ORC files within their framing: one part is changed, and the stated lengths stay true."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

from penstock.table import orc_tail
from penstock.table.wire_message import WireMessage


def mutated_part(data: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """The file with one change: of the footer, of the footer of the last stripe, of the bytes before it, or of the
    postscript. pa.ArrowInvalid, ValueError or LookupError if its framing is damaged."""
    tail = orc_tail.orc_tail(pa.BufferReader(data))
    match rng.randrange(5):
        case 0 | 1:
            return _with_footer(data[: tail.footer_at], change(tail.footer), tail)
        case 2:
            body = change(data[: tail.footer_at])
            return (body + bytes(tail.footer_at))[: tail.footer_at] + data[tail.footer_at :]
        case 3:
            postscript = change(tail.postscript)[:255]
            return data[: -1 - len(tail.postscript)] + postscript + bytes([len(postscript)])
        case _:
            return _with_stripe_footer(data, change, tail)


def _with_footer(before: bytes, footer: bytes, tail: orc_tail.OrcTail) -> bytes:
    stored = _stored(footer, tail)
    postscript = tail.postscript + b"\x08" + _varint(len(stored))  # the last value of a field counts
    return before + stored + postscript + bytes([len(postscript)])


def _with_stripe_footer(data: bytes, change: Callable[[bytes], bytes], tail: orc_tail.OrcTail) -> bytes:
    message = WireMessage(tail.footer)
    stripes = [part for key, part in message.fields(0, len(tail.footer)) if key == 3 and isinstance(part, range)]
    stripe = stripes[-1]
    numbers = {key: value for key, value in message.fields(stripe.start, stripe.stop) if isinstance(value, int)}
    begin = numbers.get(1, 0) + numbers.get(2, 0) + numbers.get(3, 0)
    end = begin + numbers[4]
    stored = _stored(change(orc_tail._decompressed(data[begin:end], tail.codec, tail.block_bytes)), tail)
    entry = tail.footer[stripe.start : stripe.stop] + b"\x20" + _varint(len(stored))
    head = stripe.start - len(_varint(len(stripe)))
    footer = tail.footer[:head] + _varint(len(entry)) + entry + tail.footer[stripe.stop :]
    return _with_footer(data[:begin] + stored + data[end : tail.footer_at], footer, tail)


def _stored(part: bytes, tail: orc_tail.OrcTail) -> bytes:
    """A part in blocks that are stored as they are."""
    if not tail.codec:
        return part
    size = tail.block_bytes
    blocks = [part[begin : begin + size] for begin in range(0, len(part), size)]
    return b"".join((len(block) << 1 | 1).to_bytes(3, "little") + block for block in blocks)


def _varint(number: int) -> bytes:
    return orc_tail._varint(number)
