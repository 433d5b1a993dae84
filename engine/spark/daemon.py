"""PySpark's daemon without the traceback of a `BrokenPipeError` when Spark ends a task early.

`limit`, `take`, `first` and `show` end a task as soon as they have their rows: Spark closes the socket of the Python
worker, which is still writing. PySpark's daemon (4.0 to 4.3) then fails to flush the rest, and prints the traceback of
its own `worker` on stderr, for every Python function and source. The worker ends in any case, and there is nobody left
to read an error from it. `penstock-python` starts this module in place of `pyspark.daemon`.
"""

from __future__ import annotations

import socket

from pyspark import daemon

_worker = daemon.worker


def worker(sock: socket.socket, authenticated: bool) -> int:
    """PySpark's `worker`; the exit code 1, which ends the process, if Spark no longer reads from it."""
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
