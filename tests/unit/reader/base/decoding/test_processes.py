"""Child processes that decode: reads in turn, bytes of the source, failures, forks."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pyarrow as pa
import pytest

from penstock.reader.base.decoding.child import Child, Library, LibraryUnavailable
from penstock.reader.base.decoding.frames import parsed_head
from penstock.reader.base.decoding.processes import DecodingProcesses

PROGRAM = """
import pyarrow

def decode(file, rows, action=""):
    exec(action)
    schema = pyarrow.schema([("n", pyarrow.int64()), ("text", pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))])
    def batches():
        for row in range(rows):
            text = pyarrow.array([file.read(2).decode()]).dictionary_encode()
            yield pyarrow.record_batch([pyarrow.array([row]), text], schema=schema)
    return schema, batches()
"""
SOURCE = b"aabbccddee"


@pytest.fixture
def processes() -> Iterator[DecodingProcesses]:
    pool = DecodingProcesses(Library(name="Test", program=PROGRAM, missing="ModuleNotFoundError", needs="install it"))
    yield pool
    pool.close()


def read(
    processes: DecodingProcesses, *arguments: object, source: pa.NativeFile | None = None
) -> list[tuple[Any, ...]]:
    with processes.answer(arguments, source or pa.BufferReader(SOURCE)) as answer:
        return [tuple(row.values()) for batch in answer.batches for row in batch.to_pylist()]


def test_rows_are_decoded_from_the_bytes_of_the_source(processes: DecodingProcesses) -> None:
    assert read(processes, 3) == [(0, "aa"), (1, "bb"), (2, "cc")]
    assert read(processes, 0) == []
    assert read(processes, 7)[4:] == [(4, "ee"), (5, ""), (6, "")]


def test_child_serves_one_read_after_the_other(processes: DecodingProcesses) -> None:
    read(processes, 1)
    (child,) = processes._idle
    read(processes, 2)
    assert list(processes._idle) == [child]
    with processes.answer([100_000], pa.BufferReader(SOURCE)) as answer:
        next(answer.batches)
    assert not processes._idle, "a read that was not taken to its end"
    assert not child.is_alive


def frame(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack("<cq", kind, len(content)) + content


@pytest.mark.parametrize(
    ("sent", "is_idle"),
    [
        (b"left" + frame(b"D", b"rows") + frame(b"E"), True),
        (b"left" + frame(b"X", b"ArrowInvalid"), True),
        (b"left" + frame(b"D", b"rows"), False),
        (b"left" + frame(b"D", b"rows") + frame(b"E")[:-1], False),
        (b"left" + frame(b"R", bytes(16)), False),
        (b"left" + struct.pack("<cq", b"D", -9) * 3, False),
        (b"left" + frame(b"?") + frame(b"E"), False),
        (b"le", False),
        (b"", False),
    ],
    ids=[
        "whole",
        "failed",
        "no end",
        "part of the end",
        "a read of the source",
        "a length below 0",
        "no kind",
        "part of a frame",
        "nothing",
    ],
)
def test_child_is_idle_if_it_has_sent_the_rest(processes: DecodingProcesses, sent: bytes, is_idle: bool) -> None:
    """Four bytes of a frame were not read."""
    read(processes, 1)
    child = processes._idle[0]
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as answers, os.fdopen(writing, "wb", buffering=0) as pipe:
        pipe.write(sent)
        child.is_idle, child._left, child._end = False, 4, None
        child._answers.close()
        child._answers = answers
        child.skip_rest()
        assert child.is_idle == is_idle
        assert os.get_blocking(reading)


def test_reads_at_the_same_time_have_a_child_each(processes: DecodingProcesses) -> None:
    with (
        processes.answer([2], pa.BufferReader(SOURCE)) as one,
        processes.answer([2], pa.BufferReader(b"xxyy")) as other,
    ):
        texts = [batch.column(1).to_pylist() for pair in zip(one.batches, other.batches, strict=True) for batch in pair]
    assert texts == [["aa"], ["xx"], ["bb"], ["yy"]]
    assert len(processes._idle) == 2


def test_thread_that_reads_ahead_does_not_disturb_the_next_answer(processes: DecodingProcesses) -> None:
    """A library may read in a thread that outlives the answer: its reads then fail."""
    ahead = "threading.Thread(target=lambda f=file: [f.read(1) for _ in iter(int, 1)], daemon=True).start()"
    with processes.answer((0, ahead), pa.BufferReader(SOURCE)) as answer:
        assert list(answer.batches) == []
    assert [read(processes, 2) for _ in range(20)] == [[(0, "aa"), (1, "bb")]] * 20
    assert len(processes._idle) == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_read_is_repeated_if_the_idle_child_was_killed(
    processes: DecodingProcesses, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    read(processes, 1)
    (child,) = processes._idle
    os.kill(child._process.pid, signal.SIGKILL)
    child._process.wait()
    if not is_known:
        monkeypatch.setattr(child._process, "poll", lambda: None)
    assert len(read(processes, 3)) == 3
    assert child not in processes._idle


def test_child_is_in_a_session_of_its_own(processes: DecodingProcesses) -> None:
    read(processes, 1)
    pid = processes._idle[0]._process.pid
    assert os.getsid(pid) == pid != os.getsid(0)


def test_fork_has_no_children_of_the_other_process() -> None:
    program = """
