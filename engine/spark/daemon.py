"""PySpark's daemon, with tasks that get their input at once, with processes that have Penstock's modules when they
start, with cheap garbage collections, and without the traceback of a `BrokenPipeError` when Spark ends a task early.
`penstock-python` runs this module in place of `pyspark.daemon`.

Spark sends the function of a task, and then its input, in two small writes. The JVM holds the second one until the
first is acknowledged (Nagle's algorithm), and Linux delays the acknowledgement by 40 ms on a socket on which the worker
has answered before. So each task of a worker that is used again waited 40 ms (seen with PySpark 4.3).

`limit`, `take`, `first` and `show` end the process of their task, and the next query starts another one, which imports
Penstock, PyArrow and NumPy for 0.4 s. So the daemon imports them as soon as a task has used them: the processes that it
starts then have them, and share their memory. PySpark's daemon imports nothing that may start threads, because a new
process has only the thread that forks. NumPy (OpenBLAS) and PyArrow (jemalloc) start threads, and both prepare for a
fork. PyArrow's other threads start with the first read, and the daemon reads nothing.

PySpark's daemon (4.0 to 4.3) collects garbage after every task of a worker that it uses again, and every collection
visits the objects of all modules: with PyArrow, Numba and PySpark about 0.1 s. Modules stay, so collections leave them
out.

Spark closes the socket of a task that it ends early while the worker is still writing. PySpark's daemon (4.0 to 4.3)
then fails to flush the rest, and prints the traceback of its own `worker` on stderr, for every Python function and
source. The worker ends in any case, and there is nobody left to read an error from it.
"""

from __future__ import annotations

import gc
import importlib
import mmap
import os
import socket
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from typing import Final

from pyspark import daemon

TASK: Final = "penstock.engine.spark.task.read"
"""The module that reads the rows of a task."""
TASK_MODULES: Final = ("pyspark.worker", "pyspark.sql.worker.plan_data_source_read", TASK)
"""What a process of a task imports; these modules import the others."""
PACKAGES: Final = ("penstock", "pyspark", "py4j", "pyarrow", "numpy", "google")
"""The packages that these modules are part of or import; `google` is that of protobuf."""

_worker = daemon.worker


class LoadedModules:
    """The modules of this process, whose objects collections leave out."""

    def __init__(self) -> None:
        self._count = 0

    def leave_out_of_collections(self) -> None:
        """Leaves out all objects that exist now, if a module was loaded since the last call. Between two tasks, after
        a collection, hardly any other objects exist. Objects that the next tasks create are collected."""
        if len(sys.modules) > self._count:
            self._count = len(sys.modules)
            gc.freeze()


_loaded_modules = LoadedModules()


class TaskModules:
    """The modules of Penstock's tasks, which the daemon imports once a task has used them. They are those of the
    daemon's import path at its start."""

    def __init__(self) -> None:
        self._is_used = mmap.mmap(-1, 1)  # shared with the processes that are started later
        self._is_imported = False
        self._path = frozenset(sys.path)
        self._daemon = os.getpid()
        self._is_address_space_limited = int(os.environ.get("PYSPARK_EXECUTOR_MEMORY_MB", "-1")) > 0

    def note_use(self) -> None:
        """In the process of a task: tells the daemon that it used the modules. Not if files that the application added
        to the import path (`addPyFile`) contain such a package, because the daemon would import another one."""
        if self._is_used[0] or TASK not in sys.modules:
            return
        added = [entry for entry in sys.path if entry not in self._path]
        if not any(PathFinder.find_spec(package, added) for package in PACKAGES):
            self._is_used[0] = 1

    def import_used(self) -> None:
        """In the daemon, before it starts a process: imports the modules if a task used them, at most once. Not if the
        address space of its processes is limited (spark.executor.pyspark.memory), of which they take 0.3 GB, also in
        the processes of other functions. A process of a task that forks itself calls this without effect."""
        if not self._is_used[0] or self._is_imported or self._is_address_space_limited or os.getpid() != self._daemon:
            return
        self._is_imported = True
        try:
            for name in TASK_MODULES:
                importlib.import_module(name)
        except SystemExit:  # PySpark's handler of SIGTERM raises it, and Python ignores errors before a fork
            os._exit(1)
        gc.collect()
        gc.freeze()  # pages that no collection writes to stay shared


_task_modules = TaskModules()


def acknowledge_at_once(sock: socket.socket) -> None:
    """Makes Linux acknowledge what the socket receives without a delay, until the process sends something. Without
    effect on other systems and on Unix domain sockets, which have no such option."""
    if sys.platform == "linux":
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def worker(sock: socket.socket, authenticated: bool) -> int:
    """PySpark's `worker`, for each task; the exit code 1, which ends the process, if Spark no longer reads from it."""
    _loaded_modules.leave_out_of_collections()
    acknowledge_at_once(sock)
    try:
        return _worker(sock, authenticated)
    except (BrokenPipeError, ConnectionResetError):
        return 1
    finally:
        _task_modules.note_use()


def main() -> None:
    """Runs PySpark's daemon with this `worker`."""
    daemon.worker = worker
    os.register_at_fork(before=_task_modules.import_used)
    daemon.manager()
