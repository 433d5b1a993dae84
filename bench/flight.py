"""GB of Arrow data per second that `penstock flight` sends on loopback, and what bounds it.

    python -m bench.flight [--rows 4000000] [--files 4] [--runs 3]

Writes a log-free table of version 6 with pyarrow into a temporary folder, with one base file in each partition.
Compares three measurements of the same rows, each in its best run after a warm-up run: `penstock.read` in one thread,
which only decodes; pyarrow's Flight server that sends batches from memory, which only transports; and
`penstock flight`, which does both. Servers are processes of their own. Clients read one endpoint at a time, or several
at once, and drop the batches. `CPU s/GB` is the time of all cores in the process that decodes or sends.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psutil
import pyarrow.compute as pc
import pyarrow.flight as fl
from rich.console import Console
from rich.table import Table

import penstock
from bench.filtered import rows, write_table

STREAMS: Final = (1, 2, 4)
FROM_MEMORY: Final = "--serve-from-memory"


class MemoryServer(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Sends the batches of a table, which it holds, for each of its files: transport alone."""

    def __init__(self, table: str) -> None:
        super().__init__("grpc://127.0.0.1:0")
        self._table = penstock.read(table).read_all()
        self._files = pc.unique(self._table.column("dt"))
        self._parts = [
            self._table.filter(pc.equal(self._table.column("dt"), one)).to_batches(32_768) for one in self._files
        ]

    def get_flight_info(self, context: Any, descriptor: Any) -> Any:
        """An endpoint for each file."""
        endpoints = [fl.FlightEndpoint(str(number).encode(), []) for number in range(len(self._parts))]
        return fl.FlightInfo(self._table.schema, descriptor, endpoints, -1, -1)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """The batches of a file, one by one from Python as Penstock's."""
        return fl.GeneratorStream(self._table.schema, iter(self._parts[int(ticket.ticket)]))


@contextmanager
def served(*command: str) -> Iterator[tuple[str, psutil.Process]]:
    """The address of a server process, and the process."""
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait()


def fetched(address: str, streams: int) -> int:
    """Bytes of Arrow data of all endpoints, each read to its end, `streams` of them at once."""
    client = fl.connect(f"grpc://{address}")
    info = client.get_flight_info(fl.FlightDescriptor.for_path("t"))

    def drained(endpoint: Any) -> int:
        own = fl.connect(f"grpc://{address}")
        return sum(chunk.data.nbytes for chunk in own.do_get(endpoint.ticket))

    with ThreadPoolExecutor(streams) as pool:
        return sum(pool.map(drained, info.endpoints))


def best(read: Callable[[], int], process: psutil.Process, runs: int) -> tuple[int, float, float]:
    """(bytes, seconds, seconds of CPU in the process) of the fastest run, after one warm-up run."""
    size, fastest, cpu = 0, float("inf"), 0.0
    for run in range(runs + 1):
        before, begin_s = process.cpu_times(), time.perf_counter()
        size = read()
        seconds, after = time.perf_counter() - begin_s, process.cpu_times()
        if run and seconds < fastest:
            fastest, cpu = seconds, after.user + after.system - before.user - before.system
    return size, fastest, cpu


def main() -> None:
    """Writes the table, measures and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(FROM_MEMORY, metavar="TABLE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_from_memory:
        server = MemoryServer(args.serve_from_memory)
        print(f"127.0.0.1:{server.port}", flush=True)
        server.serve()
        return
    report = Table("what", "streams", "MB", "seconds", "GB/s", "CPU s/GB")

    def add(what: str, streams: int, process: psutil.Process, read: Callable[[], int]) -> None:
        size, seconds, cpu = best(read, process, args.runs)
        gigabytes = size / 1e9
        cells = (f"{size / 1e6:,.0f}", f"{seconds:.3f}", f"{gigabytes / seconds:.2f}", f"{cpu / gigabytes:.2f}")
        report.add_row(what, str(streams), *cells)

    with tempfile.TemporaryDirectory() as scratch:
        table, per_file = pathlib.Path(scratch, "t"), args.rows // args.files
        names = [f"dt={number:05}" for number in range(args.files)]
        write_table(
            table, ((name, rows(at * per_file, per_file, name)) for at, name in enumerate(names)), "dt", 250_000
        )
        path = str(table)
        add("decode alone", 1, psutil.Process(), lambda: sum(batch.nbytes for batch in penstock.read(path, threads=1)))
        for what, command in (
            ("Flight from memory", ("-m", "bench.flight", FROM_MEMORY, path)),
            ("penstock flight", ("-P", "-m", "penstock", "flight", "--table", f"t={path}")),
        ):
            with served(*command) as (address, process):
                for streams in STREAMS:
                    add(what, streams, process, partial(fetched, address, streams))
    Console().print(report)


if __name__ == "__main__":
    main()
