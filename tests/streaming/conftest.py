"""Recorded tables for the suite, each written by Hudi once, when a test needs it."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from tests.streaming.ahead import run_all
from tests.streaming.recorded import Recorded
from tests.streaming.written import TABLES, write

RecordedTables = Callable[[str], Recorded]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that need a Spark session, or tables of Hudi."""
    for item in items:
        if item.path.is_relative_to(pathlib.Path(__file__).parent):
            names = getattr(item, "fixturenames", ())
            # py4j and pyspark close their sockets when they are collected, in any later test.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            if "spark" in names:
                item.add_marker(pytest.mark.spark)
            if "hudi" in names or "recorded" in names:
                item.add_marker(pytest.mark.interop)


@pytest.fixture(autouse=True)
def one_partition(request: pytest.FixtureRequest) -> Iterator[None]:
    """The state is small, and each partition adds the same cost to each micro-batch."""
    if "spark" not in request.fixturenames:
        yield
        return
    conf, name = request.getfixturevalue("spark").conf, "spark.sql.shuffle.partitions"
    before = conf.get(name)
    conf.set(name, "1")
    yield
    conf.set(name, before)


@pytest.fixture(scope="session")
def recorded(hudi: Any, tmp_path_factory: pytest.TempPathFactory) -> RecordedTables:
    """Returns a recorded table by its name in `written.TABLES`, in any thread."""
    tables: dict[str, Recorded] = {}
    making = {name: threading.Lock() for name in TABLES}

    def table(name: str) -> Recorded:
        with making[name]:
            if name not in tables:
                folder = tmp_path_factory.mktemp(name)
                write(hudi, folder / "table", TABLES[name])
                recorded = Recorded(folder / "table", folder)
                recorded.read_states(hudi.read, folder / "asked")
                tables[name] = recorded
        return tables[name]

    return table


@pytest.fixture(scope="session")
def outcomes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: Any, recorded: RecordedTables
) -> Iterator[Mapping[str, Future[Any]]]:
    """The outcomes of `ahead`."""
    yield from run_all(request.session.items, tmp_path_factory.mktemp, spark, recorded)


@pytest.fixture
def outcome(request: pytest.FixtureRequest, outcomes: Mapping[str, Future[Any]]) -> Any:
    """The result of the test's run; raises its error."""
    return outcomes[request.node.nodeid].result()
