"""Cost of the enumerator service: durable split assignment over gRPC; idle polls; memory and recovery.

    python -m bench.service [--seconds 5] [--splits 1000000] [--files 1000000] [--instants 10000] [--only PART …]

Parts: `hand-out` (a request for a split and its commit, each durable before the answer; compared with the plan API's
NextSplit, which is durable too, and a heartbeat, which is not), `idle` (one poll of a table without new commits),
`memory` (of the server with `--splits` pending splits, and its time to recover such a state). The server is a separate
process, `penstock serve --state`; clients are threads of two further processes, on loopback. Tables and states are
synthetic and cached in `.cache/bench`; no row is read.
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
    """Starts a server on a state directory; yields its address, its process and the seconds until it was ready."""
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
    """RequestSplits and CommitSplits of one reader, alternately."""
    member = client.join_group(GROUP, name, group_spec(), name).member
    sequence = 0
    while True:
        sequence += 1
        answer = spent(client.request_splits, member, 1, sequence)
        assert isinstance(answer, Assignments), answer
        done = tuple(SplitProgress(ref=one.ref, ordinal=1, finished=True) for one in answer.splits)
        spent(client.commit_splits, member, done)
        yield


def entries(client: EnumeratorClient, name: str, spent: Callable[..., Any]) -> Iterator[None]:
    """NextSplit calls of one slot."""
    slot, index = int(name), 0
    while True:
        spent(client.next_split, PLAN, slot, index)
        index += 1
        yield


def beats(client: EnumeratorClient, name: str, spent: Callable[..., Any]) -> Iterator[None]:
    """Heartbeats of one reader."""
    member = client.join_group(GROUP, name, group_spec(), name).member
    while True:
        spent(client.heartbeat, member)
        yield


KINDS: Final = {"RequestSplits + CommitSplits": pairs, "NextSplit": entries, "Heartbeat (not durable)": beats}


def group_spec() -> GroupSpec:
    from bench.service_state import scope

    return GroupSpec(scope=scope(), start=StartLatest())


def work(address: str, kind: str, first: int, threads: int, seconds: float) -> list[float]:
    """Seconds of each call, made by `threads` threads for `seconds` seconds."""
    calls_s: list[list[float]] = [[] for _ in range(threads)]
    ready = threading.Barrier(threads)

    def one(number: int) -> None:
        mine = calls_s[number]

        def spent(call: Callable[..., Any], *arguments: Any) -> Any:
            began = time.perf_counter()
            answer = call(*arguments)
            mine.append(time.perf_counter() - began)
            return answer

        turns = KINDS[kind](EnumeratorClient(address, LIMITS), str(first + number), spent)
        for _ in range(3):  # warm-up
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
    return [value for mine in calls_s for value in mine]


def assignment(args: argparse.Namespace, console: Console) -> None:
    """Prints a line for each kind of call and number of clients; ratios are relative to the heartbeat."""
    table, state = make_table(CACHE / "service-empty", 1, 0), make_state(CACHE, 200_000)
    report = Table("call", "clients", "p50 ms", "p99 ms", "calls/s", "to a heartbeat's calls/s", "server CPU ms a call")
    rates: dict[tuple[str, int], float] = {}
    for kind in reversed(KINDS):
        for clients in CLIENTS:
            with (
                tempfile.TemporaryDirectory(dir=CACHE) as copy,
                served(table, copy_state(state, copy)) as (address, process, _),
            ):
                before = cpu_s(process)
                spent = call_seconds(address, kind, clients, args.seconds)
                cpu_ms = (cpu_s(process) - before) * 1000 / len(spent)
            spent.sort()
            rate = len(spent) / args.seconds
            rates[kind, clients] = rate
            p50, p99 = (spent[int(len(spent) * share)] * 1000 for share in (0.5, 0.99))
            ratio = rate / rates["Heartbeat (not durable)", clients]
            report.add_row(
                kind, str(clients), f"{p50:.2f}", f"{p99:.2f}", f"{rate:,.0f}", f"{ratio:.2f}", f"{cpu_ms:.2f}"
            )
    disk = disk_alone(args.seconds)
    p50, p99 = (disk[int(len(disk) * share)] * 1000 for share in (0.5, 0.99))
    report.add_row("a commit of SQLite alone", "-", f"{p50:.2f}", f"{p99:.2f}", f"{len(disk) / sum(disk):,.0f}", "", "")
    console.print(report)


def disk_alone(seconds: float) -> list[float]:
    """Seconds of each SQLite commit on this disk, sorted: the lower bound of a durable call."""
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


def call_seconds(address: str, kind: str, clients: int, seconds: float) -> list[float]:
    """Seconds of the clients' calls; the clients run in at most two processes."""
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
    """A storage that counts its file operations."""

    def __init__(self, path: str) -> None:
        self._inner, self.operations = open_storage(path), 0

    def __getattr__(self, name: str) -> Any:
        poll = getattr(self._inner, name)
        if name in ("list_dir", "read_bytes", "open_input", "file_info"):
            self.operations += 1
        return poll


