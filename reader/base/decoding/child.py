"""A child process with a library that decodes files."""

from __future__ import annotations

import contextlib
import errno
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from penstock.proto.errors import InvariantViolation
from penstock.proto.value_classes import dataclass
from penstock.reader.base.decoding.frames import (
    BEGIN,
    DATA,
    DIED,
    END,
    ERROR,
    ERROR_BYTES,
    HEAD,
    LENGTH,
    NO_MEMORY,
    RANGE,
    READ,
    SERVE,
    parsed_head,
)

_MEMORY: Final = re.compile(r"MemoryError\b|memory allocation of ")
_FOR_NOW: Final = (errno.EAGAIN, errno.ENOMEM)
"""Why a process does not start now."""
_MOST_SKIPPED: Final = 1 << 20
_END_S: Final = 10

_T = TypeVar("_T")


class LibraryUnavailable(Exception):
    """A library is not installed, or does not start; the text says which."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that decodes files."""

    name: str
    """Its name in errors."""
    program: str
    """Python: it imports the library, and defines `decode(file, *arguments)`, which returns a schema and batches of it.
    `file` is open for reading if the read has a source."""
    missing: str = ""
    """A pattern of the error of a process without the library."""
    needs: str = ""
    """The text of the error then."""


class Child(io.RawIOBase):
    """A process of the library; as a file, the IPC stream of its answer.

    Errors: LibraryUnavailable; MemoryError if there is no process now.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RUST_BACKTRACE": "0"}
        try:
            self._errors = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  as long as the process
            self._process = subprocess.Popen(
                [sys.executable or "python3", "-P", "-c", BEGIN + library.program + SERVE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,  # Ctrl-C is for this process
            )
        except OSError as error:
            text = f"the library of {library.name} did not start: {error}"
            raise (MemoryError(text) if error.errno in _FOR_NOW else LibraryUnavailable(text)) from error
        if self._process.stdin is None or not isinstance(self._process.stdout, io.BufferedReader):
            raise InvariantViolation("a child process without pipes")
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._source: pa.NativeFile | None = None
        self._source_error: Exception | None = None
        self._end: bytes | None = None
        self._text = ""
        self._errors_from = self._left = 0
        self._is_started = False
        self.is_idle = False
        """Whether it has sent a whole answer."""

    @property
    def is_alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def request(self, request: Sequence[object], source: pa.NativeFile | None) -> bool:
        """Sends a request: the size of the source, and the arguments. Whether an answer begins: if not, `stream` raises
        the reason."""
        if not self._is_started:
            if self._has_data() or self._end != END:
                raise self._failure()
            self._is_started = True
        self.is_idle, self._source, self._end, self._text = False, source, None, ""
        self._errors_from = self._errors.tell()
        try:
            self._requests.write(json.dumps(request).encode() + b"\n")
            self._requests.flush()
        except OSError:
            return False
        return bool(self._answers.peek(1))

    def stream(self) -> pa.RecordBatchStreamReader:
        """The answer to the last request."""
        return self._translated(lambda: pa.ipc.open_stream(self))

    def batches(self, stream: pa.RecordBatchStreamReader) -> Generator[pa.RecordBatch, None, None]:
        """The batches of an answer."""
        while (batch := self._translated(lambda: next(stream, None))) is not None:
            yield batch
        if self._has_data() or self._end != END:
            raise self._failure()
        self._set_idle()

    def skip_rest(self) -> None:
        """Makes the process idle if it has sent the whole answer, and at most a MiB of it was not read."""
        if self.is_idle or self._end is not None or not self.is_alive:
            return
        os.set_blocking(self._answers.fileno(), False)
        rest = self._answers.read(_MOST_SKIPPED) or b""
        os.set_blocking(self._answers.fileno(), True)
        kind, offset = DATA, self._left
        while kind == DATA and offset + HEAD.size <= len(rest):
            kind, length = parsed_head(rest[offset : offset + HEAD.size])
            offset += HEAD.size + length
        if kind in (END, ERROR) and offset == len(rest):
            self._set_idle()

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytearray:
        """The next bytes of the stream, fewer only if it ends."""
        content = bytearray()
        while len(content) < size and self._has_data():
            part = self._answers.read(min(size - len(content), self._left))
            if not part:
                self._end = DIED
            self._left -= len(part)
            content += part
        return content

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._answers.close()
        self._errors.close()

    def _set_idle(self) -> None:
        self.is_idle, self._source, self._left = True, None, 0

    def _has_data(self) -> bool:
        """Whether the stream goes on. If not, `_end` is the kind of the frame that ends it. Reads of the file are
        answered."""
        while self._end is None and not self._left:
            kind, length = parsed_head(self._answers.read(HEAD.size))
            if kind == DATA:
                self._left = length
                continue
            content = self._answers.read(length)
            if len(content) < length:
                kind = DIED
            if kind == READ and self._source is not None:
                self._send_bytes(*RANGE.unpack(content))
            else:
                self._end, self._text = kind, str(content, "utf-8", "replace")
        return self._end is None

    def _send_bytes(self, begin: int, length: int) -> None:
        if self._source is None or not 0 <= length <= self._source.size() - begin <= self._source.size():
            self._end = DIED
            return
        try:
            content = self._source.read_at(length, begin)
        except Exception as error:
            self._source_error = error
            raise
        with contextlib.suppress(BrokenPipeError):  # the process has ended
            self._requests.write(LENGTH.pack(len(content)))
            self._requests.write(content)
            self._requests.flush()

    def _translated(self, action: Callable[[], _T]) -> _T:
        """A stream that ends too early as the error of the process, or of the source."""
        try:
            return action()
        except MemoryError:
            raise
        except (OSError, pa.ArrowException) as error:
            if self._source_error is not None:
                raise self._source_error from None
            raise self._failure() from error

    def _failure(self) -> Exception:
        """The error of the last request: the exception of the process, or the text that it printed since."""
        name = f"the library of {self._library.name}"
        if self._end in (ERROR, NO_MEMORY):
            text = " ".join(self._text.split())
            if self._end == NO_MEMORY:
                return MemoryError(f"{name} has too little memory: {text}")
            self._set_idle()
            reported: Exception = pa.ArrowInvalid(f"{name} failed: {text}")
            return reported
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()  # a process that has not failed ends too
        has_ended = not self._answers.read(1)
        if not has_ended:
            self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        status = self._process.returncode if has_ended else None
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(self._errors_from, size - ERROR_BYTES))
        printed = str(self._errors.read(ERROR_BYTES), "utf-8", "replace").strip().splitlines()
        lines = [line for line in printed if not line.startswith("note:")]
        panics = [after for line, after in itertools.pairwise(lines) if "panicked at" in line]
        reason = panics[0] if panics else (lines or [f"it ended with status {status}"])[-1]
        if status == -signal.SIGKILL or any(_MEMORY.search(line) for line in lines):
            return MemoryError(f"{name} has too little memory: {reason}")
        if self._is_started:
            failure: Exception = pa.ArrowInvalid(f"{name} failed: {reason}")
            return failure
        missing = self._library.missing
        is_missing = missing and any(re.match(missing, line) for line in lines)
        return LibraryUnavailable(self._library.needs if is_missing else f"{name} did not start: {reason}")
