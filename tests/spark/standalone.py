"""A standalone Spark cluster: a master and two one-core workers, whose processes a test may kill."""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import Final

import psutil
import pyspark

from tests.loopback_ports import free_port
from tests.progress import PROGRESS_S
from tests.spark.line_process import LineProcess

HOSTS: Final = ("127.0.0.1", "localhost")
"""Two names of one host: Spark does not run a copy of a task on the same host."""
JAVA_OPTIONS: Final = os.environ.get("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""The options of the suites' drivers (`tools/spark_classes.py`), which workers and executors get too: with the archive
of classes they start in a third of the processor time."""
_EXECUTOR: Final = "CoarseGrainedExecutorBackend"


class Standalone:
    """The processes of a cluster, with the logs and folders of its workers in `folder`."""

    def __init__(self, folder: pathlib.Path, variables: Mapping[str, str] | None = None) -> None:
        """`variables`: more of the environment of workers and executors."""
        self._folder, self._variables = folder, dict(variables or {})
        self._started: list[LineProcess] = []
        port = free_port()
        self.master = f"spark://127.0.0.1:{port}"
        self._daemon("127.0.0.1", "master.Master", "--port", str(port))
        self._workers = {host: self._worker(host) for host in HOSTS}

    def executors(self) -> dict[str, int]:
        """The process of each running executor, by its folder's name (`app-…/0`)."""
        executors_by_id = {}
        for worker in self._workers.values():
            for child in psutil.Process(worker.pid).children():
                with contextlib.suppress(psutil.Error):  # it is ending
                    if any(_EXECUTOR in word for word in child.cmdline()):
                        folder = pathlib.Path(child.cwd())
                        executors_by_id[f"{folder.parent.name}/{folder.name}"] = child.pid
        return executors_by_id

    def restart_worker(self, host: str) -> None:
        """Kills the worker of a host with SIGKILL, and starts another one. Its executors end with it."""
        self._workers[host].kill()
        self._workers[host] = self._worker(host)

    def stop(self) -> None:
        """Stops all processes: executors end with their worker's process group, or because the worker is gone."""
        left = list(self.executors().values())
        for process in reversed(self._started):
            process.kill()
        waited(lambda: not any(map(psutil.pid_exists, left)), "the end of the executors")

    def _worker(self, host: str) -> LineProcess:
        return self._daemon(host, "worker.Worker", "-c", "1", "-m", "1g", "-d", str(self._folder / host), self.master)

    def _daemon(self, host: str, name: str, *arguments: str) -> LineProcess:
        home = pathlib.Path(pyspark.__file__).parent
        variables = {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
            **self._variables,
        }
        place = ["--host", host, "--webui-port", "0"]
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *place, *arguments]
        log = self._folder / f"{name}-{len(self._started)}.log"
        self._started.append(LineProcess(command, log, variables))
        return self._started[-1]


def waited(until: Callable[[], object], what: str) -> None:
    """Waits for a condition."""
    give_up = time.monotonic() + PROGRESS_S
    while not until():
        assert time.monotonic() < give_up, f"not within {PROGRESS_S} s: {what}"
        time.sleep(0.05)
