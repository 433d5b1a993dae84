"""A Ray cluster of this machine, for the suites that need one."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

import pytest

WAIT = "RAY_gcs_server_port_wait_time_s"
"""Seconds that Ray gives its server to start. By default 30, which pass on a busy machine."""
STARTS = 3


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
    """Starts the cluster. Ray's server did not write its port in 300 s once, in a run of all suites beside which it
    usually starts in seconds; a new one is started then."""
    import ray

    for start in range(1, STARTS + 1):
        try:
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                object_store_memory=100 << 20,
                configure_logging=False,
                log_to_driver=False,
                _temp_dir=str(pathlib.Path(folder).resolve() / str(start)),
            )
        except RuntimeError as error:
            ray.shutdown()
            if start == STARTS or "Timed out waiting for file" not in str(error):
                raise
        else:
            return
