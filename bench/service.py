"""What the enumerator as a service costs: hand-out over gRPC, made durable; idle polls; memory and recovery.

    python -m bench.service [--seconds 5] [--splits 1000000] [--files 1000000] [--instants 10000] [--only PART …]

Parts: `hand-out` (a request for a split and its commit, each durable before it is answered; beside it the range door's
NextSplit, durable too, and a heartbeat, which is not), `idle` (one look at a table where nothing is new), `memory` (of
the server with so many pending splits, and how long it takes to read such a state). The server is a process of its own,
`penstock serve --state`; clients are threads of two further processes, on loopback. Synthetic tables and states, kept
under `.cache/bench`; no row is read.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psutil
from rich.console import Console
from rich.table import Table

from bench.service_state import GROUP, PLAN, TABLE, make_state, make_table
from penstock.enumerator.clocks import monotonic_ms
from penstock.enumerator.service import EnumeratorService
from penstock.enumerator.tables.open_tables import OpenTables
from penstock.proto.client.client import CallLimits, EnumeratorClient
from penstock.proto.model.groups import Assignments, GroupSpec, SplitProgress, StartLatest
from penstock.table.storage.filesystem import open_storage

CACHE: Final = pathlib.Path(__file__).resolve().parent.parent / ".cache" / "bench"
CLIENTS: Final = (1, 8, 64)
PARTS: Final = ("hand-out", "idle", "memory")
LIMITS: Final = CallLimits(attempts=1)


@contextmanager
def served(table: pathlib.Path, state: pathlib.Path) -> Iterator[tuple[str, psutil.Process, float]]:
    """A server on a state directory: its address, its process, seconds until it took calls."""
    command = [sys.executable, "-m", "penstock", "serve", "--table", f"{TABLE}={table}", "--state", str(state)]
    environment = {**os.environ, "PENSTOCK_LIMITS_RATE_PER_SECOND": "0"}  # all clients here have one address
    with tempfile.TemporaryFile() as log:
        began = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--lease", "10m"], env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            assert process.stdout
            address = process.stdout.readline().strip()
            if not address:
                log.seek(0)
                raise SystemExit(f"the server did not start: {log.read()[-2000:]!r}")
            yield address, psutil.Process(process.pid), time.perf_counter() - began
        finally:
            process.terminate()
            process.wait(60)


# --- hand-out


def pairs(client: EnumeratorClient, name: str, spent: Callable[..., Any]) -> Iterator[None]:
    """RequestSplits and CommitSplits in turn, of one reader."""
    member = client.join_group(GROUP, name, spec_of_group(), name).member
    sequence = 0
    while True:
        sequence += 1
        answer = spent(client.request_splits, member, 1, sequence)
        assert isinstance(answer, Assignments), answer
        done = tuple(SplitProgress(ref=one.ref, ordinal=1, finished=True) for one in answer.splits)
        spent(client.commit_splits, member, done)
        yield


def entries(client: EnumeratorClient, name: str, spent: Callable[..., Any]) -> Iterator[None]:
    """NextSplit of one slot."""
    slot, index = int(name), 0
    while True:
        spent(client.next_split, PLAN, slot, index)
        index += 1
        yield


def beats(client: EnumeratorClient, name: str, spent: Callable[..., Any]) -> Iterator[None]:
    """Heartbeats of one reader."""
    member = client.join_group(GROUP, name, spec_of_group(), name).member
    while True:
        spent(client.heartbeat, member)
        yield


KINDS: Final = {"RequestSplits + CommitSplits": pairs, "NextSplit": entries, "Heartbeat (not durable)": beats}


def spec_of_group() -> GroupSpec:
    from bench.service_state import scope

    return GroupSpec(scope=scope(), start=StartLatest())


def work(address: str, kind: str, first: int, threads: int, seconds: float) -> list[float]:
    """Seconds of each call, of so many threads that call for so long."""
    found: list[list[float]] = [[] for _ in range(threads)]
    ready = threading.Barrier(threads)

    def one(number: int) -> None:
        mine = found[number]

        def spent(call: Callable[..., Any], *asked: Any) -> Any:
            began = time.perf_counter()
            answer = call(*asked)
            mine.append(time.perf_counter() - began)
            return answer

        turns = KINDS[kind](EnumeratorClient(address, LIMITS), str(first + number), spent)
        for _ in range(3):  # warms up
            next(turns)
        ready.wait()
        mine.clear()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            next(turns)

    running = [threading.Thread(target=one, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return [value for mine in found for value in mine]


def hand_out(given: argparse.Namespace, console: Console) -> None:
    """A line for each kind of call and number of clients; ratios are to the heartbeat."""
    table, state = make_table(CACHE / "service-empty", 1, 0), make_state(CACHE, 200_000)
    shown = Table("call", "clients", "p50 ms", "p99 ms", "calls/s", "to a heartbeat's calls/s", "server CPU ms a call")
    rates: dict[tuple[str, int], float] = {}
    for kind in reversed(KINDS):
        for clients in CLIENTS:
            with (
                tempfile.TemporaryDirectory(dir=CACHE) as copy,
                served(table, copied(state, copy)) as (address, seen, _),
            ):
                before = cpu_s(seen)
                spent = called(address, kind, clients, given.seconds)
                cpu_ms = (cpu_s(seen) - before) * 1000 / len(spent)
            spent.sort()
            rate = len(spent) / given.seconds
            rates[kind, clients] = rate
            p50, p99 = (spent[int(len(spent) * share)] * 1000 for share in (0.5, 0.99))
            ratio = rate / rates["Heartbeat (not durable)", clients]
            shown.add_row(
                kind, str(clients), f"{p50:.2f}", f"{p99:.2f}", f"{rate:,.0f}", f"{ratio:.2f}", f"{cpu_ms:.2f}"
            )
    disk = disk_alone(given.seconds)
    p50, p99 = (disk[int(len(disk) * share)] * 1000 for share in (0.5, 0.99))
    shown.add_row("a commit of SQLite alone", "-", f"{p50:.2f}", f"{p99:.2f}", f"{len(disk) / sum(disk):,.0f}", "", "")
    console.print(shown)


def disk_alone(seconds: float) -> list[float]:
    """What a durable row costs on this disk: seconds of each commit, sorted."""
    spent: list[float] = []
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        connection = sqlite3.connect(f"{folder}/disk.db", isolation_level=None)
        for text in ("PRAGMA journal_mode = wal", "PRAGMA synchronous = full", "CREATE TABLE rows (bytes BLOB)"):
            connection.execute(text)
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            connection.execute("INSERT INTO rows VALUES (zeroblob(200))")
            spent.append(time.perf_counter() - began)
        connection.close()
    return sorted(spent)


def called(address: str, kind: str, clients: int, seconds: float) -> list[float]:
    """The clients' calls, in at most two processes."""
    shares = [clients] if clients == 1 else [clients // 2, clients - clients // 2]
    workers = []
    for place, threads in enumerate(shares):
        words = [
            sys.executable,
            __file__,
            "--worker",
            address,
            kind,
            str(place * shares[0]),
            str(threads),
            str(seconds),
        ]
        workers.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    spent: list[float] = []
    for worker in workers:
        out, _ = worker.communicate()
        if worker.returncode:
            raise SystemExit("a client failed")
        spent += json.loads(out)
    return spent


# --- idle polls


class Counting:
    """A storage that counts what is asked of it."""

    def __init__(self, path: str) -> None:
        self._inner, self.operations = open_storage(path), 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in ("list_dir", "read_bytes", "open_input", "file_info"):
            self.operations += 1
        return found


@dataclass(frozen=True, slots=True)
class IdlePoll:
    """Looks at a table in which nothing changed, behind the first, which lists the timeline; file operations of one."""

    first_ms: float
    first_operations: int
    p50_ms: float
    p99_ms: float
    operations: float


def idle(given: argparse.Namespace, console: Console) -> None:
    """One look of the service at a table in which nothing changed."""
    found = idle_poll(given.instants, given.files)
    shown = Table("look", "ms", "file operations", title=f"{given.instants:,} instants, {given.files:,} files")
    shown.add_row("the first, which lists the timeline", f"{found.first_ms:.1f}", str(found.first_operations))
    shown.add_row("an idle one, p50", f"{found.p50_ms:.3f}", f"{found.operations:g}")
    shown.add_row("an idle one, p99", f"{found.p99_ms:.3f}", "")
    console.print(shown)


def idle_poll(instants: int, files: int, rounds: int = 200) -> IdlePoll:
    """Looks of the service at a table of so many instants and files, which is made if it is not there."""
    from penstock.table.config.properties import load_properties
    from penstock.table.hudi_table import HudiTable

    CACHE.mkdir(parents=True, exist_ok=True)
    table = make_table(CACHE / f"service-{instants}-{files}", instants, files)
    storage = Counting(str(table))
    reads = OpenTables()
    reads._opened[str(table)] = HudiTable(storage, load_properties(storage))  # type: ignore[arg-type]
    service = EnumeratorService({TABLE: str(table)}, reads=reads, clock_ms=monotonic_ms, poll_ms=None)
    service.join_group("idle", "r", GroupSpec(scope=spec_of_group().scope, start=StartLatest()), "1")
    began, storage.operations = time.perf_counter(), 0
    service.split_discovery.discover()
    first, operations = time.perf_counter() - began, storage.operations
    spent, storage.operations = [], 0
    for _ in range(rounds):
        began = time.perf_counter()
        service.split_discovery.discover()
        spent.append((time.perf_counter() - began) * 1000)
    spent.sort()
    p50, p99 = spent[rounds // 2], spent[int(rounds * 0.99)]
    return IdlePoll(first * 1000, operations, p50, p99, storage.operations / rounds)


# --- memory


def memory(given: argparse.Namespace, console: Console) -> None:
    """The server with so many pending splits in one round: when it took calls, and behind hand-outs."""
    table = make_table(CACHE / "service-empty", 1, 0)
    shown = Table("pending splits", "start s", "RSS MiB", "RSS MiB behind hand-outs", "p50 ms", "calls/s, 8 clients")
    for splits in (0, given.splits):
        state = make_state(CACHE, splits)
        with (
            tempfile.TemporaryDirectory(dir=CACHE) as copy,
            served(table, copied(state, copy)) as (address, seen, began),
        ):
            before = seen.memory_info().rss
            spent = sorted(called(address, "RequestSplits + CommitSplits", 8, given.seconds)) if splits else [0.0]
            after = seen.memory_info().rss
        columns = (f"{splits:,}", f"{began:.2f}", f"{before >> 20}", f"{after >> 20}")
        shown.add_row(*columns, f"{spent[len(spent) // 2] * 1000:.2f}", f"{len(spent) / given.seconds:,.0f}")
    console.print(shown)


def copied(state: pathlib.Path, into: str) -> pathlib.Path:
    """A state directory of its own for one run."""
    return pathlib.Path(shutil.copytree(state, pathlib.Path(into) / "state"))


def cpu_s(process: psutil.Process) -> float:
    """Processor seconds that it has taken."""
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Prints a table a part."""
    if sys.argv[1:2] == ["--worker"]:
        address, kind, first, threads, seconds = sys.argv[2:]
        print(json.dumps(work(address, kind, int(first), int(threads), float(seconds))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of calls, for each line")
    parser.add_argument("--splits", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--instants", type=int, default=10_000)
    parser.add_argument("--only", choices=PARTS, action="append")
    given = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    console = Console(width=140)
    for part, measure in zip(PARTS, (hand_out, idle, memory), strict=True):
        if part in (given.only or PARTS):
            measure(given, console)


if __name__ == "__main__":
    main()
