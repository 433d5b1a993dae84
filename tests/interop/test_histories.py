"""Random histories: releases of real Hudi write them; after each action Penstock and Hudi 1.2.0's reader answer alike.

The older releases write first, each in a process of its own, and their tables are kept as they were after each action;
then one process of 1.2.0 writes its own histories and says of all of them what the rows are.
"""

from __future__ import annotations

import os
import pathlib
import random
import shutil
from typing import Any

import pytest

from tests.interop.histories import history_of
from tests.interop.hudi_process import NEWEST, running
from tests.interop.judged import JUDGED, Judged
from tests.interop.tale import Tale, tell
from tests.interop.witness import Witness

pytestmark = [pytest.mark.interop, pytest.mark.timeout(3600)]

SEEDS = (100, 120, 152, 241, 248)
OLD_SEEDS = (("0.15.0", 26), ("0.15.0", 59))
LONG_SEEDS = 20
KEEP = os.environ.get("PENSTOCK_KEEP_MISMATCHES", "")
"""A folder in which the tables of a history that failed are kept."""


def long_seeds() -> range:
    """Seeds from PENSTOCK_SEED on."""
    first = int(os.environ.get("PENSTOCK_SEED", "1000"))
    return range(first, first + LONG_SEEDS)


LONG_OLD_SEEDS = tuple((release, seed) for release in ("0.15.0", "1.0.2") for seed in long_seeds())


@pytest.fixture(scope="session")
def told_by_old_releases(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, int], Tale]:
    """What the older releases wrote for the chosen tests, written before the newest one starts."""
    chosen = dict.fromkeys(
        item.callspec.params["old"]
        for item in request.session.items
        if "told_by_old_releases" in getattr(item, "fixturenames", ())
    )
    tales = {}
    for release in dict.fromkeys(release for release, _ in chosen):
        folder = tmp_path_factory.mktemp(f"hudi-{release}")
        with running(release, folder) as writer:
            for name, seed in chosen:
                if name == release:
                    tales[release, seed] = tell(writer, folder, history_of(seed, release))
    return tales


def judge(hudi: Any, tale: Tale, report: pytest.Config) -> Witness:
    """Reads a told history; fails with the history and what differed. What was compared goes into the report."""
    witness = Witness(hudi, tale, random.Random(tale.history.seed))
    witness.run()
    report.stash.setdefault(JUDGED, []).append(Judged.of(witness))
    if witness.problems and KEEP:
        kept = pathlib.Path(KEEP) / f"{tale.history.shape.release}-{tale.history.seed}"
        for step in tale.steps:
            shutil.copytree(step.table, kept / step.table.name, dirs_exist_ok=True)
    assert not witness.problems, "\n".join([*witness.problems, tale.history.text()])
    tale.forget()
    return witness


@pytest.mark.parametrize("old", OLD_SEEDS)
def test_a_history_of_an_older_release_reads_as_hudi_reads_it(
    told_by_old_releases: dict[tuple[str, int], Tale], hudi: Any, old: tuple[str, int], pytestconfig: pytest.Config
) -> None:
    """The older release carries the whole history out; 1.2.0 answers every query after every action."""
    witness = judge(hudi, told_by_old_releases[old], pytestconfig)
    assert witness.done == len(witness.tale.history.actions)
    assert witness.compared > 20


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_reads_as_hudi_reads_it(
    hudi: Any, tmp_path: pathlib.Path, seed: int, pytestconfig: pytest.Config
) -> None:
    """Every query after every action; Hudi carries the whole history out."""
    witness = judge(hudi, tell(hudi, tmp_path, history_of(seed, NEWEST)), pytestconfig)
    assert witness.done == len(witness.tale.history.actions)
    assert witness.compared > 20


@pytest.mark.long
@pytest.mark.parametrize("old", LONG_OLD_SEEDS)
def test_many_histories_of_older_releases_read_as_hudi_reads_them(
    told_by_old_releases: dict[tuple[str, int], Tale], hudi: Any, old: tuple[str, int], pytestconfig: pytest.Config
) -> None:
    """The same with drawn seeds, as far as the release can carry them out."""
    judge(hudi, told_by_old_releases[old], pytestconfig)


@pytest.mark.long
@pytest.mark.parametrize("seed", list(long_seeds()))
def test_many_histories_read_as_hudi_reads_them(
    hudi: Any, tmp_path: pathlib.Path, seed: int, pytestconfig: pytest.Config
) -> None:
    """The same with drawn seeds, as far as Hudi can carry them out."""
    judge(hudi, tell(hudi, tmp_path, history_of(seed, NEWEST)), pytestconfig)
