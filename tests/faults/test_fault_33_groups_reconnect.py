"""Fault 33 for groups: a reader continues over server restarts and cut connections."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from penstock.engine.consumer import Consumer
from penstock.enumerator.clocks import monotonic_ms
from penstock.enumerator.coordinator.coordinator import durable_coordinator
from penstock.enumerator.core.results import CoordinatorSettings
from penstock.enumerator.server.run import RunningServer, serve_enumerator
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.store.journal import Journal
from penstock.proto.client.client import EnumeratorClient
from tests.faults.fault_proxy import FaultProxy
from tests.faults.served import CASE, RETRY_DELAYS, check_changes
from tests.memory_store import MemoryStore

pytestmark = pytest.mark.golden


def served(table: str, store: MemoryStore, address: str) -> RunningServer:
    """A server on this state, with its own service."""
    coordinator = durable_coordinator(store, Journal(store), clock_ms=monotonic_ms, settings=CoordinatorSettings())
    service = EnumeratorService({"t": table}, coordinator=coordinator, poll_ms=None)
    service.split_discovery.discover()
    server = serve_enumerator(service, address, service)
    server.at_end(service.split_discovery.discover)
    return server


@pytest.mark.parametrize("faults", ["restarts", "cuts", "doubled bytes", "slow bytes"])
def test_fault_33_consumer_continues_over_restarts_and_broken_connections(golden: Any, faults: str) -> None:
    """A fault after each batch, before its commit."""
    table, store = str(golden.table(CASE)), MemoryStore()
    server = served(table, store, "127.0.0.1:0")
    with FaultProxy(server.address) as proxy:
        client = EnumeratorClient(proxy.address, RETRY_DELAYS)
        with Consumer(
            None, "t", group="g", reader_id="r", query="cdc", cdc_format="hudi", max_splits=1, enumerator=client
        ) as reader:
            server.stop(0)  # its discovery planned the rounds of the group
            store = store.reopened()
            server = served(table, store, server.address)
            batches = []
            while True:
                consumed = reader.poll(0)
                if consumed is None and reader.caught_up:
                    break
                if consumed is None:
                    continue
                batches.append(consumed.batch)
                if faults == "restarts" and len(batches) <= 5:
                    server.stop(0)
                    proxy.cut()
                    store = store.reopened()
                    server = served(table, store, server.address)
                elif faults == "cuts":
                    proxy.cut()
                elif faults == "doubled bytes" and len(batches) <= 5:
                    proxy.to_server.doubled = (
                        1  # bytes after the lost ones cannot be parsed; a broken connection is cut in the end
                    )
                    threading.Timer(0.2, proxy.heal).start()
                elif faults == "slow bytes":
                    proxy.to_client.delay_s = 0.01
                reader.commit(consumed)
            check_changes(golden, batches)
        assert proxy.connections > 5 or faults not in ("restarts", "cuts")
        server.stop(0)
