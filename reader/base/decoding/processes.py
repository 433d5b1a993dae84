"""The child processes of a library that decodes files, and ends its process at some damaged ones."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.proto.value_classes import dataclass
from penstock.reader.base.decoding.child import Child, Library

_MOST_IDLE: Final = 2

_pools: Final[weakref.WeakSet[DecodingProcesses]] = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a read."""

    schema: pa.Schema
    """The columns."""
    batches: Iterator[pa.RecordBatch]
    """The rows. Errors as `DecodingProcesses.answer`."""


class DecodingProcesses:
    """The child processes of a library. Each serves one read at a time; up to two wait for later reads."""

    def __init__(self, library: Library) -> None:
        self.library = library
        # without a lock: the garbage collector may close a read inside of any call
        self._idle: deque[Child] = deque()
        _pools.add(self)

    @contextlib.contextmanager
    def answer(self, arguments: Sequence[object], source: pa.NativeFile | None = None) -> Iterator[Answer]:
        """The result of `decode` for these arguments (JSON) and the bytes of `source`. A read that is not taken to its
        end ends its child, unless the child has sent everything.

        Errors: pa.ArrowInvalid if the library fails or ends its process; MemoryError if it has too little memory, or
        this process; LibraryUnavailable; those of a read of the source.
        """
        size = 0 if source is None else source.size()
        child = self._started_read([size, *arguments], source)
        try:
            stream = child.stream()
            yield Answer(stream.schema, child.batches(stream))
        except (Exception, GeneratorExit):
            child.skip_rest()
            raise
        else:
            child.skip_rest()
        finally:
            self._keep_or_close(child)

    def close(self) -> None:
        """Ends the idle children."""
        while (child := self._next_idle()) is not None:
            child.end()

    def reset_after_fork(self) -> None:
        """Forgets the children, which are those of the other process."""
        self._idle.clear()

    def _started_read(self, request: Sequence[object], source: pa.NativeFile | None) -> Child:
        """A child with a request. A request to an idle child that has ended is repeated once."""
        child = self._next_idle()
        if child is not None:
            if _is_answered(child, request, source):
                return child
            child.end()
        child = Child(self.library)
        _is_answered(child, request, source)
        return child

    def _next_idle(self) -> Child | None:
        while True:
            try:
                child = self._idle.pop()
            except IndexError:
                return None
            if child.is_alive:
                return child
            child.end()

    def _keep_or_close(self, child: Child) -> None:
        if child.is_idle and len(self._idle) < _MOST_IDLE:
            self._idle.append(child)
        else:
            child.end()


def _is_answered(child: Child, request: Sequence[object], source: pa.NativeFile | None) -> bool:
    try:
        return child.request(request, source)
    except BaseException:
        child.end()
        raise


def _close_all() -> None:
    for pool in list(_pools):
        pool.close()


def _reset_all() -> None:
    for pool in list(_pools):
        pool.reset_after_fork()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
