"""The verdict on growth in an endurance run: a leak of each kind is found, and noise is not."""

from __future__ import annotations

import csv
import pathlib
import random

import pytest

from tests.interop.endurance_driver import native
from tests.interop.endurance_series import KB, LIMITS, MB, MEASURED_S, WARM_S, Growth, Measurements
from tests.interop.endurance_sinks import Sink

NORMAL = {
    "memory": 200 * MB,
    "threads": 20.0,
    "files": 30.0,
    "sockets": 9.0,
    "store": 400 * KB,
    "checkpoint": 900 * KB,
    "state": 300 * KB,
    "latency": 1.2,
    "live heap": 90 * MB,
    "native memory": 40 * MB,
    "freed memory": 10 * MB,
    "unexplained memory": 50 * MB,
    "data files": 90.0,
    "active instants": 30.0,
    "other files": 20.0,
    "processor time": 0.2,
}
LEAKS = {
    "memory": 1.2 * MB,
    "threads": 0.6,
    "files": 0.6,
    "sockets": 0.6,
    "store": 80 * KB,
    "checkpoint": 80 * KB,
    "state": 9 * KB,
    "latency": 0.08,
    "live heap": 1.2 * MB,
    "native memory": 1.2 * MB,
    "freed memory": 1.2 * MB,
    "unexplained memory": 1.2 * MB,
    "data files": 0.7,
    "active instants": 0.6,
    "other files": 0.6,
    "processor time": 0.004,
}
"""In a minute."""
HOUR_S = 3600


def grown(kind: str, a_minute: float, noise: float = 0.05) -> Growth:
    """The growth in an hour with noise, sampled each 5 seconds."""
    rng, measured = random.Random(kind), Measurements()
    for at_s in range(0, HOUR_S, 5):
        value = NORMAL[kind] * (1 + rng.uniform(-noise, noise)) + a_minute * at_s / 60
        measured.add(kind, "one", at_s, value)
    (growth,) = measured.growths()
    return growth


def test_every_limit_has_a_leak() -> None:
    assert LIMITS.keys() == LEAKS.keys() == NORMAL.keys()


@pytest.mark.parametrize("kind", LIMITS)
def test_leak_is_found_and_noise_is_not(kind: str) -> None:
    assert grown(kind, 0.0).is_flat and grown(kind, -LEAKS[kind]).is_flat
    leak = grown(kind, LEAKS[kind])
    assert not leak.is_flat and str(leak).endswith("GROWS") and leak.kind in str(leak)


@pytest.mark.parametrize("kind", LIMITS)
def test_warm_up_is_no_growth_and_a_short_series_has_no_verdict(kind: str) -> None:
    measured = Measurements()
    for at_s in range(0, int(WARM_S + MEASURED_S) + 5, 5):
        measured.add(kind, "warming", 100.0 + at_s, NORMAL[kind] * min(1.0, at_s / WARM_S))
        measured.add(kind, "short", 105.0 + at_s, at_s * NORMAL[kind]) if at_s < WARM_S + MEASURED_S else None
    assert [(growth.name, growth.is_flat) for growth in measured.growths()] == [("warming", True)]


def test_kind_without_a_limit_is_an_error() -> None:
    with pytest.raises(KeyError):
        Measurements().add("unknown", "one", 0.0, 1.0)


def test_measurements_are_written(tmp_path: pathlib.Path) -> None:
    measured = Measurements()
    for at_s in range(1000):
        measured.add("files", "server", at_s, 7.0)
    measured.write(tmp_path / "series.csv")
    rows = list(csv.DictReader((tmp_path / "series.csv").read_text().splitlines()))
    assert len(rows) == 334 and rows[1] == {"seconds": "3", "kind": "files", "name": "server", "value": "7"}


def test_report_of_native_memory_is_read_by_category() -> None:
    text = (
        "Native Memory Tracking:\n\nTotal: reserved=2000KB, committed=300KB\n\n"
        "-                 Java Heap (reserved=1500KB, committed=200KB)\n"
        "                            (mmap: reserved=1500KB, committed=200KB)\n \n"
        "-                     Class (reserved=500KB, committed=100KB)\n"
    )
    assert native(text) == {"total": 307_200, "native": {"Java Heap": 204_800, "Class": 102_400}}
    with pytest.raises(ValueError, match="native memory"):
        native("Native memory tracking is not enabled")


@pytest.mark.parametrize("change", ["lost", "doubled", "changed", "strange"])
def test_wrong_row_of_a_sink_is_found(change: str) -> None:
    source = [("w", 1, "a"), ("w", 2, "b"), ("w", 2, "b")]
    rows = {
        "lost": source[:2],
        "doubled": [*source, source[0]],
        "changed": [*source[:2], ("w", 2, "c")],
        "strange": [*source, ("x", 9, "z")],
    }[change]
    assert Sink("joined", source[::-1], source).problems() == []
    (problem,) = Sink("joined", rows, source).problems()
    assert problem.startswith("joined: missing " if change in ("lost", "changed") else "joined: missing [], extra [(")
