"""Hours in the life of two tables: Penstock and now and then Hudi write them, table services run beside the writes and
are killed, and readers, consumer groups and Hudi read them. Every answer is that of a model, and nothing grows.

`make life MINUTES=120` runs it for two hours and records the result.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

from tests.hybrid.delivered import Delivered
from tests.interop.chaos_writer import waited
from tests.interop.endurance_harness import measure_process
from tests.interop.endurance_series import MEASURED_S, WARM_S, Growth, Measurements
from tests.interop.endurance_sinks import changes_sink, fold_sink
from tests.interop.life_model import TableModel
from tests.interop.life_peers import LifePeer, Services
from tests.interop.life_readers import LifeReaders
from tests.interop.table_life import Kind, Peers, TableLife
from tests.interop.test_endurance import keep
from tests.progress import PROGRESS_S

pytestmark = [pytest.mark.interop, pytest.mark.timeout(4 * 3600)]

SECONDS = float(os.environ.get("PENSTOCK_LIFE_SECONDS", "7200"))
SEED = int(os.environ.get("PENSTOCK_SEED", "20261126"))
IS_SHORT = SECONDS < WARM_S
KINDS = (Kind("mor", "merge_on_read", 9), Kind("cow", "copy_on_write", 6))
PAUSE_S = 0.2 if IS_SHORT else 12.0
"""Between two writes of a table."""
SERVICES_S = 1.5 if IS_SHORT else 35.0
"""Between two runs of the services of all tables."""
STRIKES_S = (2.0, 10.0) if IS_SHORT else (30.0, 120.0)
"""The shortest and longest time between two kills of a group reader."""
SIZES_S = 15.0
AHEAD = 6
"""The most commits between the writer and the slowest group: the clean retains more."""
HUDI_READS = 4 if IS_SHORT else 20
"""Turns from a snapshot of Hudi to the next. Hudi writes at every second one."""
STEADY = ("server", "writer", "reader", "services", *(f"group reader of {kind.name}" for kind in KINDS))
JUDGED = {
    *(("memory", name) for name in STEADY),
    *(("sockets", name) for name in STEADY),
    *((series, kind.name) for kind in KINDS for series in ("data files", "active instants", "other files")),
    *(
        ("processor time", f"{request} of {kind.name}")
        for kind in KINDS
        for request in ("write", "snapshot", "range", "longer range", "older state", "maintain")
    ),
    ("store", "server"),
}
"""Series that a run of WARM_S + MEASURED_S has a verdict on, and more."""


class Life:
    """The tables, the readers of groups, and the measurements."""

    def __init__(self, hudi: Any, folder: pathlib.Path) -> None:
        self.began, self.measured = time.monotonic(), Measurements()
        rng = random.Random(SEED)
        draws = [random.Random(rng.random()) for _ in range(3 * len(KINDS))]
        self.peers = Peers(*(LifePeer(folder / name) for name in ("writer", "reader", "services")), hudi)
        for peer in (self.peers.writer, self.peers.reader, self.peers.services):
            peer.started()
        self.tables = [
            TableLife(
                kind,
                folder / kind.name,
                self.peers,
                TableModel(draws[3 * n]),
                *draws[3 * n + 1 : 3 * n + 3],
                self._measure(kind),
            )
            for n, kind in enumerate(KINDS)
        ]
        self.readers = LifeReaders({table.kind.name: table.path for table in self.tables}, folder / "readers", rng)
        self.services = Services(self._serve, SERVICES_S)
        self._sizes_at = 0.0

    def run(self) -> None:
        """Lives for SECONDS, then lets every reader catch up."""
        for table in self.tables:
            table.begin()
        self.readers.begin()
        self.services.start()
        number = 0
        while time.monotonic() < self.began + SECONDS:
            number += 1
            for table in self.tables:
                waited(lambda table=table: self._may_write(table), PROGRESS_S, "the group near the newest commit")
                reads = number % HUDI_READS == 0
                table.turn(hudi_writes=number % (2 * HUDI_READS) == 0, hudi_reads=reads)
            self._pause()
        self.services.stop()
        assert self.services.failure is None, self.services.failure
        waited(self._have_caught_up, PROGRESS_S, "the last commit in every group")
        self.readers.end()
        for table in self.tables:
            table.end()
        self.peers.stop()

    def problems(self, folder: pathlib.Path) -> list[str]:
        """Everything that is wrong."""
        problems = [*self.readers.problems]
        for table in self.tables:
            problems += table.problems
            delivered = Delivered(self.readers.out(table.kind.name))
            delivered.refresh()
            rows = list(delivered.of_splits())
            for sink in (changes_sink, fold_sink):
                problems += sink(f"group of {table.kind.name}", rows, table.model).problems()
        command = [sys.executable, "-m", "penstock", "state", "check", str(folder / "readers" / "state")]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=600)
        return [*problems, *([f"state check: {checked.stdout}{checked.stderr}"] if checked.returncode else [])]

    def note(self, growths: list[Growth]) -> str:
        """A report of the run, in lines."""
        lived_s = time.monotonic() - self.began
        return "\n".join(
            [
                f"life of tables: seed {SEED}, {SECONDS:.0f} s of writes, {lived_s:.0f} s in all, "
                f"{dict(self.readers.happened)}, {sum(len(table.problems) for table in self.tables)} wrong answers",
                *(table.note() for table in self.tables),
                *map(str, growths or self.measured.growths(10.0, 10.0)),
            ]
        )

    def _may_write(self, table: TableLife) -> bool:
        self._attend()
        commits = table.model.commits
        return len(commits) < AHEAD or self.readers.have_committed(table.kind.name, commits[-AHEAD].order_key)

    def _have_caught_up(self) -> bool:
        self.readers.attend(None)
        return all(
            self.readers.have_committed(table.kind.name, table.model.commits[-1].order_key) for table in self.tables
        )

    def _pause(self) -> None:
        until = time.monotonic() + PAUSE_S
        while (now := time.monotonic()) < until:
            self._attend()
            time.sleep(min(0.5, max(0.0, until - now)))

    def _attend(self) -> None:
        assert self.services.failure is None, self.services.failure
        for table in self.tables:
            assert not table.problems, "\n".join(table.problems[:20])
        self.readers.attend(STRIKES_S)
        at_s = time.monotonic() - self.began
        if at_s < self._sizes_at:
            return
        self._sizes_at = at_s + SIZES_S
        self.readers.measure(self.measured, at_s)
        for name, peer in (
            ("writer", self.peers.writer),
            ("reader", self.peers.reader),
            ("services", self.peers.services),
        ):
            with contextlib.suppress(psutil.Error):
                measure_process(self.measured, name, psutil.Process(peer.pid), at_s)
        for table in self.tables:
            for kind, number in table.sizes():
                self.measured.add(kind, table.kind.name, at_s, number)

    def _serve(self) -> None:
        for table in self.tables:
            table.serve()

    def _measure(self, kind: Kind) -> Callable[[str, float], None]:
        return lambda request, cpu_s: self.measured.add(
            "processor time", f"{request} of {kind.name}", time.monotonic() - self.began, cpu_s
        )


@pytest.mark.long
def test_every_answer_is_right_and_nothing_grows(hudi: Any, tmp_path: pathlib.Path) -> None:
    """Runs for PENSTOCK_LIFE_SECONDS."""
    life = Life(hudi, tmp_path)
    try:
        life.run()
        problems = life.problems(tmp_path)
    finally:
        life.readers.abandon()
        growths = life.measured.growths()
        note = life.note(growths)
        keep(note, life.measured)
    assert not problems, "\n".join([note, *problems[:50]])
    judged = {(growth.kind, growth.name) for growth in growths}
    assert SECONDS < WARM_S + MEASURED_S + 120 or judged >= JUDGED, f"{note}\nno verdict: {sorted(JUDGED - judged)}"
    assert all(growth.is_flat for growth in growths), note
