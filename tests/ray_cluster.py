"""A Ray cluster of this machine, for the suites that need one."""

from __future__ import annotations

import contextlib
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

WAIT = "RAY_gcs_server_port_wait_time_s"
"""Seconds that Ray gives its server to start. By default 30, which pass on a busy machine."""
STARTS = 3
TOO_SLOW = ("Timed out waiting for file", "timed out during startup")
"""What Ray says when its server, or the process of a node, was not ready in time."""


def running() -> Iterator[None]:
    """Starts a cluster, to which Ray in this process is connected, and ends it."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="ray-") as folder:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # a token would be written to the home folder
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv(WAIT, "100")
        import ray
        from ray.data import DataContext

        _start(folder)
        DataContext.get_current().enable_progress_bars = False
        try:
            yield
        finally:
            ray.shutdown()


def _start(folder: str) -> None:
    import ray

    started(lambda temp_dir: _cluster(ray, temp_dir), ray.shutdown, folder)


def _cluster(ray: Any, temp_dir: str) -> None:
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=100 << 20,
        configure_logging=False,
        log_to_driver=False,
        _temp_dir=temp_dir,
    )


def started(start: Callable[[str], object], shutdown: Callable[[], object], folder: str) -> None:
    """Starts a cluster: `start` receives the folder of its files. Usually that takes seconds. While all suites run it
    can take longer than Ray waits (30 s for a node, which no setting changes), or never end. Then the processes of this
    start are killed, which Ray leaves, and the next start is a new cluster; after three starts Ray's error is raised.
    """
    for number in range(1, STARTS + 1):
        temp_dir = str(pathlib.Path(folder).resolve() / str(number))
        try:
            start(temp_dir)
        except Exception as error:  # Ray raises `RuntimeError`, and a plain `Exception` for a node
            shutdown()
            if number == STARTS or not any(text in str(error) for text in TOO_SLOW):
                raise
            _kill_processes_of(temp_dir)
        else:
            return


def _kill_processes_of(temp_dir: str) -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(temp_dir in argument for argument in process.cmdline()):
                process.kill()
                process.wait(30)
