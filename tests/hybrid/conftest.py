"""Fixtures of the hybrid suite; tests that need brokers or Java get their markers."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="session")
def streamer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The real HoodieStreamer of the session; its JVM starts with the first test that uses it."""
    from tests.hybrid.hoodie_streamer import running

    with running(tmp_path_factory.mktemp("streamer")) as peer:
        yield peer


@pytest.fixture(scope="session")
def penstock_sink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Spark with `penstock.spark.sink`; its JVM starts with the first test that uses it."""
    from tests.hybrid.penstock_sink import running

    with running(tmp_path_factory.mktemp("sink")) as peer:
        yield peer


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Adds markers by the fixtures of a test."""
    for item in items:
        if item.path.is_relative_to(HERE):
            names = getattr(item, "fixturenames", ())
            for fixture, mark in (("hudi", "interop"), ("kafka", "kafka"), ("spark", "spark")):
                if fixture in names:
                    item.add_marker(getattr(pytest.mark, mark))
