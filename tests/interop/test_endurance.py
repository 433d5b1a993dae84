"""Streams, windows, a join of windows, a group and a hybrid reader run for hours beside a real writer with table
services: each sink has the rows of its source, and nothing grows.

Steady processes, which nobody kills, run beside a server, a driver, planners and readers that are killed. `make
endurance MINUTES=120` runs it for two hours and records the result.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hybrid.delivered import Delivered, appended
from tests.hybrid.lake_rounds import Kind, LakeFiller, WritePath
from tests.hybrid.topic_fold import append_problems
from tests.hybrid.topic_records import TopicProducer, make_topic, read_topic
from tests.interop.chaos_writer import waited
from tests.interop.endurance_harness import QUERIES, Steady, Writers
from tests.interop.endurance_series import MEASURED_S, WARM_S, Measurements
from tests.interop.endurance_sinks import batches, changes_sink, fold_sink, joined_sink, rows_sink, windows_sink
from tests.interop.soak_harness import QUERIES as KILLED_QUERIES
from tests.interop.soak_harness import Soak
from tests.interop.soak_samples import Samples
from tests.interop.soak_writer import SoakWriter
from tests.interop.test_soak import EXCUSES
from tests.long_record import add_to_record
from tests.progress import PROGRESS_S

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(4 * 3600)]

SECONDS = float(os.environ.get("PENSTOCK_ENDURANCE_SECONDS", "7200"))
SEED = int(os.environ.get("PENSTOCK_SEED", "20261123"))
IS_SHORT = SECONDS < WARM_S
STRIKES_S = (2.0, 10.0) if IS_SHORT else (30.0, 120.0)
"""The shortest and longest time between two kills."""
PAUSE_S = 0.5 if IS_SHORT else 5.0
"""From a write of both tables to the next: a machine that is always busy measures its own queues."""
EVERY = "1 second" if IS_SHORT else "5 seconds"
"""The interval of micro-batches."""
JUDGED = {
    *(("memory", name) for name in ("server", "driver", "driver JVM", "group reader", "hybrid reader")),
    *(("sockets", name) for name in ("server", "driver", "driver JVM", "group reader", "hybrid reader")),
    *(("checkpoint", query) for query in QUERIES),
    *(("latency", f"micro-batch of {query}") for query in QUERIES),
    *(("latency", f"commit to {name}") for name in ("rows", "group")),
    *(("state", query) for query in ("windows", "joined")),
    ("store", "server"),
    ("live heap", "driver JVM"),
    ("native memory", "Class"),
    ("freed memory", "driver JVM"),
    ("unexplained memory", "driver JVM"),
}
"""Series that a run of WARM_S + MEASURED_S has a verdict on, and more."""


class Killed(Soak):
    """The killed processes; attends to the steady ones, too."""

    steady: Steady

    def attend(self) -> None:
        super().attend()
        self.steady.attend()


@pytest.mark.long
def test_nothing_is_lost_and_nothing_grows(hudi: Any, kafka: Any, tmp_path: pathlib.Path) -> None:
    """Runs for PENSTOCK_ENDURANCE_SECONDS."""
    began, rng = time.monotonic(), random.Random(SEED)
    left, right = (
        SoakWriter(hudi, tmp_path / name, random.Random(rng.random()), logs_changes=False) for name in ("t", "u")
    )
    for writer in (left, right):
        writer.begin()
    steady = _steady(hudi, kafka, tmp_path, began, rng)
    (tmp_path / "killed").mkdir()
    killed = Killed(
        tmp_path / "t", tmp_path / "killed", rng, Samples(began), sample_every_s=5, strikes_s=STRIKES_S, every=EVERY
    )
    killed.steady = steady
    left.have_committed = lambda key: (
        steady.have_committed("t", key) and all(killed.committed(query) >= key for query in KILLED_QUERIES)
    )
    right.have_committed = lambda key: steady.have_committed("u", key)
    writers = Writers((left, right), PAUSE_S)
    try:
        steady.begin()
        killed.begin()
        writers.start()
        killed.run(SECONDS, kill_all_s=SECONDS)
        writers.stop()
        assert writers.failure is None, writers.failure
        for writer in (left, right):
            writer.close_windows()
        _end_topic(steady.producer)
        _catch_up(killed, left, right)
        killed.end()
        steady.end()
    finally:
        killed.abandon()
        steady.abandon()
    steady.measure_events()
    problems = [*steady.problems, *killed.problems, *_failures(killed), *_wrong_rows(killed, left, right)]
    note = _note(killed, (left, right))
    keep(note, steady.measured)
    assert not problems, "\n".join([note, *problems])
    growths = steady.measured.growths()
    judged = {(growth.kind, growth.name) for growth in growths}
    assert SECONDS < WARM_S + MEASURED_S + 120 or judged >= JUDGED, f"{note}\nno verdict: {sorted(JUDGED - judged)}"
    assert all(growth.is_flat for growth in growths), note


def _steady(hudi: Any, kafka: Any, folder: pathlib.Path, began: float, rng: random.Random) -> Steady:
    """A table whose topic goes on after its hand-over, and the steady processes."""
    topic, drawn = f"endurance-{SEED}", random.Random(rng.random())
    make_topic(kafka.bootstrap, topic)
    producer = TopicProducer(kafka.bootstrap, topic, random.Random(rng.random()), deletes=False)
    producer.begin(200)
    (folder / "lake").mkdir()
    filler = LakeFiller(
        hudi, folder / "lake", kafka.bootstrap, topic, drawn, kind=Kind.APPEND, write_path=WritePath.STREAMER
    )
    filler.begin(1)
    return Steady(
        tables={"t": folder / "t", "u": folder / "u", "h": filler.table},
        topic=topic,
        bootstrap=kafka.bootstrap,
        producer=producer,
        folder=folder / "steady",
        rng=rng,
        measured=Measurements(),
        began=began,
        sample_every_s=5,
        every=EVERY,
    )


def _end_topic(producer: TopicProducer) -> None:
    """Sends the last record of each partition."""
    producer.request_stop()
    producer.run()
    assert producer.failure is None, producer.failure


def _catch_up(killed: Killed, left: SoakWriter, right: SoakWriter) -> None:
    """Waits until every reader has committed the last commit, and every window that ended is written."""
    steady = killed.steady
    across, ended = Delivered(steady.folder / "hybrid" / "out"), len(left.windows()) - 1

    def is_there() -> bool:
        Soak.attend(killed)
        steady.attend(works=False)
        across.refresh()
        return (
            all(writer.have_committed(writer.commits[-1].order_key) for writer in (left, right))
            and steady.producer.closing <= across.numbers()
            and all(
                len(list(batches(folder / "out" / "windows"))) >= ended for folder in (steady.folder, killed.folder)
            )
        )

    waited(is_there, PROGRESS_S, "the last commits and records in every sink")


def _failures(killed: Killed) -> Iterator[str]:
    """A steady stream never fails; others only for an excuse. No row was dropped as late."""
    yield from (f"steady stream failed: {event}" for event in killed.steady.events("failed"))
    for event in killed.events("failed"):
        if not EXCUSES.search(event["text"]):
            yield f"killed stream failed: {event}"
    for event in [*killed.events("progress"), *killed.steady.events("progress")]:
        if event["dropped"]:
            yield f"rows were dropped as late: {event}"
    for state in (killed.folder / "state", killed.steady.folder / "state"):
        command = [sys.executable, "-m", "penstock", "state", "check", str(state)]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=600)
        if checked.returncode:
            yield f"state check: {checked.stdout}{checked.stderr}"


def _wrong_rows(killed: Killed, left: SoakWriter, right: SoakWriter) -> Iterator[str]:
    """Compares each sink with its source."""
    steady = killed.steady
    out = {name: list(batches(steady.folder / "out" / name)) for name in QUERIES}
    group, across = Delivered(steady.folder / "group" / "out"), Delivered(steady.folder / "hybrid" / "out")
    group.refresh()
    across.refresh()
    of_group = list(group.of_splits())
    of_killed = {name: list(batches(killed.folder / "out" / name)) for name in KILLED_QUERIES}
    for sink in (
        rows_sink("rows", out["rows"], left),
        changes_sink("changes", out["changes"], left),
        fold_sink("changes", out["changes"], left),
        windows_sink("windows", out["windows"], left),
        joined_sink("joined", out["joined"], left, right),
        changes_sink("group", of_group, left),
        fold_sink("group", of_group, left),
        changes_sink("killed changes", of_killed["changes"], left),
        fold_sink("killed changes", of_killed["changes"], left),
        windows_sink("killed windows", of_killed["windows"], left),
    ):
        yield from sink.problems()
    records = read_topic(steady.bootstrap, steady.topic)
    yield from (f"hybrid: {text}" for text in append_problems(appended(across.of_splits()), records))


def _note(killed: Killed, writers: tuple[SoakWriter, SoakWriter]) -> str:
    """A report of the run, in lines."""
    steady, left = killed.steady, writers[0]
    commits = ", ".join(f"{len(writer.commits)} commits {dict(writer.services)}" for writer in writers)
    return "\n".join(
        [
            f"endurance: seed {SEED}, {SECONDS:.0f} s, {commits}, {sum(left.changes().values())} changes, "
            f"{len(left.windows())} windows, {dict(killed.happened + steady.happened)}, killed streams failed "
            f"{len(killed.events('failed'))} times",
            *map(str, steady.measured.growths() or steady.measured.growths(30.0, 30.0)),
        ]
    )


def keep(note: str, measured: Measurements) -> None:
    """Prints on stdout and in the record of `make long`; writes the series if PENSTOCK_KEPT is set."""
    print(note, flush=True)
    add_to_record(note)
    if target := os.environ.get("PENSTOCK_KEPT"):
        measured.write(pathlib.Path(target) / "series.csv")
