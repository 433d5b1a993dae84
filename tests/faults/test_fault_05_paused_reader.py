"""Fault 5, with a clock of leases that the test advances: a reader is paused (SIGSTOP) with rows that it wrote and did
not commit, and is resumed when its lease is over. It is fenced by the server, although its own lease is not over by its
own clock, and no row is lost or doubled."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
from typing import Any, Literal

import pyarrow as pa
import pytest

from tests.faults.checks import fail
from tests.faults.deliveries import Deliveries
from tests.faults.local_server import DeliveringReader, LocalServer, local_server
from tests.faults.served import CASE
from tests.faults.test_fault_05_to_07_readers import read_line, reader_process

pytestmark = pytest.mark.golden
Next = Literal["other", "same id"]
"""Who gets the splits of the paused reader: another reader, or a new process under the same reader id."""
NEXT: tuple[Next, ...] = ("other", "same id")


def paused_beyond_its_lease(golden: Any, folder: pathlib.Path, following: Next) -> None:
    """The paused reader resumes when the next reader holds its splits and wrote their rows; CheckFailed."""
    deliveries = Deliveries(golden)
    with (
        local_server(golden.table(CASE)) as server,
        reader_process(server, "paused", folder / "reader.log") as process,
    ):
        server.create_group()
        server.discover()
        split_id, first, rows = held(read_line(process))
        deliveries.write(split_id, first, rows)
        pause(process)
        if following == "other":
            server.end_lease_of("paused")
        other = Resumes(server, "paused" if following == "same id" else "other", deliveries, process, split_id)
        while not (other.step() and server.is_finished()):
            server.discover()
        if other.answer == "committed":
            deliveries.committed("paused", split_id, first, first + rows.num_rows)
        elif not other.answer.startswith("FENCED "):
            fail("a stale commit is fenced", f"the paused reader got {other.answer!r}")
        deliveries.check()


class Resumes(DeliveringReader):
    """A reader that writes the rows of the paused reader's split, then resumes that one, which commits, then commits
    itself."""

    def __init__(
        self, server: LocalServer, reader_id: str, deliveries: Deliveries, paused: subprocess.Popen[str], split_id: str
    ) -> None:
        super().__init__(server.address, reader_id, deliveries)
        self._paused, self._split_id, self.answer = paused, split_id, ""

    def commit(self, consumed: Any) -> None:
        """See `DeliveringReader`."""
        if consumed.split_id == self._split_id and not self.answer:
            self._paused.send_signal(signal.SIGCONT)
            self.answer = read_line(self._paused, "go on")
        super().commit(consumed)


def held(line: str) -> tuple[str, int, pa.RecordBatch]:
    """The split, the first ordinal and the rows of a reader's line `holds`."""
    word, split_id, text = line.split(" ", 2)
    assert word == "holds", line
    held_rows = json.loads(text)
    return split_id, held_rows["first"], pa.RecordBatch.from_pylist(held_rows["rows"])


def pause(process: subprocess.Popen[str]) -> None:
    """Stops the process; returns when it is stopped."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


@pytest.mark.parametrize("following", NEXT)
def test_fault_05_reader_paused_beyond_its_lease_is_fenced(
    golden: Any, tmp_path: pathlib.Path, following: Next
) -> None:
    paused_beyond_its_lease(golden, tmp_path, following)
