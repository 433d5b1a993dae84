"""The tables and the server that the pages name, created once."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from tests.docs.doc_world import World
from tests.docs.doc_world import world as running_world


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """py4j and pyspark close their sockets when they are garbage-collected, not at the end of their use."""
    for item in items:
        if item.path.is_relative_to(pathlib.Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Tables, a server, certificates and tokens."""
    with running_world(tmp_path_factory.mktemp("world")) as tables_and_server:
        yield tables_and_server
