"""A process that copies a table and is killed at a statement or step of the target. `test_sync_kills` starts it."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
from dataclasses import replace
from types import FrameType
from typing import Any

from penstock.engine.sync.feed import TableFeed
from penstock.engine.sync.job import SyncEntry, TargetUrl, parse_target
from penstock.engine.sync.sources import SourceTable
from penstock.engine.sync.table_sync import TableSync
from penstock.engine.sync.targets import duckdb as duckdb_target
from penstock.engine.sync.targets.duckdb import DuckDBTarget
from penstock.engine.sync.targets.open import open_target
from penstock.engine.sync.targets.target import StoredTable, Target, Write

OPTIONS = {"maxFilesPerTrigger": 1, "metadata": "off"}


class BesideTarget(DuckDBTarget):
    """A wrong target: it stores the position in a file after the transaction."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._file = pathlib.Path(f"{path}.position")

    def stored(self, table: str) -> StoredTable | None:
        """See `Target.stored`."""
        stored = super().stored(table)
        positions = json.loads(self._file.read_text()) if self._file.exists() else {}
        return replace(stored, positions=positions) if stored is not None and positions else None

    def write(self, write: Write) -> None:
        """See `Target.write`."""
        super().write(write)
        self._file.write_text(json.dumps({write.source: write.position}))

    def _check_position(self, cursor: Any, write: Write) -> None:
        pass


def source_of(table: str) -> SourceTable:
    """The table, as the source of the target's table `t`."""
    entry = SyncEntry(source=table, target=TargetUrl("duckdb", ""), options=OPTIONS)
    return SourceTable(entry=entry, name="t", table=table, target_table="t")


def copy(table: str, path: str, kill: tuple[str, int], beside: bool) -> None:
    """Copies until there is nothing new. The process kills itself before or after a statement, or after a commit:
    `kill` is one of these words and a number, 0: never."""
    (when, left), before = kill, duckdb_target._run

    def run(connection: Any, sql: str, values: Any = ()) -> Any:
        nonlocal left
        if when != "commit" or sql == "COMMIT":
            left -= 1
        is_here = left == 0 and (when != "commit" or sql == "COMMIT")
        if is_here and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        rows = before(connection, sql, values)
        if is_here:
            os.kill(os.getpid(), signal.SIGKILL)
        return rows

    duckdb_target._run = run
    _to_the_end(table, BesideTarget(path) if beside else DuckDBTarget(path))


def copy_by_steps(table: str, url: str, last: int) -> None:
    """Copies until there is nothing new, into any target. The process kills itself at the step of the target with this
    number: the call or return of a function of its modules; 0: never."""
    target, steps = open_target(parse_target("test", url)), 0

    def step(frame: FrameType, event: str, _: object) -> None:
        nonlocal steps
        if f"{os.sep}targets{os.sep}" in frame.f_code.co_filename:
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(step)
    _to_the_end(table, target)
    sys.setprofile(None)


def _to_the_end(table: str, target: Target) -> None:
    sync = TableSync(source_of(table), TableFeed(table, OPTIONS, {}), target)
    while sync.step() is not None:
        pass
    target.close()
