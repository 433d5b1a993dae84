"""The engines, the table of values, and a record of what reaches the plan."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.engine.adapters import source
from penstock.engine.read_tasks import ReadTask
from penstock.proto.model.reports import SplitReport
from penstock.proto.options.registry import ParsedOptions
from tests.engines.frames import Engine, engine_named
from tests.engines.reads import Reads
from tests.engines.written_table import write_values_table

ENGINES = ("polars", "polars-streaming", "duckdb", "daft")
"""The engines that run in the process of the test."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    return engine_named(request.param)


@pytest.fixture(scope="session")
def values_table(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The table of values; read-only."""
    return write_values_table(tmp_path_factory.mktemp("values") / "table")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    """The reads of the test."""
    recorded = Reads()
    for name in ("open_read", "open_reading"):
        monkeypatch.setattr(source, name, _recording(getattr(source, name), recorded))
    batches = ReadTask.batches

    def reported(task: ReadTask, limit: int | None = None, on_report: Any = None, **named: Any) -> Any:
        recorded.started.append(task.split_id)

        def report(finished: SplitReport) -> None:
            recorded.reports.append(finished)
            if on_report is not None:
                on_report(finished)

        return batches(task, limit, report, **named)

    monkeypatch.setattr(ReadTask, "batches", reported)
    yield recorded


def _recording(plan: Any, recorded: Reads) -> Any:
    def planned(table: str, options: ParsedOptions, *arguments: Any, **named: Any) -> Any:
        recorded.options.append(options)
        return plan(table, options, *arguments, **named)

    return planned
