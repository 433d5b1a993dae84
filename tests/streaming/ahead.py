"""Runs the streams of tests before their turn, two at a time: each of them leaves a core to the other, or to Hudi,
which writes the next table meanwhile.

Belongs here: when a test's stream runs. Not here: what it is, and whether it did what it should: that is the test.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

AT_ONCE = 2
"""A stream alone is busy on one core: its tasks, planner and driver wait for each other."""
MARK = "ahead"
"""`@pytest.mark.ahead(run=f)`: the test's fixture `outcome` is what `f(spark, recorded, folder, **parameters)` returns
or raises; `spark` is a session of its own, with its own views and settings; `folder` is there, and empty."""


def tests_ahead(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests of a run that take an `outcome`, in their order."""
    return [item for item in items if "outcome" in getattr(item, "fixturenames", ())]


def run_all(
    items: Sequence[pytest.Item], folder: Callable[[str], pathlib.Path], spark: Any, recorded: Any
) -> Iterator[dict[str, Future[Any]]]:
    """The outcomes by the tests' ids."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ahead") as pool:
        created = {
            item.nodeid: pool.submit(_run, item, folder("ahead"), spark, recorded) for item in tests_ahead(items)
        }
        try:
            yield created
        finally:
            pool.shutdown(cancel_futures=True)


def _run(item: Any, folder: pathlib.Path, spark: Any, recorded: Any) -> Any:
    run = item.get_closest_marker(MARK).kwargs["run"]
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")  # each partition costs each micro-batch as much
    return run(session, recorded, folder, **item.callspec.params)