import os
from penstock.reader.base.decoding.lance import PROCESSES
PROCESSES._idle.append(None)
child = os.fork()
if not child:
    os._exit(len(PROCESSES._idle))
PROCESSES._idle.clear()
os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-P", "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    ("at_import", "at_read", "kind", "named"),
    [
        ('raise ModuleNotFoundError("x")', "", LibraryUnavailable, "^install it$"),
        ("import sys; print('note: x', file=sys.stderr); sys.exit('old glibc')", "", LibraryUnavailable, "old glibc$"),
        ("import os; os.kill(os.getpid(), 9)", "", MemoryError, "status -9"),
        ("", "raise MemoryError", MemoryError, "MemoryError"),
        ("", "sys.exit('memory allocation of 9 bytes failed')", MemoryError, "memory allocation of 9 bytes"),
        ("", "os.kill(os.getpid(), 9)", MemoryError, "status -9"),
        ("", "os.kill(os.getpid(), 11)", pa.ArrowInvalid, "library of Test failed: it ended with status -11"),
        (
            "",
            "print('e' * 70_000 + '\\nthe end', file=sys.stderr, flush=True); os._exit(1)",
            pa.ArrowInvalid,
            "failed: the end",
        ),
        (
            "",
            "print('panicked at a:1\\nbounds\\nnote: y', file=sys.stderr, flush=True); os._exit(1)",
            pa.ArrowInvalid,
            ": bounds$",
        ),
    ],
)
def test_failures_of_the_library(at_import: str, at_read: str, kind: type[Exception], named: str) -> None:
    library = Library(name="Test", program=at_import + PROGRAM, missing="ModuleNotFoundError", needs="install it")
    processes = DecodingProcesses(library)
    with pytest.raises(kind, match=named):
        read(processes, 1, at_read)
    assert not processes._idle


def test_child_goes_on_after_an_exception(processes: DecodingProcesses) -> None:
    for text, named in (("bad bytes", "bad bytes"), ("bad\\nbytes", "bytes")):
        with pytest.raises(pa.ArrowInvalid, match=f"the library of Test failed: .*{named}$"):
            read(processes, 1, f"raise pyarrow.ArrowInvalid('{text}')")
        (child,) = processes._idle
        assert read(processes, 1) == [(0, "aa")]
        assert list(processes._idle) == [child]


def test_reason_is_of_the_read_that_failed(processes: DecodingProcesses) -> None:
    read(processes, 1, "sys.stderr.write('panicked at an earlier read\\nearlier\\n'); sys.stderr.flush()")
    with pytest.raises(pa.ArrowInvalid, match="it ended with status 3"):
        read(processes, 1, "os._exit(3)")


def test_failure_between_batches(processes: DecodingProcesses) -> None:
    """The rows before it were returned."""
    with processes.answer([3], pa.BufferReader(b"aa\xff\xff")) as answer:
        assert next(answer.batches).column("n").to_pylist() == [0]
        with pytest.raises(pa.ArrowInvalid, match="UnicodeDecodeError"):
            next(answer.batches)
    assert read(processes, 1) == [(0, "aa")]


class Failing(io.RawIOBase):
    """A source of ten bytes whose reads fail."""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return 10 if whence == io.SEEK_END else offset

    def tell(self) -> int:
        return 0

    def read(self, size: int = -1) -> bytes:
        raise ConnectionResetError("the store is away")


