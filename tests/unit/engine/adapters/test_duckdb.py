"""Releases of DuckDB whose rows would be wrong are refused."""

from __future__ import annotations

import pytest

import penstock


def test_release_that_leaves_nan_out_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    from penstock.engine.adapters.duckdb import check_release

    check_release("2.0.0")
    check_release("10.0.0-dev1")
    monkeypatch.setattr(duckdb, "__version__", "1.5.6")
    with pytest.raises(ImportError, match=r"needs DuckDB 2\.0 or newer: DuckDB 1\.5\.6 leaves rows with NaN out"):
        penstock.duckdb.relation(duckdb.connect(), "nowhere")
    with pytest.raises(ImportError, match=r"1\.5\.6"):
        penstock.duckdb.register(duckdb.connect(), "t", "nowhere")
