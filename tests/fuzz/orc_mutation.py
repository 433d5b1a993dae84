"""Mutations of ORC files within their framing: one part is changed, and the stated lengths stay true."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa

from penstock.table import orc_tail
from penstock.table.wire_message import WireMessage


def mutated_part(data: bytes, change: Callable[[bytes], bytes], rng: random.Random) -> bytes:
    """The file with one change: of the footer, of the footer of the last stripe, of all bytes before the footer, or of
    the postscript. pa.ArrowInvalid, ValueError or LookupError if its framing is damaged."""
    tail = orc_tail.orc_tail(pa.BufferReader(data))
    match rng.randrange(5):
        case 0 | 1:
            return data[: tail.footer_at] + orc_tail.tail_with(change(tail.footer), tail)
        case 2:
            body = change(data[: tail.footer_at])
            return (body + bytes(tail.footer_at))[: tail.footer_at] + data[tail.footer_at :]
        case 3:
            postscript = change(tail.postscript)[:255]
            return data[: -1 - len(tail.postscript)] + postscript + bytes([len(postscript)])
        case _:
            return _with_stripe_footer(data, change, tail)


def _with_stripe_footer(data: bytes, change: Callable[[bytes], bytes], tail: orc_tail.OrcTail) -> bytes:
    message = WireMessage(tail.footer)
    stripes = [part for key, part in message.fields(0, len(tail.footer)) if key == 3 and isinstance(part, range)]
    stripe = stripes[-1]
    numbers = {key: value for key, value in message.fields(stripe.start, stripe.stop) if isinstance(value, int)}
    begin = numbers.get(1, 0) + numbers.get(2, 0) + numbers.get(3, 0)
    end = begin + numbers[4]
    stored = orc_tail.stored_blocks(change(orc_tail.decompressed(data[begin:end], tail.codec, tail.block_bytes)), tail)
    entry = tail.footer[stripe.start : stripe.stop] + b"\x20" + orc_tail.varint(len(stored))
    head = stripe.start - len(orc_tail.varint(len(stripe)))
    footer = tail.footer[:head] + orc_tail.varint(len(entry)) + entry + tail.footer[stripe.stop :]
    return data[:begin] + stored + data[end : tail.footer_at] + orc_tail.tail_with(footer, tail)
