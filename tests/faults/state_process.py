"""A process on a state directory, for tests that kill it.

Run as `python state_process.py WHAT DIR …`. `append`: four threads append through a journal and print each number when
it is durable, until killed. `transactions N CHECKPOINT`: N transactions (three records and a plan each), a checkpoint
after the given one, then SIGKILL to itself. `serve`: prints its epoch, then appends a record for each line of stdin; so
does `takeover`. `full BYTES`: appends until the system refuses to extend a file beyond this size; prints the durable
numbers and the errors.
"""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import sys
import threading

from penstock.enumerator.store.journal import Journal
from penstock.enumerator.store.protocol import PlanPieces, StoredRecord
from penstock.enumerator.store.sqlite.connections import connect as plain_connect
from penstock.enumerator.store.sqlite.open import open_sqlite
from penstock.proto.errors import PenstockError


def print_line(line: str) -> None:
    """Prints a line atomically."""
    os.write(1, line.encode() + b"\n")


def append(directory: str) -> None:
    journal = Journal(open_sqlite(directory))

    def work(thread: int) -> None:
        for i in range(10_000_000):
            journal.append([StoredRecord("number", 1, b"%d %d" % (thread, i))]).wait()
            print_line(f"{thread} {i}")

    for thread in range(4):
        threading.Thread(target=work, args=(thread,)).start()


def transactions(directory: str, count: str, checkpoint: str) -> None:
    opened: list[sqlite3.Connection] = []

    def connect(uri: str) -> sqlite3.Connection:
        opened.append(plain_connect(uri))
        return opened[-1]

    store = open_sqlite(directory, connect=connect)
    for i in range(int(count)):
        pieces = PlanPieces(f"plan {i}", b"scan", tuple(b"split %d" % n for n in range(3)))
        store.append([StoredRecord("number", 1, b"%d %d" % (i, n) + b"." * 500) for n in range(3)], [pieces])
        if i == int(checkpoint):
            assert opened[-1].execute("PRAGMA wal_checkpoint(FULL)").fetchone()[0] == 0
    os.kill(os.getpid(), signal.SIGKILL)


def serve(directory: str, *, takeover: bool = False) -> None:
    try:
        store = open_sqlite(directory, takeover=takeover)
    except PenstockError as error:
        print_line(f"{error.code} {error}")
        return
    print_line(f"epoch {store.epoch}")
    for line in sys.stdin:
        try:
            store.append([StoredRecord("line", 1, line.strip().encode())])
            print_line(f"durable {line.strip()}")
        except PenstockError as error:
            print_line(f"{error.code} {error}")


def full(directory: str, size_bytes: str) -> None:
    store = open_sqlite(directory)
    sys.dont_write_bytecode = True  # the limit would cut it
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size_bytes), int(size_bytes)))
    for i in range(10_000):
        try:
            store.append([StoredRecord("number", 1, b"%d " % i + b"." * 2000)])
        except PenstockError as error:
            print_line(f"{error.code} {error}")
            if i % 2:  # twice, for every number
                break
        else:
            print_line(f"durable {i}")
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "takeover":
        serve(*arguments, takeover=True)
    else:
        {"append": append, "transactions": transactions, "serve": serve, "full": full}[what](*arguments)
