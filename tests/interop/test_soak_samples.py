"""The verdict on growth in a soak, on synthetic samples."""

from __future__ import annotations

import csv
import os
import pathlib
import random
import time
from collections.abc import Callable

import psutil
import pytest

from tests.interop.soak_samples import MEASURED_S, WARM_S, Growth, Sample, Samples, slope_of, sparks

SECONDS = int(WARM_S + MEASURED_S * 2)
MB = 1e6


def _grown(kind: str, rss: Callable[[float], float], files: Callable[[float], float] = lambda at: 20) -> Growth:
    """The growth of a process that is sampled each 5 seconds."""
    samples = Samples(0.0)
    for at in range(0, SECONDS, 5):
        samples.samples.append(Sample(at, kind, 1, at, int(rss(at)), int(files(at)), 10))
    (growth,) = samples.growths()
    return growth


@pytest.mark.parametrize(("a_minute", "is_flat"), [(0.0, True), (0.5 * MB, True), (1.2 * MB, False), (-2 * MB, True)])
def test_memory_may_grow_by_less_than_a_megabyte_a_minute(a_minute: float, is_flat: bool) -> None:
    rng = random.Random(1)
    growth = _grown("server", lambda at: 200 * MB + a_minute * at / 60 + rng.uniform(-2 * MB, 2 * MB))
    assert growth.rss_bytes_a_minute == pytest.approx(a_minute, abs=0.2 * MB)
    assert growth.is_flat is is_flat


def test_memory_of_a_warming_process_is_no_growth() -> None:
    assert _grown("planner", lambda at: 200 * MB * min(at, WARM_S) / WARM_S).is_flat


def test_memory_with_one_jump_is_flat_with_many_it_grows() -> None:
    assert _grown("server", lambda at: 200 * MB + (30 * MB if at > SECONDS - 200 else 0)).is_flat
    assert not _grown("server", lambda at: 200 * MB + at // 60 * 2 * MB).is_flat


def test_open_files_may_not_grow() -> None:
    assert _grown("server", lambda at: MB, lambda at: 20 + at % 7).is_flat
    assert not _grown("server", lambda at: MB, lambda at: 20 + at / 20).is_flat


def test_jvm_memory_is_reported_and_only_its_files_are_checked() -> None:
    assert _grown("driver JVM", lambda at: at * MB).is_flat
    assert not _grown("driver JVM", lambda at: MB, lambda at: 300 + at / 5).is_flat


def test_short_lived_process_is_not_checked() -> None:
    samples = Samples(0.0)
    for pid in (1, 2):
        for at in range(0, int(WARM_S + MEASURED_S / 2), 5):
            samples.samples.append(Sample(at + pid * 1000, "server", pid, at, at, 1, 1))
    assert samples.growths() == []


def test_slope_of_no_values_is_zero() -> None:
    assert slope_of([]) == slope_of([(1.0, 5.0)]) == 0.0
    assert slope_of([(0.0, 0.0), (1.0, 2.0), (2.0, 4.0)]) == 2.0


def test_sparkline_goes_from_the_minimum_to_the_maximum() -> None:
    assert sparks([]) == ""
    assert sparks([3.0]) == "▁"
    assert sparks([0, 1, 2, 7]) == "▁▂▃█"
    assert len(sparks(range(1000), width=60)) == 60


def test_sample_of_a_process_is_written(tmp_path: pathlib.Path) -> None:
    """A running process is sampled, an ended one is omitted."""
    samples = Samples(time.monotonic())
    gone = psutil.Popen(["true"])
    gone.wait()
    samples.sample([("here", psutil.Process()), ("gone", gone)])
    samples.write(tmp_path / "processes.csv")
    (row,) = csv.DictReader((tmp_path / "processes.csv").read_text().splitlines())
    assert (row["process"], row["pid"]) == ("here", str(os.getpid()))
    assert float(row["rss_mib"]) > 10
    assert int(row["threads"]) > 0
    assert samples.lines()[0].startswith("here")
