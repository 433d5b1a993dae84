"""A consumer group over a table that gains columns: each batch has the columns of its round."""

from __future__ import annotations

import pathlib
import threading
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.consumer import Consumer
from penstock.engine.group.lease import Runtime
from penstock.enumerator.service import EnumeratorService

pytestmark = pytest.mark.golden

CASE = "A_evo_add_column_v9_h120"
"""Its second commit adds a field, later ones add columns."""


class Beatless:
    """A heartbeat without a thread, because the clock of the test does not advance."""

    def stop(self) -> None:
        """Does nothing."""


class Served:
    """A service in this process; a waiting reader lets it discover splits."""

    def __init__(self, path: pathlib.Path) -> None:
        self.now_ms = 1_000
        self.service = EnumeratorService({"t": str(path)}, clock_ms=lambda: self.now_ms, poll_ms=None)

    def wait(self, woken: threading.Event, seconds: float) -> None:
        self.now_ms += 5_000
        self.service.split_discovery.discover()

    def consumed(self, **more: Any) -> list[pa.RecordBatch]:
        """Joins, polls and commits all available batches, and leaves."""
        runtime = Runtime(now_ms=lambda: self.now_ms, wait=self.wait, start_heartbeat=lambda beat, first: Beatless())
        batches = []
        with Consumer(
            None, "t", group="g", reader_id="r", enumerator=self.service, runtime=runtime, **more
        ) as consumer:
            for _ in range(4):
                while (consumed := consumer.poll(0)) is not None:
                    batches.append(consumed.batch)
                    consumer.commit(consumed)
                self.wait(threading.Event(), 0)
        return batches


def test_batches_gain_the_columns_of_the_table(golden: Any, tmp_path: pathlib.Path) -> None:
    """The reader joins again after the columns appeared: no row is lost or repeated, and Hudi's rows are the last ones
    of each key."""
    table, aside = golden.copy(CASE, tmp_path), tmp_path / "aside"
    aside.mkdir()
    timeline = table / ".hoodie" / "timeline"
    _, *later = sorted(timeline.glob("*.deltacommit"))
    for file in later:
        file.rename(aside / file.name)
    served = Served(table)
    options = {"metadata": "off", "completion_time": "on", "timeline_timezone": "UTC"}
    first = served.consumed(**options)
    assert sum(batch.num_rows for batch in first) == 10
    assert all("n1" not in batch.schema.names for batch in first)
    for file in aside.iterdir():
        file.rename(timeline / file.name)
    second = served.consumed(**options)
    assert second and all({"n1", "n2"} < set(batch.schema.names) for batch in second)
    assert all(batch.schema.names[-1] == "_completion_time" for batch in [*first, *second])
    assert all(not batch["_completion_time"].null_count for batch in [*first, *second])
    state = {row["id"]: row for batch in [*first, *second] for row in batch.to_pylist()}
    expected = {row["id"]: row for row in golden.expected(CASE, "snapshot").to_pylist()}
    assert state.keys() == expected.keys()
    for key, row in expected.items():
        assert state[key].get("n1") == row["n1"]
        assert state[key]["v"] == row["v"]
        assert state[key]["_hoodie_commit_time"] == row["_hoodie_commit_time"]
