"""A history as a release of Hudi carries it out: the table as it was after each action, kept aside.

So another release can say afterwards what the rows were, with one process at a time. Belongs here: what is noted of an
action. Not here: how Hudi is told (`history_writer`), what is compared (`witness`).
"""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.interop.history_actions import Action, History, Restore
from tests.interop.history_writer import WRITES, HistoryWriter, Instants, now


@dataclass(frozen=True, slots=True)
class Step:
    """An action, and the table after it.

    `started`: when it began; `made`: the instants that it completed; `keys`: the order key of each data instant of the
    active timeline, by requested time; `crashed`: the requested times of writes that died and are not rolled back
    yet; `restored`: the savepoint that was gone back to. `changes`: what the writing release gives as an instant's
    change data, by requested time, or its error.
    """

    action: Action
    table: pathlib.Path
    started: str
    made: Instants
    keys: dict[str, str]
    crashed: tuple[str, ...]
    restored: str
    changes: dict[str, pa.Table | str]


@dataclass(frozen=True, slots=True)
class Tale:
    """As much of a history as Hudi could carry out; `failure` is Hudi's own word for why it went no further."""

    history: History
    steps: tuple[Step, ...]
    failure: str

    def forget(self) -> None:
        """Deletes the copies."""
        for step in self.steps:
            shutil.rmtree(step.table, ignore_errors=True)


def tell(hudi: Any, folder: pathlib.Path, history: History) -> Tale:
    """Has Hudi carry the history out, in a folder of its own."""
    table = folder / f"history-{history.seed}"
    writer = HistoryWriter(hudi, table, history.shape)
    steps: list[Step] = []
    try:
        with hudi.by_rows(history.shape.options.is_read_by_rows):
            for step in _steps(hudi, table, history, writer):
                steps.append(step)
        failure = ""
    except RuntimeError as error:
        failed = history.actions[len(steps)]
        causes = [line for line in str(error).splitlines() if line.startswith(("Caused by", "pyspark", ": "))]
        cause = (causes or str(error).splitlines() or [""])[-1]
        failure = f"action {len(steps) + 1} ({type(failed).__name__}): {cause}"
    shutil.rmtree(table, ignore_errors=True)
    return Tale(history, tuple(steps), failure)


def _steps(hudi: Any, table: pathlib.Path, history: History, writer: HistoryWriter) -> Iterator[Step]:
    for number, action in enumerate(history.actions, 1):
        started = now()
        made = writer.carry_out(action)
        keys = {item[0]: item[1] or item[0] for item in hudi.instants(table) if item[2] in WRITES}
        copy = table.with_name(f"{table.name}-{number:02d}")
        shutil.copytree(table, copy, copy_function=shutil.copy2)
        asks = history.shape.changes and history.shape.release == "0.15.0"
        changes = _changes(hudi, copy, made, keys) if asks else {}
        restored = writer.saved if isinstance(action, Restore) else ""
        yield Step(action, copy, started, made, keys, writer.crashed(), restored, changes)


def _changes(hudi: Any, table: pathlib.Path, made: Instants, keys: dict[str, str]) -> dict[str, pa.Table | str]:
    answers: dict[str, pa.Table | str] = {}
    for requested in (item[0] for item in made if item[2] in WRITES):
        try:
            answers[requested] = hudi.changes(
                table, max((name for name in keys if name < requested), default="000"), requested
            )
        except RuntimeError as error:
            answers[requested] = str(error)
    return answers
