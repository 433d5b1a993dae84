"""Recorded tables for the suite, each written by real Hudi once, when a test asks for it."""

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
    """What asks for a session of Spark, or for tables of real Hudi, is marked so."""
    for item in items:
        if item.path.is_relative_to(pathlib.Path(__file__).parent):
            names = getattr(item, "fixturenames", ())
            # py4j and pyspark close their sockets when they are collected, not when they are done: in any test.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            if "spark" in names:
                item.add_marker(pytest.mark.spark)
            if "hudi" in names or "recorded" in names:
                item.add_marker(pytest.mark.interop)


@pytest.fixture(autouse=True)
def one_partition(request: pytest.FixtureRequest) -> Iterator[None]:
    """Of small state: each partition costs each micro-batch as much."""
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
    """A recorded table by its name in `written.TABLES`, for any thread."""
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
    """What `ahead` runs."""
    yield from run_all(request.session.items, tmp_path_factory.mktemp, spark, recorded)


@pytest.fixture
def outcome(request: pytest.FixtureRequest, outcomes: Mapping[str, Future[Any]]) -> Any:
    """What the test's run returned; its error is the test's."""
    return outcomes[request.node.nodeid].result()
