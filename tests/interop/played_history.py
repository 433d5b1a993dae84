"""Runs a history with one release of Hudi and keeps a copy of the table after each action.

Another release can then read the copies, so only one Hudi process runs at a time. `history_writer` calls Hudi;
`history_checker` compares the rows.
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
    """An action, and the table after it."""

    action: Action
    """The action of the history."""
    table: pathlib.Path
    """A copy of the table after the action."""
    started: str
    """Time at which the action began, as an instant."""
    instants: Instants
    """The instants that the action completed."""
    keys: dict[str, str]
    """Order key of each data instant of the active timeline, by requested time."""
    crashed: tuple[str, ...]
    """Requested times of crashed writes that are not rolled back yet."""
    restored: str
    """The savepoint that the action restored; empty for other actions."""
    changes: dict[str, pa.Table | str]
    """Change data of each instant as the writing release returns it, by requested time; or its error."""


@dataclass(frozen=True, slots=True)
class PlayedHistory:
    """The part of a history that Hudi could run."""

    history: History
    """The whole history."""
    steps: tuple[Step, ...]
    """The actions that succeeded."""
    failure: str
    """Hudi's error at the first action that failed; empty if all succeeded."""

    def forget(self) -> None:
        """Deletes the copies."""
        for step in self.steps:
            shutil.rmtree(step.table, ignore_errors=True)


def play(hudi: Any, folder: pathlib.Path, history: History) -> PlayedHistory:
    """Runs the history with Hudi, in a new folder."""
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
    return PlayedHistory(history, tuple(steps), failure)


def _steps(hudi: Any, table: pathlib.Path, history: History, writer: HistoryWriter) -> Iterator[Step]:
    for number, action in enumerate(history.actions, 1):
        started = now()
        instants = writer.carry_out(action)
        keys = {item[0]: item[1] or item[0] for item in hudi.instants(table) if item[2] in WRITES}
        copy = table.with_name(f"{table.name}-{number:02d}")
        shutil.copytree(table, copy, copy_function=shutil.copy2)
        asks_changes = history.shape.changes and history.shape.release == "0.15.0"
        changes = _changes(hudi, copy, instants, keys) if asks_changes else {}
        restored = writer.saved if isinstance(action, Restore) else ""
        yield Step(action, copy, started, instants, keys, writer.crashed(), restored, changes)


def _changes(hudi: Any, table: pathlib.Path, instants: Instants, keys: dict[str, str]) -> dict[str, pa.Table | str]:
    answers: dict[str, pa.Table | str] = {}
    for requested in (item[0] for item in instants if item[2] in WRITES):
        try:
            answers[requested] = hudi.changes(
                table, max((name for name in keys if name < requested), default="000"), requested
            )
        except RuntimeError as error:
            answers[requested] = str(error)
    return answers
