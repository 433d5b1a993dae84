"""Targets by their URL, and the extra that one needs."""

from __future__ import annotations

import sys

import pytest

from penstock.engine.sync.job import parse_target
from penstock.engine.sync.targets.open import open_target
from penstock.proto.errors import ConfigurationError

URLS = {"duckdb": "duckdb:///c.db", "delta": "delta:///c", "postgresql": "postgresql://u@127.0.0.1/c"}
LIBRARIES = {"duckdb": "duckdb", "delta": "deltalake", "postgresql": "adbc_driver_postgresql"}


@pytest.mark.parametrize("kind", URLS)
def test_missing_library_is_named_with_its_extra(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (kind, "postgresql_connections"):
        monkeypatch.delitem(sys.modules, f"penstock.engine.sync.targets.{name}", raising=False)
    monkeypatch.setitem(sys.modules, LIBRARIES[kind], None)
    with pytest.raises(ConfigurationError, match=rf"target {kind}: .* needs .*: pip install 'penstock\[{kind}\]'"):
        open_target(parse_target("test", URLS[kind]))
