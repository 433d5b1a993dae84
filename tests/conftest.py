"""Fixtures that suites share: the golden tables (Hudi tables, and the rows that Hudi returned for them), and the JVMs
of a run: one Spark session, one Hudi process, one Kafka broker."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import settings

from penstock.reader.values import dictionary_text
from tests import sampling
from tests.golden_tables import TESTS, GoldenTables
from tests.histories import hook
from tools.run_suites import not_collected

dictionary_text.LEAST_ROWS = 0
"""Small tables of tests are read with encoded text too. Processes that tests start have the default."""
settings.register_profile("suites", deadline=None, max_examples=50)
"""A test that depends on the speed of the machine is wrong, so deadlines are off. Property tests without a number of
their own have 50 examples."""
settings.load_profile("suites")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects without garbage collections, which would visit all tests collected so far again and again: half of the
    time. Later ones do not visit the tests either, until the end of the run, and come less often: tests leave few
    cycles, and the default takes a tenth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_unconfigure() -> None:
    """Lets the objects that were collected go, which extensions expect before the process ends."""
    gc.unfreeze()


@pytest.hookimpl(tryfirst=True)  # before pytest selects by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that only `make test-all` runs. Tests with a Ray cluster run last, because its processes take a
    tenth of a core while they wait."""
    sampling.mark_exhaustive(items)
    items.sort(key=lambda item: item.get_closest_marker("ray") is not None)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Fails if no process of `make test` and `make test-rest` would run a test. Here the tests have all their markers,
    and those with a JVM are among the tests that the process of the suites without a JVM deselects."""
    lost = [item.nodeid for item in items if not_collected(item.nodeid.partition("::")[0], markers_of(item))]
    if lost:
        raise pytest.UsageError(f"tests with a JVM outside of PATHS_WITH_JVM of tools/run_suites.py: {lost[:3]}")


def markers_of(item: pytest.Item) -> set[str]:
    """The names of a test's markers."""
    return {marker.name for marker in item.iter_markers()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints in each run how much was searched: the property "searched" of a test that passed."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "searched" and report.when == "call":
                terminalreporter.write_line(f"searched: {value}")


@pytest.hookimpl(tryfirst=True)  # before fixtures start servers
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Records the test, if it is of a suite of processes."""
    if hook.is_recorded(item.path):
        hook.recording().begin()


@pytest.hookimpl(wrapper=True, tryfirst=True)  # after fixtures have stopped servers
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Judges the history of the test."""
    try:
        return (yield)
    finally:
        if hook.is_recorded(item.path):
            hook.recording().end()


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> GoldenTables:
    """The golden tables."""
    return GoldenTables(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The run's Spark session. PySpark is imported only by suites that use it."""
    from tests.spark_session import session

    yield from session(tmp_path_factory)


@pytest.fixture(scope="session")
def connect_url(spark: Any) -> str:
    """The URL of the run's Spark Connect server."""
    from tests.spark_session import start_connect_server

    return start_connect_server(spark)


@pytest.fixture(scope="session")
def hudi(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A process of the newest Hudi release for the run: it writes tables and returns the expected rows."""
    from tests.interop.hudi_process import NEWEST, running

    with running(NEWEST, tmp_path_factory.mktemp("hudi")) as peer:
        yield peer


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The run's Kafka broker (`KafkaBroker`). Tests create their own topics, and restart a broker that they kill."""
    from tests.kafka_broker import running

    with running(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """The run's Ray cluster. Ray is imported only by suites that use it."""
    from tests.ray_cluster import running

    yield from running()


@pytest.fixture(autouse=True)
def nobody_writes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of damaged files are immediate: the test is the writer, and has finished. With a live writer Penstock
    waits."""
    if {"unit", "faults", "golden", "contract", "engines"} & set(request.path.parts[len(TESTS.parts) :][:1]):
        from penstock.proto.retry import RetryPolicy

        monkeypatch.setattr("penstock.table.timeline.settled_reads._RETRY", RetryPolicy(first_delay_ms=0, attempts=2))


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    """Restores the logger that the command line configures for its process."""
    logger = logging.getLogger("penstock")
    handlers, level, propagate = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
def kernels() -> None:
    """Reads by the compiled kernels, as a process does that reads much (`reader.kernels.choice`)."""
    import penstock.reader.kernels.cache  # noqa: F401 - this is what a process that uses them has done
