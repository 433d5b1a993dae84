"""A token bucket per peer, with a manual clock."""

from __future__ import annotations

import pytest

from penstock.enumerator.server.rpc import rate_limit
from penstock.enumerator.server.rpc.rate_limit import PeerRates
from penstock.proto.errors import Overloaded


class Clock:
    """A manual clock in seconds."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_peer_has_a_burst_then_the_rate_of_its_own() -> None:
    clock = Clock()
    limited = PeerRates(2.0, 3, clock)
    for _ in range(3):
        limited.take("a")
    with pytest.raises(Overloaded, match="too many calls from a: at most 2 a second, 3 at once") as caught:
        limited.take("a")
    assert caught.value.retry_ms == 500
    limited.take("b")
    clock.now_s += 0.5
    limited.take("a")
    with pytest.raises(Overloaded):
        limited.take("a")
    clock.now_s += 1000
    for _ in range(3):
        limited.take("a")
    with pytest.raises(Overloaded):
        limited.take("a")


def test_bucket_is_not_refilled_if_the_clock_stands_or_goes_back() -> None:
    clock = Clock()
    limited = PeerRates(1000.0, 1, clock)
    limited.take("a")
    clock.now_s -= 50
    with pytest.raises(Overloaded):
        limited.take("a")


def test_rate_of_zero_is_no_limit() -> None:
    unlimited = PeerRates(0, 1, Clock())
    for _ in range(1000):
        unlimited.take("a")


def test_number_of_peers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MAX_PEERS", 3)
    limited = PeerRates(1.0, 1, Clock())
    for peer in "abcd":
        limited.take(peer)
    assert len(limited._buckets) == 3
    limited.take("a")  # evicted, so its bucket is full
    with pytest.raises(Overloaded):
        limited.take("d")
