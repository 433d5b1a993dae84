"""Random histories written by releases of Hudi: after each action Penstock and Hudi 1.2.0 return the same rows.

The older releases write first, each in a separate process, and the test copies their tables after each action. Then one
process of 1.2.0 writes its own histories and returns the expected rows of all of them.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
from typing import Any

import pytest

from tests.interop.checked_histories import CHECKED_HISTORIES, CheckedHistory
from tests.interop.histories import history_of
from tests.interop.history_checker import HistoryChecker
from tests.interop.hudi_process import NEWEST, OLD, running
from tests.interop.played_history import PlayedHistory, play

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

SEEDS = (248,)
SEEDS_OF_LONG = (100, 120, 152, 241)
"""Also run to their end, like `SEEDS`, but only in `make long`."""
OLD_SEEDS = ((OLD, 26),)
LONG_SEEDS = 20
KEEP = os.environ.get("PENSTOCK_KEEP_MISMATCHES", "")
"""A folder for the tables of failed histories."""


def long_seeds() -> range:
    """Seeds from PENSTOCK_SEED on."""
    first = int(os.environ.get("PENSTOCK_SEED", "1000"))
    return range(first, first + LONG_SEEDS)


LONG_OLD_SEEDS = tuple((release, seed) for release in (OLD, "1.0.2") for seed in long_seeds())


@pytest.fixture(scope="session")
def played_by_old_releases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int], PlayedHistory]:
    """The histories that the older releases wrote for the selected tests, before the newest one starts."""
    chosen = dict.fromkeys(
        item.callspec.params["old"]
        for item in request.session.items
        if "played_by_old_releases" in getattr(item, "fixturenames", ())
    )
    played_histories = {}
    for release in dict.fromkeys(release for release, _ in chosen):
        folder = tmp_path_factory.mktemp(f"hudi-{release}")
        shared = contextlib.nullcontext(request.getfixturevalue("old_hudi")) if release == OLD else None
        with shared or running(release, folder) as writer:
            for name, seed in chosen:
                if name == release:
                    played_histories[release, seed] = play(writer, folder, history_of(seed, release))
    return played_histories


def check_history(hudi: Any, played_history: PlayedHistory, report: pytest.Config) -> HistoryChecker:
    """Compares a played history. AssertionError: the history and the differences. The report counts the comparisons."""
    history_checker = HistoryChecker(hudi, played_history, random.Random(played_history.history.seed))
    history_checker.run()
    report.stash.setdefault(CHECKED_HISTORIES, []).append(CheckedHistory.of(history_checker))
    if history_checker.problems and KEEP:
        folder = pathlib.Path(KEEP) / f"{played_history.history.shape.release}-{played_history.history.seed}"
        for step in played_history.steps:
            shutil.copytree(step.table, folder / step.table.name, dirs_exist_ok=True)
    assert not history_checker.problems, "\n".join([*history_checker.problems, played_history.history.text()])
    played_history.forget()
    return history_checker


@pytest.mark.long
@pytest.mark.parametrize("old", OLD_SEEDS)
def test_history_of_an_older_release_reads_as_hudi_reads_it(
    played_by_old_releases: dict[tuple[str, int], PlayedHistory],
    hudi: Any,
    old: tuple[str, int],
    pytestconfig: pytest.Config,
) -> None:
    """The older release runs the whole history; Penstock is compared with 1.2.0 in every query after every action."""
    history_checker = check_history(hudi, played_by_old_releases[old], pytestconfig)
    assert history_checker.done == len(history_checker.played_history.history.actions)
    assert history_checker.compared > 20


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [*SEEDS, *(pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS_OF_LONG)])
def test_history_reads_as_hudi_reads_it(
    hudi: Any, tmp_path: pathlib.Path, seed: int, pytestconfig: pytest.Config
) -> None:
    """Every query after every action; Hudi runs the whole history."""
    history_checker = check_history(hudi, play(hudi, tmp_path, history_of(seed, NEWEST)), pytestconfig)
    assert history_checker.done == len(history_checker.played_history.history.actions)
    assert history_checker.compared > 20


@pytest.mark.long
@pytest.mark.parametrize("old", LONG_OLD_SEEDS)
def test_many_histories_of_older_releases_read_as_hudi_reads_them(
    played_by_old_releases: dict[tuple[str, int], PlayedHistory],
    hudi: Any,
    old: tuple[str, int],
    pytestconfig: pytest.Config,
) -> None:
    """The same with random seeds; a history ends where the release fails."""
    check_history(hudi, played_by_old_releases[old], pytestconfig)


@pytest.mark.long
@pytest.mark.parametrize("seed", list(long_seeds()))
def test_many_histories_read_as_hudi_reads_them(
    hudi: Any, tmp_path: pathlib.Path, seed: int, pytestconfig: pytest.Config
) -> None:
    """The same with random seeds; a history ends where Hudi fails."""
    check_history(hudi, play(hudi, tmp_path, history_of(seed, NEWEST)), pytestconfig)
