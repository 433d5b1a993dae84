"""Targets of the contract suite."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Iterator

import pytest

from tests.postgres_server import PostgresServer, postgres_server
from tests.unit.engine.sync.targets.backends import KINDS, Backend, InDelta, InDuckDB, InHudi, InParquet, InPostgreSQL

_schemas = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with postgres_server() as started:
        yield started


@pytest.fixture
def postgresql(server: PostgresServer) -> InPostgreSQL:
    return InPostgreSQL(server, f"s{next(_schemas)}")


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Backend:
    return _backend(request, tmp_path)


@pytest.fixture(params=[kind for kind in KINDS if kind != "hudi"])
def general_backend(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Backend:
    """Targets whose keys may be null or repeated, with names and types that no Hudi table has (`test_hudi`)."""
    return _backend(request, tmp_path)


def _backend(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Backend:
    match request.param:
        case "duckdb":
            return InDuckDB(tmp_path)
        case "delta":
            return InDelta(tmp_path)
        case "parquet":
            return InParquet(tmp_path)
        case "hudi":
            return InHudi(tmp_path)
        case "postgresql":
            return request.getfixturevalue("postgresql")  # type: ignore[no-any-return]
    raise AssertionError(request.param)
