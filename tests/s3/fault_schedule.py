"""A schedule of store faults, and a table whose last commits arrive while it is being read."""

from __future__ import annotations

import itertools
import pathlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.fs as pafs

from tests.faults.served import CASE
from tests.s3.bucket import BUCKET, copy_in, direct
from tests.s3.s3_proxy import Fault, Request


class FaultSchedule:
    """Injects a fault into every n-th request, each kind in turn; a stale listing is the first one of its path."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._lock = threading.Lock()
        self._count = 0
        self._turns = itertools.cycle([Fault.SLOW_DOWN, Fault.STALE, Fault.CUT, Fault.SHORT])

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            self._count += 1
            if self._count % self._every:
                return None
            return next(self._turns)


class Storms:
    """Four times in turn, after `apart` answered requests, the store refuses `length` requests in a row with 503. The
    first listing after a storm is stale."""

    def __init__(self, length: int, apart: int) -> None:
        self._lock = threading.Lock()
        self._faults = iter(([None] * apart + [Fault.SLOW_DOWN] * length) * 4)
        self._recovers = False

    def __call__(self, request: Request) -> Fault | None:
        with self._lock:
            fault = next(self._faults, None)
            if fault is None and self._recovers and request.kind == "list":
                fault, self._recovers = Fault.STALE, False
            elif fault is not None:
                self._recovers = True
            return fault


@contextmanager
def growing(golden: Any, store: str, folder: pathlib.Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """(URI, function that uploads the rest) of a table without its last commits."""
    local, name = golden.copy(CASE, folder), f"growing-{folder.name}"
    timeline = local / ".hoodie" / "timeline"
    instants = sorted({file.name.partition(".")[0].partition("_")[0] for file in timeline.iterdir() if file.is_file()})
    late = instants[-4:]
    held = [file for file in sorted(timeline.iterdir()) if file.is_file() and file.name.startswith(tuple(late))]
    apart = folder / "held"
    apart.mkdir()
    moved = [file.rename(apart / file.name) for file in held]
    copy_in(local, store, name)
    target = pafs.SubTreeFileSystem(f"{BUCKET}/{name}/.hoodie/timeline", direct(store))

    def arrive() -> None:
        order = {"requested": 0, "inflight": 1}
        for file in sorted(moved, key=lambda f: (f.name.split("_")[0].split(".")[0], order.get(f.suffix[1:], 2))):
            with target.open_output_stream(file.name) as sink:
                sink.write(file.read_bytes())

    yield f"s3://{BUCKET}/{name}", arrive
