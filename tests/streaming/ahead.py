"""Runs the streams of tests before the tests, two at a time. One core stays free for the other stream, or for Hudi,
which writes the next table in the meantime.

Decides when a test's stream runs; the test defines the stream and checks its outcome.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from penstock.spark import register

AT_ONCE = 2
"""One stream alone does not use more than one core: its tasks, planner and driver wait for each other."""
MARK = "ahead"
"""`@pytest.mark.ahead(run=f)`: the test's fixture `outcome` is the result or exception of `f(spark, recorded, folder,
**parameters)`. `spark` is a separate session, with its own views and settings; `folder` is empty."""


def tests_ahead(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The tests of a run that use `outcome`, in their order."""
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
    register(session)  # two streams start at once
    session.conf.set("spark.sql.shuffle.partitions", "1")  # each partition adds the same cost to each micro-batch
    return run(session, recorded, folder, **item.callspec.params)
