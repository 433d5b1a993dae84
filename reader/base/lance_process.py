"""Decodes columns of Lance files in child processes, which send them as Arrow IPC streams.

The library of Lance panics at damaged columns inside of a C callback, which ends its process; it also warns of every
later fork. So it is loaded in children only. A child serves one read after the other, and starts in about a second.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.proto.errors import InvariantViolation

_PROGRAM: Final = """
import json, sys
import pyarrow as pa
from lance.file import LanceFileReader
for line in sys.stdin.buffer:
    path, columns, begin, rows, batch_rows = json.loads(line)
    file = LanceFileReader(path, columns=columns)
    if rows:
        batches = file.read_range(begin, rows, batch_size=batch_rows, batch_readahead=1).to_batches()
    else:
        batches = pa.RecordBatchReader.from_batches(file.metadata().schema, [])
    with pa.ipc.new_stream(sys.stdout.buffer, batches.schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
"""
_END_OF_ANSWER: Final = b"."
"""Arrow takes the end of the pipe, which is that of a process that failed, for the end of a stream."""
_MISSING: Final = "No module named 'lance"
_MOST_IDLE: Final = 4
_ERROR_BYTES: Final = 1 << 16
_END_S: Final = 10

_lock = threading.Lock()
_idle: list[_Child] = []


class LibraryMissing(Exception):
    """The library of Lance is not installed."""


def read_lance(
    path: str, columns: Sequence[str] | None, begin: int, rows: int, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """`rows` rows of the file from row `begin` on, in batches. pa.ArrowInvalid if they cannot be decoded;
    LibraryMissing. A read that is not taken to its end ends its child."""
    child = _taken()
    whole = False
    try:
        yield from child.answer(path, columns, begin, rows, batch_rows)
        whole = True
    finally:
        _returned(child, whole=whole)


def lance_schema(path: str) -> pa.Schema:
    """The columns of the file. Errors as `read_lance`."""
    child = _taken()
    whole = False
    try:
        schema = child.schema(path)
        whole = True
        return schema
    finally:
        _returned(child, whole=whole)


class _Child:
    """A process of the library, for one read at a time."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  as long as the process
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RUST_BACKTRACE": "0"}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
        )
        if self._process.stdin is None or self._process.stdout is None:
            raise InvariantViolation("a child process without pipes")
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def schema(self, path: str) -> pa.Schema:
        """The columns of the file."""
        stream = self._stream(path, None, 0, 0, 1)
        self._next(stream)
        return stream.schema

    def answer(
        self, path: str, columns: Sequence[str] | None, begin: int, rows: int, batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        """The batches of one read."""
        stream = self._stream(path, columns, begin, rows, batch_rows)
        while (batch := self._next(stream)) is not None:
            yield batch

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait(_END_S)
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._answers.close()
        self._errors.close()

    def _stream(
        self, path: str, columns: Sequence[str] | None, begin: int, rows: int, batch_rows: int
    ) -> pa.RecordBatchStreamReader:
        try:
            self._requests.write(json.dumps([path, columns, begin, rows, batch_rows]).encode() + b"\n")
            self._requests.flush()
            return pa.ipc.open_stream(self._answers)
        except (OSError, pa.ArrowException) as error:
            raise self._failure() from error

    def _next(self, stream: pa.RecordBatchStreamReader) -> pa.RecordBatch | None:
        try:
            return stream.read_next_batch()
        except StopIteration:
            if self._answers.read(1) != _END_OF_ANSWER:
                raise self._failure() from None
            return None
        except (OSError, pa.ArrowException) as error:
            raise self._failure() from error

    def _failure(self) -> Exception:
        """The error that the process printed."""
        self._process.kill()
        self._process.wait(_END_S)
        self._errors.seek(0)
        lines = str(self._errors.read(_ERROR_BYTES), "utf-8", "replace").strip().splitlines()
        if any(_MISSING in line for line in lines):
            return LibraryMissing(lines[-1])
        panics = [after for line, after in itertools.pairwise(lines) if "panicked at" in line]
        reason = panics[0] if panics else (lines or [f"it ended with status {self._process.returncode}"])[-1]
        failure: Exception = pa.ArrowInvalid(f"the library of Lance failed: {reason}")
        return failure


def _taken() -> _Child:
    with _lock:
        while _idle:
            child = _idle.pop()
            if child.owner == os.getpid():
                return child
    return _Child()


def _returned(child: _Child, *, whole: bool) -> None:
    with _lock:
        if whole and len(_idle) < _MOST_IDLE:
            _idle.append(child)
            return
    child.end()


def _end_all() -> None:
    with _lock:
        children, _idle[:] = [child for child in _idle if child.owner == os.getpid()], []
    for child in children:
        child.end()


atexit.register(_end_all)
