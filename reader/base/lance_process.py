"""Decodes columns of Lance files in child processes, which send them as Arrow IPC streams.

The library of Lance panics at damaged columns inside of a C callback, which ends its process. The library also prints a
warning at every later fork. So it is loaded in children only. A child serves one read after the other, and starts in
about a second.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.table.lance import NEEDS_EXTRA

_PROGRAM: Final = """
import json, sys
import pyarrow as pa
from lance.file import LanceFileReader
sys.stdout.buffer.write(b".")
sys.stdout.buffer.flush()
for line in sys.stdin.buffer:
    path, columns, rows, batch_rows = json.loads(line)
    file = LanceFileReader(path, columns=columns)
    if rows:
        batches = file.read_range(0, rows, batch_size=batch_rows, batch_readahead=1).to_batches()
    else:
        batches = pa.RecordBatchReader.from_batches(file.metadata().schema, [])
    with pa.ipc.new_stream(sys.stdout.buffer, batches.schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""
_END: Final = b"."
"""The end of the imports and of an answer. Arrow treats the end of the pipe as the end of a stream. A process that
failed also ends the pipe, so a complete answer ends with this byte."""
_MISSING: Final = re.compile(r"ModuleNotFoundError: No module named 'lance(\.file)?'")
_MEMORY: Final = re.compile(r"MemoryError\b|memory allocation of ")
_MOST_IDLE: Final = 1
_ERROR_BYTES: Final = 1 << 16
_END_S: Final = 10

_lock = threading.Lock()
_idle: list[_Child] = []


class LibraryUnavailable(Exception):
    """The library of Lance is not installed, or does not start; the text says which."""


def read_lance(
    path: str, columns: Sequence[str] | None, rows: int, batch_rows: int
) -> Generator[pa.RecordBatch, None, None]:
    """The first `rows` rows of the file, in batches. pa.ArrowInvalid if they cannot be decoded; MemoryError if the
    library has too little memory; LibraryUnavailable. A read that is not taken to its end ends its child."""
    with _answering(path, columns, rows, batch_rows) as child:
        stream = child.stream()
        while (batch := child.next_batch(stream)) is not None:
            yield batch


def lance_schema(path: str) -> pa.Schema:
    """The columns of the file. Errors as `read_lance`."""
    with _answering(path, None, 0, 1) as child:
        stream = child.stream()
        child.next_batch(stream)
        return stream.schema


class _Child:
    """A process of the library, for one read at a time. LibraryUnavailable."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RUST_BACKTRACE": "0"}
        try:
            self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  as long as the process
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process
            )
        except OSError as error:
            raise LibraryUnavailable(f"the library of Lance did not start: {error}") from error
        if self._process.stdin is None or not isinstance(self._process.stdout, io.BufferedReader):
            raise InvariantViolation("a child process without pipes")
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._errors_from = 0
        self._is_started = False

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def ask(self, path: str, columns: Sequence[str] | None, rows: int, batch_rows: int) -> bool:
        """Sends a request. Whether an answer begins: if not, `stream` raises the reason."""
        if not self._is_started:
            if self._answers.read(1) != _END:
                raise self._failure()
            self._is_started = True
        self._errors_from = self._errors.tell()
        try:
            self._requests.write(json.dumps([path, columns, rows, batch_rows]).encode() + b"\n")
            self._requests.flush()
        except OSError:
            return False
        return bool(self._answers.peek(1))

    def stream(self) -> pa.RecordBatchStreamReader:
        """The answer to the last request."""
        try:
            return pa.ipc.open_stream(self._answers)
        except (OSError, pa.ArrowException) as error:
            raise self._failure() from error

    def next_batch(self, stream: pa.RecordBatchStreamReader) -> pa.RecordBatch | None:
        """The next batch of the answer; None after the last one."""
        try:
            return stream.read_next_batch()
        except StopIteration:
            if self._answers.read(1) != _END:
                raise self._failure() from None
            return None
        except (OSError, pa.ArrowException) as error:
            raise self._failure() from error

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._answers.close()
        self._errors.close()

    def _failure(self) -> Exception:
        """The error of the last request, from what the process printed since."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()  # a process that has not failed ends too
        has_ended = not self._answers.read(1)
        if not has_ended:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        status = self._process.returncode if has_ended else None
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors_from, size - _ERROR_BYTES))
        printed = str(self._errors.read(_ERROR_BYTES), "utf-8", "replace").strip().splitlines()
        lines = [line for line in printed if not line.startswith("note:")]
        panics = [after for line, after in itertools.pairwise(lines) if "panicked at" in line]
        reason = panics[0] if panics else (lines or [f"it ended with status {status}"])[-1]
        if status == -signal.SIGKILL or any(_MEMORY.search(line) for line in lines):
            return MemoryError(f"the library of Lance has too little memory: {reason}")
        if self._is_started:
            failure: Exception = pa.ArrowInvalid(f"the library of Lance failed: {reason}")
            return failure
        is_missing = any(_MISSING.match(line) for line in lines)
        return LibraryUnavailable(NEEDS_EXTRA if is_missing else f"the library of Lance did not start: {reason}")


@contextlib.contextmanager
def _answering(path: str, columns: Sequence[str] | None, rows: int, batch_rows: int) -> Iterator[_Child]:
    """A child that was asked. A request to an idle child that has ended is repeated once."""
    child, whole = _taken(), False
    try:
        if child is not None and not child.ask(path, columns, rows, batch_rows):
            child.end()
            child = None
        if child is None:
            child = _Child()
            child.ask(path, columns, rows, batch_rows)
        yield child
        whole = True
    finally:
        if child is not None:
            _returned(child, whole=whole)


def _taken() -> _Child | None:
    """An idle child."""
    while True:
        with _lock:
            if not _idle:
                return None
            child = _idle.pop()
        if child.is_alive:
            return child
        child.end()


def _returned(child: _Child, *, whole: bool) -> None:
    with _lock:
        if whole and len(_idle) < _MOST_IDLE:
            _idle.append(child)
            return
    child.end()


def _end_all() -> None:
    with _lock:
        children, _idle[:] = _idle[:], []
    for child in children:
        child.end()


def _start_anew_in_child() -> None:
    """A fork copies the lock, which another thread may hold, and children that are not those of the new process."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_in_child)