def test_error_of_the_source_is_raised_as_it_is(processes: DecodingProcesses) -> None:
    with pytest.raises(ConnectionResetError, match="the store is away"):
        read(processes, 1, source=pa.PythonFile(Failing(), mode="r"))
    assert not processes._idle
    assert read(processes, 1) == [(0, "aa")]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (struct.pack("<cq", b"D", 1 << 40), (b"D", 1 << 40)),
        (struct.pack("<cq", b"E", 0), (b"E", 0)),
        (struct.pack("<cq", b"R", 16), (b"R", 16)),
        (struct.pack("<cq", b"X", 1 << 16), (b"X", 1 << 16)),
        (struct.pack("<cq", b"X", (1 << 16) + 1), (b"", 0)),
        (struct.pack("<cq", b"R", 15), (b"", 0)),
        (struct.pack("<cq", b"E", 1), (b"", 0)),
        (struct.pack("<cq", b"D", -1), (b"", 0)),
        (struct.pack("<cq", b"Z", 1), (b"", 0)),
        (b"D", (b"", 0)),
        (b"", (b"", 0)),
    ],
)
def test_head_of_a_frame(head: bytes, expected: tuple[bytes, int]) -> None:
    assert parsed_head(head) == expected


KEEPING = """
import pyarrow, sys

def decode(file, rows):
    schema = pyarrow.schema([("n", pyarrow.int64())])
    def batches():
        try:
            for row in range(rows):
                yield pyarrow.record_batch([pyarrow.array([row])], schema=schema)
            raise ValueError("kept")
        except ValueError as error:
            sys.kept = error
            raise
    return schema, batches()
"""


@pytest.mark.parametrize("rows", [0, 1])
def test_exception_that_keeps_its_stream_ends_the_answer(rows: int) -> None:
    """The end of the stream is then not sent, and nothing of it in the next answer."""
    pool = DecodingProcesses(Library(name="Test", program=KEEPING))
    for _ in range(2):
        with pytest.raises(pa.ArrowInvalid, match=r"^the library of Test failed: ValueError: kept$"):
            read(pool, rows)
        assert len(pool._idle) == 1
    pool.close()


def test_text_that_the_library_prints_is_no_answer() -> None:
    pool = DecodingProcesses(Library(name="Test", program="print('hello')\n" + PROGRAM))
    assert read(pool, 1, "print('D' * 100, flush=True)") == [(0, "aa")]
    pool.close()


def test_signals_of_a_stop_are_for_the_parent(processes: DecodingProcesses) -> None:
    read(processes, 1)
    child = processes._idle[0]
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(child._process.pid, number)
    assert read(processes, 1) == [(0, "aa")]
    assert list(processes._idle) == [child]


def test_source_that_is_closed_takes_no_child(processes: DecodingProcesses) -> None:
    read(processes, 1)
    source = pa.BufferReader(SOURCE)
    source.close()
    with pytest.raises(ValueError, match="closed"):
        read(processes, 1, source=source)
    assert len(processes._idle) == 1


def test_interrupt_of_a_request_ends_the_child(processes: DecodingProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    read(processes, 1)
    child = processes._idle[0]

    def interrupted(*given: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Child, "request", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read(processes, 1)
    assert not child.is_alive


def test_interrupt_of_a_read_ends_the_child(processes: DecodingProcesses) -> None:
    """Whatever it has sent: the interrupt may be in the middle of a frame."""
    with pytest.raises(KeyboardInterrupt), processes.answer([1], pa.BufferReader(SOURCE)):
        raise KeyboardInterrupt
    assert not processes._idle


def test_read_that_is_closed_inside_of_another_call_does_not_wait(processes: DecodingProcesses) -> None:
    """As by the garbage collector, which runs inside of any call."""
    read(processes, 1)

    class Closing(list[Child]):
        """Idle children, and a read that is closed while one is removed."""

        def pop(self, *place: Any) -> Child:
            abandoned.close()
            return super().pop(*place)

    def rows() -> Generator[object, None, None]:
        with processes.answer([100_000], pa.BufferReader(SOURCE)) as answer:
            yield from answer.batches

    abandoned = rows()
    next(abandoned)
    read(processes, 1)
    processes._idle = Closing(processes._idle)  # type: ignore[assignment]
    assert read(processes, 1) == [(0, "aa")]


def test_too_little_memory_here_is_no_damage(processes: DecodingProcesses, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 9 failed")

    monkeypatch.setattr(pa.ipc, "open_stream", failing)
    with pytest.raises(MemoryError, match="malloc of size 9"):
        read(processes, 1)


@pytest.mark.parametrize(
    ("error", "kind"), [(BlockingIOError(11, "again"), MemoryError), (FileNotFoundError(2, "no"), LibraryUnavailable)]
)
def test_process_that_does_not_start(
    processes: DecodingProcesses, monkeypatch: pytest.MonkeyPatch, error: OSError, kind: type[Exception]
) -> None:
    def failing(*given: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr(subprocess, "Popen", failing)
    with pytest.raises(kind, match="the library of Test did not start"):
        read(processes, 1)
