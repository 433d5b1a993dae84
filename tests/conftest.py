"""Fixtures that suites share: the golden tables (real Hudi tables, and the rows Hudi returned for them), and the
JVMs of a run: one Spark session, one process of real Hudi, one Kafka broker."""

from __future__ import annotations

import json
import logging
import pathlib
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

TESTS = pathlib.Path(__file__).parent
sys.path.append(str(TESTS))
GOLDEN = TESTS / "golden"


class GoldenTables:
    """Golden tables by case name; a table is unpacked once a session and must not be changed (use `copy`)."""

    def __init__(self, workspace: pathlib.Path) -> None:
        self._workspace = workspace
        self._cases: dict[str, dict[str, Any]] = {}
        for file in sorted(GOLDEN.glob("cases_*.json")):
            self._cases.update({case["name"]: case for case in json.loads(file.read_text())})

    def names(self) -> list[str]:
        """Every case copied into the repository."""
        return list(self._cases)

    def case(self, name: str) -> dict[str, Any]:
        """What was done to the table, and the queries asked of it (tests/golden/README.md)."""
        return self._cases[name]

    def table(self, name: str) -> pathlib.Path:
        """The unpacked table, shared by the session: read only."""
        return self._unpack(name, self._workspace / name)

    def copy(self, name: str, folder: pathlib.Path) -> pathlib.Path:
        """A copy of the table that the test may damage."""
        return self._unpack(name, folder / name)

    def expected(self, name: str, query_id: str) -> pa.Table:
        """The rows that count for a query: Penstock's own range rule where the catalogue gives it (`full`)."""
        query = next(q for q in self._cases[name]["queries"] if q["id"] == query_id)
        return pq.read_table(GOLDEN / query.get("full", query["expected"]))

    def _unpack(self, name: str, folder: pathlib.Path) -> pathlib.Path:
        if not folder.exists():
            partial = folder.with_name(folder.name + ".partial")
            archive = GOLDEN / self._cases[name].get("table", f"tables/{name}.zip")
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(partial)
            partial.rename(folder)
        return folder


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenTables:
    """The golden tables."""
    return GoldenTables(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The run's Spark session (PySpark is imported by those suites alone that ask for it)."""
    from spark_session import session

    yield from session(tmp_path_factory)


@pytest.fixture(scope="session")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Real Hudi, the newest release, for the run: it writes tables and says what the rows are."""
    sys.path.append(str(TESTS / "interop"))
    from hudi_process import NEWEST, running

    with running(NEWEST, tmp_path_factory.mktemp("hudi")) as peer:
        yield peer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The run's Kafka broker (`KafkaBroker`): topics are a test's own, and a broker it kills it starts again."""
    from kafka_broker import running

    with running(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(autouse=True)
def nobody_writes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test damages is damaged at once: its writer, the test, is done. Live writers are waited for."""
    if {"unit", "faults", "golden", "contract"} & set(request.path.parts[len(TESTS.parts) :][:1]):
        from penstock.proto.retry import RetryPolicy

        monkeypatch.setattr("penstock.table.timeline.settled_reads._RETRY", RetryPolicy(first_delay_ms=0, attempts=2))


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Puts back the logger that a command line sets up for its process."""
    logger = logging.getLogger("penstock")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
