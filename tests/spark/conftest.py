"""Marks tests that need Java; a server in this process; rows compared as multisets."""

from __future__ import annotations

import datetime as dt
import decimal
import logging
import pathlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.enumerator.server.run import RunningServer, serve

COMPARED_TABLES = {
    "v9": "A_fuzz_event_long_s1_v9_h120",
    "v6": "B_v6_inc_mor",
}
"""Merge-on-read tables of several file groups, with log files and deletes."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Every test below this folder needs Java."""
    for item in items:
        if item.path.is_relative_to(pathlib.Path(__file__).parent):
            item.add_marker(pytest.mark.spark)
            # py4j and pyspark close their sockets when they are collected
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


class EnumeratorLog(logging.Handler):
    """The lines of the logger `penstock.enumerator`, parsed."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Stores the line."""
        self.lines.append(record.getMessage())

    def events(self, what: str) -> list[dict[str, str]]:
        """The fields of every such event, in order."""
        return [
            dict(re.findall(r"(\w+)=(\S+)", line.removeprefix(what))) for line in self.lines if line.startswith(what)
        ]


@pytest.fixture
def enumerator_log() -> Iterator[EnumeratorLog]:
    """The log of this process's servers during the test."""
    handler, logger = EnumeratorLog(), logging.getLogger("penstock.enumerator")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.fixture(scope="session")
def server(golden: Any) -> Iterator[RunningServer]:
    """A server in this process with the compared tables, named by their case."""
    tables = {case: str(golden.table(case)) for case in COMPARED_TABLES.values()}
    with serve(tables, "127.0.0.1:0", poll_interval_ms=200) as running:
        yield running


@dataclass(frozen=True)
class Source:
    """A golden table in one of the two deployments: `read()` is a new load."""

    case: str
    target: str
    options: dict[str, str]
    spark: SparkSession

    def read(self, **options: str) -> DataFrame:
        """A new load() of the table."""
        return self.spark.read.format("penstock").options(**{**self.options, **options}).load(self.target)


@pytest.fixture(params=["embedded", "server"])
def deployment(request: pytest.FixtureRequest) -> str:
    """The deployment of the enumerator."""
    return str(request.param)


def make_source(request: pytest.FixtureRequest, version: str, deployment: str) -> Source:
    """The compared table of a version in a deployment."""
    case = COMPARED_TABLES[version]
    spark: SparkSession = request.getfixturevalue("spark")
    if deployment == "embedded":
        return Source(case, str(request.getfixturevalue("golden").table(case)), {}, spark)
    running: RunningServer = request.getfixturevalue("server")
    return Source(case, case, {"server": running.address, "slots": "3"}, spark)


@pytest.fixture(params=list(COMPARED_TABLES))
def source(request: pytest.FixtureRequest, deployment: str) -> Source:
    """Each compared table in each deployment."""
    return make_source(request, request.param, deployment)


@pytest.fixture(params=[("v9", "server"), ("v6", "embedded")], ids="-".join)
def either(request: pytest.FixtureRequest) -> Source:
    """Each compared table and each deployment once, for tests that depend on neither."""
    return make_source(request, *request.param)


@pytest.fixture
def connect(connect_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[SparkSession]:
    """A new session of Spark Connect. PySpark's functions create the expressions of Connect during the test, as in a
    program that has no other session."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
    session: Any = ConnectSession.builder.remote(connect_url).create()
    yield session
    session.stop()


@pytest.fixture(params=["classic", "connect"])
def session(request: pytest.FixtureRequest) -> Iterator[SparkSession]:
    """A session of each kind. Its temporary views and its tables in the current database are dropped at the end."""
    kind: SparkSession = request.getfixturevalue("spark" if request.param == "classic" else "connect")
    yield kind
    for table in kind.catalog.listTables():
        kind.sql(f"DROP {'VIEW' if table.isTemporary else 'TABLE'} `{table.name}`")


Rows = Counter[tuple[tuple[str, object], ...]]


@pytest.fixture(scope="session")
def rows_of() -> Callable[[DataFrame | pa.Table], Rows]:
    """Rows as a multiset, by column name."""
    return counted_rows


def counted_rows(data: DataFrame | pa.Table) -> Rows:
    """Rows as a multiset, by column name."""
    table = data if isinstance(data, pa.Table) else data.toArrow()
    return Counter(tuple(sorted((name, _plain(value)) for name, value in row.items())) for row in table.to_pylist())


def _plain(value: Any) -> object:
    match value:
        case dt.datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return aware.astimezone(dt.UTC).isoformat()
        case decimal.Decimal():
            return value.normalize()
        case dict():
            return tuple((name, _plain(item)) for name, item in value.items())
        case list() | tuple():
            return tuple(_plain(item) for item in value)
        case float() if value != value:
            return "NaN"
        case _:
            return value
