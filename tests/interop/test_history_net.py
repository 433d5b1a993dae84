"""The checks of the histories detect errors: a planted refusal is a problem, documented refusals are counted, and all
options are drawn.

Runs without Hudi: a golden table replaces a table that Hudi reads.
"""

from __future__ import annotations

import pathlib
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.proto.errors import PositionExpired, SchemaMismatch, UnsupportedFeature
from penstock.reader.base import columns
from tests.interop.checked_histories import OPERATIONS, CheckedHistory, coverage, lines, met
from tests.interop.histories import history_of
from tests.interop.history_actions import Write
from tests.interop.history_checker import HistoryChecker
from tests.interop.history_options import VALUES, Options
from tests.interop.played_history import PlayedHistory

SEMANTICS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "reference" / "semantics.md"
CASE = "A_types_v9_h120"


def witness_of(table: pathlib.Path) -> HistoryChecker:
    """A checker of a table that no history wrote."""
    history = history_of(1)
    history = replace(history, shape=replace(history.shape, options=Options()))
    history_checker = HistoryChecker(None, PlayedHistory(history, (), ""), random.Random(0))
    history_checker.table, history_checker.has_clean = table, True
    return history_checker


@pytest.fixture
def table(golden: Any) -> pathlib.Path:
    path: pathlib.Path = golden.table(CASE)
    return path


def test_planted_refusal_of_a_column_type_is_a_problem(table: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = penstock.read(str(table)).read_all()
    history_checker = witness_of(table)
    history_checker.compare("snapshot", {}, rows)
    assert not history_checker.problems
    monkeypatch.delitem(columns._PLAIN, pa.float64())  # type: ignore[attr-defined]
    monkeypatch.setattr(columns, "_last_match", None)
    history_checker.compare("snapshot", {}, rows, may_expire=True)
    assert len(history_checker.problems) == 1
    assert "SchemaMismatch" in history_checker.problems[0]
    assert "Hudi neither makes this change nor reads it" in history_checker.problems[0]


@pytest.mark.parametrize("error", [SchemaMismatch("Hudi does not read it"), UnsupportedFeature("archived timeline")])
def test_refusal_is_a_problem(table: pathlib.Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(HistoryChecker, "read_table", refuse)
    history_checker = witness_of(table)
    history_checker.compare("range", {"query": "incremental"}, None, may_expire=True)
    assert len(history_checker.problems) == 1


def test_only_expired_positions_may_expire(table: pathlib.Path) -> None:
    history_checker = witness_of(table)
    history_checker.failed("range", PositionExpired("cleaned"), may_expire=True)
    assert not history_checker.problems
    history_checker.failed("range", PositionExpired("cleaned"))
    history_checker.has_clean = False
    history_checker.failed("range", PositionExpired("cleaned"), may_expire=True)
    assert len(history_checker.problems) == 2


def test_every_option_value_is_drawn() -> None:
    """Few seeds draw all of them, so that one run of `make long` uses most."""
    drawn: dict[str, set[object]] = {name: set() for name in VALUES}
    for seed in range(400):
        options = history_of(seed, length=1).shape.options
        for name, values in drawn.items():
            value = getattr(options, name)
            values.update(value if name == "columns" else [value])
    assert drawn == {name: set(values) for name, values in VALUES.items()}
    assert history_of(7) == history_of(7)


def test_coverage_lists_tested_and_untested_options() -> None:
    history = history_of(1)
    checked_histories = CheckedHistory("1.2.0", 9, 2, 5, False, (), met(history.shape, history.actions[:2]))
    first = history.actions[0]
    assert isinstance(first, Write)
    header, *rows = coverage([checked_histories])
    by_name = {row.split()[2]: dict(zip(OPERATIONS, row.split()[3:], strict=True)) for row in rows}
    assert int(by_name[f"version={history.shape.version}"][first.operation]) >= 1
    assert set(by_name["log_blocks=hfile"].values()) == {"-"}
    assert len(header.split()) == len(OPERATIONS) + 2
    assert not any("coverage" in line for line in lines([]))
    assert sum(Counter(checked_histories.met).values()) > 0


def test_operations_are_all_known() -> None:
    operations = {
        action.operation if isinstance(action, Write) else type(action).__name__
        for seed in range(300)
        for action in history_of(seed).actions
    }
    assert operations == set(OPERATIONS)
