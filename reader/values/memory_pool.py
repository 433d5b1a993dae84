"""Allocates the memory of a read from the system's pool, whose pages are returned when batches are freed.

Arrow's own pool keeps freed pages, and one live buffer keeps a large page: the same read peaks at about twice the
memory (docs/development/performance.md). PyArrow's Parquet reader and most functions take no pool, so the process's
default pool is replaced while a batch is made, and restored when the batch is returned. Buffers keep a reference to
their pool, so allocations of other threads in between are safe. If ARROW_DEFAULT_MEMORY_POOL is set, that pool is used.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from types import TracebackType
from typing import Final, TypeVar

import pyarrow as pa

T = TypeVar("T")

_BATCHES_BETWEEN: Final = 4
"""Batches have one or two MiB."""

_POOL_IS_CONFIGURED: Final = bool(os.environ.get("ARROW_DEFAULT_MEMORY_POOL"))


class _SystemPool:
    """A context with the system's pool as the default pool. The last of several concurrent contexts restores it."""

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
    """The same batches, each allocated from the system's pool. Closing the generator closes `batches`."""
    if _POOL_IS_CONFIGURED:
        yield from batches
        return
    count = 0
    try:
        while True:
            with _system_pool:
                batch = next(batches, None)
            if batch is None:
                return
            yield batch
            del batch
            count += 1
            if count % _BATCHES_BETWEEN == 0:
                return_unused()
    finally:
        with _system_pool:
            batches.close()


def return_unused() -> None:
    """Returns freed memory to the system: of Arrow's pool, and of the system's, which numpy's arrays share."""
    pa.default_memory_pool().release_unused()
    pa.system_memory_pool().release_unused()
