"""The memory that reading takes: out of the system's pool, whose pages go back when batches are let go.

Arrow's own pool keeps freed pages, and one live buffer keeps a large page: the same read peaks at about twice the
memory (docs/development/performance.md). PyArrow's Parquet reader and most functions take no pool, so the process's
default is another while a batch is made, and as it was when the batch is handed over.
Buffers know the pool they are from, so
that nothing breaks where another thread allocates meanwhile. Who chooses a pool by ARROW_DEFAULT_MEMORY_POOL keeps it.

Belongs here: which pool, and for how long. Not here: what is held (`log_files`, `merge.log_rows`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from types import TracebackType
from typing import Final, TypeVar

import pyarrow as pa

T = TypeVar("T")

_BATCHES_BETWEEN: Final = 8
"""One or two MiB each."""

_CHOSEN: Final = bool(os.environ.get("ARROW_DEFAULT_MEMORY_POOL"))


class _SystemPool:
    """A context in which the default pool is the system's; of several at a time the last to leave puts it back."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._before: pa.MemoryPool | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._before = pa.default_memory_pool()
                pa.set_memory_pool(pa.system_memory_pool())
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                pa.set_memory_pool(self._before)
                self._before = None


_system_pool: Final = _SystemPool()


def with_system_pool(batches: Generator[T, None, None]) -> Generator[T, None, None]:
    """The same batches, each made out of the system's pool; closing it closes them."""
    if _CHOSEN:
        yield from batches
        return
    made = 0
    try:
        while True:
            with _system_pool:
                batch = next(batches, None)
            if batch is None:
                return
            yield batch
            del batch
            made += 1
            if made % _BATCHES_BETWEEN == 0:
                return_unused()
    finally:
        with _system_pool:
            batches.close()


def return_unused() -> None:
    """Freed memory goes back to the system now: of Arrow's pool, and of the system's, which numpy's arrays share."""
    pa.default_memory_pool().release_unused()
    pa.system_memory_pool().release_unused()
