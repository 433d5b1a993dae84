"""Tickets: what they contain, and every way in which one is refused."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.engine.flight import ticket as tickets
from penstock.engine.flight.ticket import MAX_TICKET_BYTES, Ticket, ticket_of, tickets_of
from penstock.engine.flight.ticket_keys import MAC_BYTES, TicketKeys
from penstock.proto.codec.serialized import encode_scan, encode_split
from penstock.proto.errors import ConfigurationError, PermissionDenied
from penstock.proto.model.positions import InstantTime
from penstock.proto.model.splits import CommitTimeOrdering, Scan, Split, VisibleInstants

SCAN = Scan(
    table="orders",
    base_path="s3://key:secret@lake/orders",
    table_version=9,
    schema_json='{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}',
    columns=("id",),
    merge=CommitTimeOrdering(),
    visible=VisibleInstants(frozenset({InstantTime("20260101000000000")})),
)
KEYS = TicketKeys((b"k" * 32,))
NOW_S = 1_000_000.0


@pytest.fixture
def plan(new_split: Callable[..., Split]) -> Ticket:
    """A plan of three splits for `token:ann`."""
    return Ticket(
        table="orders",
        principal="token:ann",
        expires_s=NOW_S + 60,
        scan=SCAN,
        splits=tuple(new_split(name, 5) for name in "abc"),
        batch_rows=1000,
    )


def test_ticket_for_each_split(plan: Ticket) -> None:
    read = [ticket_of(data, KEYS, "token:ann", NOW_S) for data in tickets_of(plan, KEYS)]
    assert [one.splits for one in read] == [(split,) for split in plan.splits]
    for one in read:
        assert replace(one, splits=plan.splits, scan=plan.scan) == plan
        assert one.scan == replace(plan.scan, base_path="orders")


def test_ticket_has_no_path(plan: Ticket) -> None:
    for data in tickets_of(plan, KEYS):
        body = data[4 + MAC_BYTES :]
        texts = [zlib.decompress(part) if part[:1] == b"x" else part for part in tickets._parts(body)]
        assert b"orders" in b"".join(texts)
        assert not any(b"secret" in text or b"s3:" in text for text in texts)


def test_limit_puts_all_splits_into_one_ticket(plan: Ticket) -> None:
    (data,) = tickets_of(replace(plan, limit=7), KEYS)
    read = ticket_of(data, KEYS, "token:ann", NOW_S)
    assert (read.splits, read.limit) == (plan.splits, 7)


def test_plan_without_splits_has_no_ticket(plan: Ticket) -> None:
    assert list(tickets_of(replace(plan, splits=()), KEYS)) == []


def test_same_plan_gives_the_same_tickets(plan: Ticket) -> None:
    assert list(tickets_of(plan, KEYS)) == list(tickets_of(plan, KEYS))


def first(plan: Ticket, keys: TicketKeys = KEYS) -> bytes:
    return next(tickets_of(plan, keys))


def test_changed_bits_are_refused(plan: Ticket) -> None:
    data = first(plan)
    assert ticket_of(data, KEYS, "token:ann", NOW_S).table == "orders"
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(PermissionDenied, match="not signed"):
            ticket_of(changed, KEYS, "token:ann", NOW_S)


@pytest.mark.parametrize("size", [0, 1, 4, 35, 36, 37, 100])
def test_truncated_and_extended_tickets_are_refused(plan: Ticket, size: int) -> None:
    data = first(plan)
    for other in (data[:size], data + b"\0" * (size + 1), b"\0" * size):
        with pytest.raises(PermissionDenied, match="not signed"):
            ticket_of(other, KEYS, "token:ann", NOW_S)


def test_ticket_of_another_key_is_refused(plan: Ticket) -> None:
    with pytest.raises(PermissionDenied, match="not signed"):
        ticket_of(first(plan, TicketKeys((b"o" * 32,))), KEYS, "token:ann", NOW_S)


@pytest.mark.parametrize("principal", ["", "token:ben", "token:ann2", "cert:ann"])
def test_ticket_of_another_caller_is_refused(plan: Ticket, principal: str) -> None:
    with pytest.raises(PermissionDenied, match="another caller") as caught:
        ticket_of(first(plan), KEYS, principal, NOW_S)
    assert "ann" not in str(caught.value)


def test_ticket_expires(plan: Ticket) -> None:
    data = first(plan)
    assert ticket_of(data, KEYS, "token:ann", NOW_S + 59.9)
    with pytest.raises(PermissionDenied, match=r"it expired at 1970-01-12T13:47:40\+00:00: request the flight again"):
        ticket_of(data, KEYS, "token:ann", NOW_S + 60)


def test_long_tickets(plan: Ticket, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PermissionDenied, match="expected at most"):
        ticket_of(b"PST1" + b"\0" * MAX_TICKET_BYTES, KEYS, "token:ann", NOW_S)
    monkeypatch.setattr(tickets, "MAX_TICKET_BYTES", 100)
    with pytest.raises(
        ConfigurationError, match=r"table orders: a ticket for 3 splits has \d+ bytes.*leave out `limit`"
    ):
        list(tickets_of(replace(plan, limit=1), KEYS))


def test_content_that_inflates_too_much_is_refused(plan: Ticket, monkeypatch: pytest.MonkeyPatch) -> None:
    data = first(plan)
    monkeypatch.setattr(tickets, "MAX_CONTENT_BYTES", 10)
    with pytest.raises(ConfigurationError, match="longer than 10 bytes"):
        ticket_of(data, KEYS, "token:ann", NOW_S)


def test_content_that_could_not_be_read_is_not_signed(plan: Ticket, monkeypatch: pytest.MonkeyPatch) -> None:
    size = sum(len(encode_split(split)) + 4 for split in plan.splits)
    monkeypatch.setattr(
        tickets, "MAX_CONTENT_BYTES", max(size, len(encode_scan(replace(plan.scan, base_path="orders"))))
    )
    (data,) = tickets_of(replace(plan, limit=7), KEYS)
    assert ticket_of(data, KEYS, "token:ann", NOW_S).splits == plan.splits
    monkeypatch.setattr(tickets, "MAX_CONTENT_BYTES", size - 1)
    with pytest.raises(ConfigurationError, match=rf"table orders: .* expected at most {size - 1}: leave out `limit`"):
        list(tickets_of(replace(plan, limit=7), KEYS))


def test_nothing_is_parsed_before_the_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that no parser would survive."""
    monkeypatch.setattr(json, "loads", lambda text: pytest.fail("the header was parsed"))
    monkeypatch.setattr(zlib, "decompressobj", lambda: pytest.fail("the content was decompressed"))
    body = struct.pack(">I", 2**32 - 1) + b"{"
    with pytest.raises(PermissionDenied, match="not signed"):
        ticket_of(b"PST1" + b"\0" * MAC_BYTES + body, KEYS, "", NOW_S)
