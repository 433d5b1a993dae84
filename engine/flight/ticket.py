"""Tickets: signed values with everything that a data server needs to read splits, so that it holds no plan. Pure.

A ticket contains the scan and one split; with `limit` all splits, because the limit applies to their rows together. It
contains the table's name and no path: the data server that reads it has its own path of the table. It is bound to the
caller that planned it, and expires. The layout: MAGIC, the signature, and a body of four parts, each with its length:
a header in JSON, the compressed scan, and the compressed splits, of which each has a length.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from penstock.engine.flight.ticket_keys import MAC_BYTES, TicketKeys
from penstock.proto.codec.serialized import decode_scan, decode_split, encode_scan, encode_split
from penstock.proto.errors import ConfigurationError, PermissionDenied
from penstock.proto.model.splits import Scan, Split

MAX_TICKET_BYTES: Final = 8 << 20
"""The longest ticket."""
MAX_CONTENT_BYTES: Final = 256 << 20
"""The longest content of a ticket, decompressed."""
_MAGIC: Final = b"PST1"
_LENGTH: Final = struct.Struct(">I")
_AGAIN: Final = "request the flight again (GetFlightInfo)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """The content of a ticket."""

    table: str
    """The name of the table."""
    principal: str
    """The caller to whom the ticket was given; '' without authentication."""
    expires_s: float
    """When it expires, in seconds since 1970 UTC."""
    scan: Scan = field(repr=False)
    """The scan, whose base path is the table's name."""
    splits: tuple[Split, ...] = field(repr=False)
    """The splits in plan order, at least one."""
    batch_rows: int
    """The maximum number of rows of a batch."""
    limit: int | None = None
    """The maximum number of rows of all splits together; None: no limit."""


def tickets_of(plan: Ticket, keys: TicketKeys) -> Iterator[bytes]:
    """The tickets of a plan in plan order: one for each split, or with a limit one for all of them.

    `plan` is a ticket with all splits of the plan. ConfigurationError: a ticket is longer than MAX_TICKET_BYTES, or its
    content than MAX_CONTENT_BYTES.
    """
    if not plan.splits:
        return
    scan = _compressed(encode_scan(replace(plan.scan, base_path=plan.table)), plan.table)
    header = json.dumps(
        {
            "table": plan.table,
            "principal": plan.principal,
            "expires": plan.expires_s,
            "batchRows": plan.batch_rows,
            "limit": plan.limit,
        }
    ).encode()
    parts = [plan.splits] if plan.limit is not None else [(split,) for split in plan.splits]
    for splits in parts:
        content = _framed([encode_split(split) for split in splits])
        body = _framed([header, scan, _compressed(content, plan.table)])
        data = _MAGIC + keys.signature(body) + body
        if len(data) > MAX_TICKET_BYTES:
            raise ConfigurationError(
                f"table {plan.table}: a ticket for {len(splits)} splits has {len(data)} bytes, expected at most "
                f"{MAX_TICKET_BYTES}: "
                + ("leave out `limit`, which puts all splits into one ticket, or " if len(splits) > 1 else "")
                + "read fewer partitions, or fewer commits"
            )
        yield data


def ticket_of(data: bytes, keys: TicketKeys, principal: str, now_s: float) -> Ticket:
    """The content of a ticket. PermissionDenied: it is not signed by one of the keys, has expired, or was given to
    another caller than `principal`. Nothing of it is parsed before the signature is verified."""
    if len(data) > MAX_TICKET_BYTES:
        raise PermissionDenied(f"ticket: got {len(data)} bytes, expected at most {MAX_TICKET_BYTES}: {_AGAIN}")
    begin = len(_MAGIC) + MAC_BYTES
    signature, body = data[len(_MAGIC) : begin], data[begin:]
    if not data.startswith(_MAGIC) or not keys.signed(body, signature):
        raise PermissionDenied(
            f"ticket: it is not signed by a key of this server: {_AGAIN}; several data servers need the same key "
            "(`penstock flight --ticket-key`)"
        )
    header_bytes, scan, splits = _parts(body)
    header = json.loads(header_bytes)
    if header["principal"] != principal:
        raise PermissionDenied(f"ticket: it was given to another caller: {_AGAIN}")
    if now_s >= header["expires"]:
        expiry = datetime.fromtimestamp(header["expires"], UTC).isoformat(timespec="seconds")
        raise PermissionDenied(f"ticket: it expired at {expiry}: {_AGAIN}")
    return Ticket(
        table=header["table"],
        principal=principal,
        expires_s=header["expires"],
        scan=decode_scan(_decompressed(scan)),
        splits=tuple(decode_split(split) for split in _parts(_decompressed(splits))),
        batch_rows=header["batchRows"],
        limit=header["limit"],
    )


def _framed(parts: Sequence[bytes]) -> bytes:
    return b"".join(piece for part in parts for piece in (_LENGTH.pack(len(part)), part))


def _parts(data: bytes) -> list[bytes]:
    parts, at = [], 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        parts.append(data[at - length : at])
    return parts


def _compressed(content: bytes, table: str) -> bytes:
    if len(content) > MAX_CONTENT_BYTES:
        raise ConfigurationError(
            f"table {table}: the content of a ticket has {len(content)} bytes, expected at most {MAX_CONTENT_BYTES}: "
            "leave out `limit`, which puts all splits into one ticket, or read fewer partitions, or fewer commits"
        )
    return zlib.compress(content)


def _decompressed(data: bytes) -> bytes:
    """The content. It is our own, but its length is checked all the same: a key may be shared with another release."""
    inflater = zlib.decompressobj()
    content = inflater.decompress(data, MAX_CONTENT_BYTES)
    if not inflater.eof:
        raise ConfigurationError(f"ticket: its content is longer than {MAX_CONTENT_BYTES} bytes: read fewer partitions")
    return content
