"""Fixtures that suites share: the golden tables (real Hudi tables, and the rows Hudi returned for them), and the
JVMs of a run: one Spark session, one process of real Hudi, one Kafka broker."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import settings

from tests import sampling
from tests.golden_tables import TESTS, GoldenTables

settings.register_profile("no_deadline", deadline=None)
"""No verdict depends on the speed of the machine."""
settings.load_profile("no_deadline")


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what `make test` leaves to `make test-all`."""
    sampling.mark_exhaustive(items)


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenTables:
    """The golden tables."""
    return GoldenTables(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The run's Spark session (PySpark is imported by those suites alone that ask for it)."""
    from tests.spark_session import session

    yield from session(tmp_path_factory)


@pytest.fixture(scope="session")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Real Hudi, the newest release, for the run: it writes tables and says what the rows are."""
    from tests.interop.hudi_process import NEWEST, running

    with running(NEWEST, tmp_path_factory.mktemp("hudi")) as peer:
        yield peer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The run's Kafka broker (`KafkaBroker`): topics are a test's own, and a broker it kills it starts again."""
    from tests.kafka_broker import running

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