@dataclass(frozen=True, slots=True)
class IdlePoll:
    """Polls of a table without new commits."""

    first_ms: float
    """Milliseconds of the first poll, which lists the timeline."""
    first_operations: int
    """File operations of the first poll."""
    p50_ms: float
    """Median milliseconds of the later polls."""
    p99_ms: float
    """99th percentile in milliseconds of the later polls."""
    operations: float
    """Mean file operations of a later poll."""


def idle(args: argparse.Namespace, console: Console) -> None:
    """Prints the cost of the service's polls of a table without new commits."""
    poll = idle_poll(args.instants, args.files)
    report = Table("poll", "ms", "file operations", title=f"{args.instants:,} instants, {args.files:,} files")
    report.add_row("first, lists the timeline", f"{poll.first_ms:.1f}", str(poll.first_operations))
    report.add_row("idle, p50", f"{poll.p50_ms:.3f}", f"{poll.operations:g}")
    report.add_row("idle, p99", f"{poll.p99_ms:.3f}", "")
    console.print(report)


def idle_poll(instants: int, files: int, rounds: int = 200) -> IdlePoll:
    """Measures polls of a table with `instants` instants and `files` files; writes the table unless it is cached."""
    from penstock.table.config.properties import load_properties
    from penstock.table.hudi_table import HudiTable

    CACHE.mkdir(parents=True, exist_ok=True)
    table = make_table(CACHE / f"service-{instants}-{files}", instants, files)
    storage = Counting(str(table))
    reads = OpenTables()
    reads._opened[str(table)] = HudiTable(storage, load_properties(storage))  # type: ignore[arg-type]
    service = EnumeratorService({TABLE: str(table)}, reads=reads, clock_ms=monotonic_ms, poll_ms=None)
    service.join_group("idle", "r", GroupSpec(scope=group_spec().scope, start=StartLatest()), "1")
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


def memory(args: argparse.Namespace, console: Console) -> None:
    """Prints the server's memory with `--splits` pending splits in one round: when ready, and after assignments."""
    table = make_table(CACHE / "service-empty", 1, 0)
    report = Table("pending splits", "start s", "RSS MiB", "RSS MiB after hand-outs", "p50 ms", "calls/s, 8 clients")
    for splits in (0, args.splits):
        state = make_state(CACHE, splits)
        with (
            tempfile.TemporaryDirectory(dir=CACHE) as copy,
            served(table, copy_state(state, copy)) as (address, process, began),
        ):
            before = process.memory_info().rss
            spent = sorted(call_seconds(address, "RequestSplits + CommitSplits", 8, args.seconds)) if splits else [0.0]
            after = process.memory_info().rss
        columns = (f"{splits:,}", f"{began:.2f}", f"{before >> 20}", f"{after >> 20}")
        report.add_row(*columns, f"{spent[len(spent) // 2] * 1000:.2f}", f"{len(spent) / args.seconds:,.0f}")
    console.print(report)


def copy_state(state: pathlib.Path, into: str) -> pathlib.Path:
    """Copies the state directory for one run."""
    return pathlib.Path(shutil.copytree(state, pathlib.Path(into) / "state"))


def cpu_s(process: psutil.Process) -> float:
    """CPU seconds of the process so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    """Prints one table for each part."""
    if sys.argv[1:2] == ["--worker"]:
        address, kind, first, threads, seconds = sys.argv[2:]
        print(json.dumps(work(address, kind, int(first), int(threads), float(seconds))))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="duration of the calls of each line")
    parser.add_argument("--splits", type=int, default=1_000_000)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--instants", type=int, default=10_000)
    parser.add_argument("--only", choices=PARTS, action="append")
    args = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    console = Console(width=140)
    for part, measure in zip(PARTS, (assignment, idle, memory), strict=True):
        if part in (args.only or PARTS):
            measure(args, console)


if __name__ == "__main__":
    main()
