"""Metrics of a job."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from penstock.engine.sync.metrics import SyncMetrics, serve_metrics
from penstock.engine.sync.progress import TableProgress, TableState
from penstock.proto.errors import ConfigurationError
from tests.unit.engine.sync.scripted import source_of

TABLES = [
    TableProgress(source_of("a"), TableState.CURRENT, rows=5, current_at_s=90.0),
    TableProgress(source_of("b"), TableState.STOPPED, rows=2, current_at_s=40.0),
    TableProgress(source_of("c"), TableState.LOADING, rows=1),
    TableProgress(source_of("d"), TableState.RETRYING, rows=4, current_at_s=70.0),
]


def exposed(max_tables: int = 1_000) -> list[str]:
    registry = CollectorRegistry()
    registry.register(SyncMetrics(lambda: TABLES, lambda: 100.0, max_tables))
    lines = generate_latest(registry).decode().splitlines()
    return [line.replace("penstock_sync_", "") for line in lines if not line.startswith("#")]


def test_metrics() -> None:
    lines = exposed()
    assert [line for line in lines if line.startswith("tables")] == [
        'tables{state="waiting"} 0.0',
        'tables{state="loading"} 1.0',
        'tables{state="following"} 0.0',
        'tables{state="current"} 1.0',
        'tables{state="retrying"} 1.0',
        'tables{state="stopped"} 1.0',
    ]
    labels = 'source="a",table="a",target="duckdb: copy.db"'
    assert f"rows_total{{{labels}}} 5.0" in lines and f"lag_seconds{{{labels}}} 10.0" in lines
    assert f"failing{{{labels}}} 0.0" in lines
    assert not any(line.startswith("lag") and 'table="c"' in line for line in lines)
    assert 'failing{source="b",table="b",target="duckdb: copy.db"} 1.0' in lines


def test_further_tables_are_one() -> None:
    lines = exposed(1)
    labels = 'source="other",table="other",target="other"'
    assert f"rows_total{{{labels}}} 7.0" in lines and f"lag_seconds{{{labels}}} 60.0" in lines
    assert f"failing{{{labels}}} 2.0" in lines
    assert not any('table="b"' in line for line in lines)


def test_port() -> None:
    port = serve_metrics("127.0.0.1:0", lambda: TABLES)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port.port}/metrics") as response:
            assert b'penstock_sync_tables{state="current"} 1.0' in response.read()
        with pytest.raises(ConfigurationError, match=r"--metrics 127.0.0.1:\d+: cannot listen"):
            serve_metrics(f"127.0.0.1:{port.port}", lambda: TABLES)
    finally:
        port.close()
    with pytest.raises(ConfigurationError, match="expected HOST:PORT"):
        serve_metrics("nowhere", lambda: TABLES)
