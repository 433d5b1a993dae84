"""The run's Ray cluster starts on a machine on which Ray is slow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.ray_cluster import STARTS, TOO_SLOW, started


class SlowRay:
    """Ray of which the first starts fail. Each start leaves a process, as Ray's do."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures = failures
        self.processes: list[subprocess.Popen[bytes]] = []
        self.shutdowns = 0

    def start(self, temp_dir: str) -> None:
        command = [sys.executable, "-c", "input()", f"--folder={temp_dir}/sockets"]
        self.processes.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        if self.failures:
            raise self.failures.pop(0)

    def shutdown(self) -> None:
        self.shutdowns += 1


@pytest.fixture
def slow_ray(request: pytest.FixtureRequest) -> Callable[..., SlowRay]:
    def make(*failures: Exception) -> SlowRay:
        ray = SlowRay(list(failures))
        request.addfinalizer(lambda: [(process.kill(), process.communicate()) for process in ray.processes])
        return ray

    return make


def test_slow_starts_are_killed_and_repeated(slow_ray: Callable[..., SlowRay], tmp_path: object) -> None:
    ray = slow_ray(RuntimeError(f"{TOO_SLOW[0]} /x"), Exception(f"The current node {TOO_SLOW[1]}. This could happen"))
    started(ray.start, ray.shutdown, str(tmp_path))
    assert ray.shutdowns == 2
    assert [process.poll() is None for process in ray.processes] == [False, False, True]


def test_error_of_another_kind_and_that_of_the_last_start_are_raised(
    slow_ray: Callable[..., SlowRay], tmp_path: object
) -> None:
    ray = slow_ray(ValueError("another kind"))
    with pytest.raises(ValueError, match="another kind"):
        started(ray.start, ray.shutdown, str(tmp_path))
    ray = slow_ray(*(Exception(TOO_SLOW[1]) for _ in range(STARTS)))
    with pytest.raises(Exception, match=TOO_SLOW[1]):
        started(ray.start, ray.shutdown, str(tmp_path))
    assert len(ray.processes) == STARTS
