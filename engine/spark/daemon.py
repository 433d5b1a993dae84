"""PySpark's daemon, with tasks that get their input at once, with cheap garbage collections, and without the traceback
of a `BrokenPipeError` when Spark ends a task early.

Spark sends the function of a task, and then its input, in two small writes. The JVM holds the second one until the
first is acknowledged (Nagle's algorithm), and Linux delays the acknowledgement by 40 ms on a socket on which the worker
has answered before. So each task of a worker that is used again waited 40 ms (seen with PySpark 4.3).

PySpark's daemon (4.0 to 4.3) collects garbage after every task of a worker that it uses again, and every collection
visits the objects of all modules: with PyArrow, Numba and PySpark about 0.1 s. Modules stay, so collections leave them
out.

`limit`, `take`, `first` and `show` end a task as soon as they have their rows: Spark closes the socket of the Python
worker, which is still writing. PySpark's daemon (4.0 to 4.3) then fails to flush the rest, and prints the traceback of
its own `worker` on stderr, for every Python function and source. The worker ends in any case, and there is nobody left
to read an error from it. `penstock-python` starts this module in place of `pyspark.daemon`.
"""

from __future__ import annotations

import gc
import socket
import sys
from contextlib import suppress

from pyspark import daemon

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


def main() -> None:
    """Runs PySpark's daemon with this `worker`."""
    daemon.worker = worker
    daemon.manager()


if __name__ == "__main__":
    main()
