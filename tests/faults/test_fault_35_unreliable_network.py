"""Fault 35: a network between the server and its readers that loses, delays and reorders messages.

Each of three readers has connections of its own. A request that was under way when its connection broke arrives after
later ones of the same reader. Every row is in the output once, and is committed once.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.faults.deliveries import Deliveries
from tests.faults.local_server import DeliveringReader, local_server
from tests.faults.served import CASE
from tests.faults.unreliable_network import Fault, has_call, networks

pytestmark = pytest.mark.golden
FAULTS_EACH = 12
MOST_STEPS = 400


def over_an_unreliable_network(
    golden: Any, kind: type[DeliveringReader] = DeliveringReader, faults_each: int = FAULTS_EACH
) -> Counter[Fault]:
    """Three readers of this kind deliver the whole table; CheckFailed. The faults that happened."""
    deliveries = Deliveries(golden)
    with (
        local_server(golden.table(CASE)) as server,
        networks(server.address, 3, faults_each) as clients,
    ):
        server.create_group()
        for _ in range(10):  # so that the first requests of all readers find splits
            server.discover()
        readers = [kind(network.address, f"r{n}", deliveries) for n, network in enumerate(clients)]
        for _ in range(MOST_STEPS):
            server.discover()
            idle = [reader.step() for reader in readers]
            if all(idle) and server.is_finished():
                break
        else:
            pytest.fail(f"not finished after {MOST_STEPS} steps: {len(deliveries.rows)} rows")
        deliveries.check()
        return sum((network.faults for network in clients), Counter())


def test_fault_35_messages_lost_delayed_and_reordered_lose_and_double_no_row(golden: Any) -> None:
    faults = over_an_unreliable_network(golden)
    assert all(faults[kind] for kind in Fault), faults


def test_frames_with_headers_are_calls() -> None:
    """The negative control of the faults: connections are not cut before their first call."""
    settings, headers, data = (bytes((0, 0, 2, kind, 0, 0, 0, 0, 1)) + b"xx" for kind in (4, 1, 0))
    assert has_call(settings + headers) and has_call(headers)
    assert not has_call(settings) and not has_call(data) and not has_call(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
