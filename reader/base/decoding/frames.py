"""The frames of a child process that decodes files, and its program.

A child imports a library, and then serves one read after the other. It sends Arrow IPC streams, and requests bytes of
the file, so that it can read a file of any storage. Both are frames: a kind, a length, and so many bytes.
"""

from __future__ import annotations

import struct
import sys
from typing import Final

HEAD: Final = struct.Struct("<cq")
"""Kind and length of a frame."""
DATA: Final = b"D"
"""The next bytes of an IPC stream."""
READ: Final = b"R"
"""A request for bytes of the file, `RANGE`. The answer is `LENGTH`, and so many bytes."""
END: Final = b"E"
"""The end of the imports, and of an answer."""
ERROR: Final = b"X"
"""The end of an answer by an exception, whose text the frame has. The process serves the next read."""
NO_MEMORY: Final = b"M"
"""The same for a MemoryError."""
DIED: Final = b""
"""Instead of a kind: the process ended, or sent something else than frames."""
RANGE: Final = struct.Struct("<qq")
"""The first byte, and how many."""
LENGTH: Final = struct.Struct("<q")
"""How many bytes."""
ERROR_BYTES: Final = 1 << 16
"""The most bytes of the text of an error."""

BEGIN: Final = """
import io, json, os, signal, struct, sys, threading, traceback
requests, answers, lock = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"), threading.Lock()
os.dup2(2, 1)  # what a library prints is no answer
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)  # they are for the parent, whose end closes the pipes

def send(kind, content=b""):
    answers.write(struct.pack("<cq", kind, len(content)))
    answers.write(content)
    answers.flush()

class Frames(io.RawIOBase):
    is_open = True

    def writable(self):
        return True

    def write(self, content):
        if self.is_open:
            with lock:
                send(b"D", content)
        return len(content)

class File(io.RawIOBase):
    def __init__(self, size):
        self.size, self.offset, self.is_open = size, 0, True

    def readable(self):
        return True

    def seekable(self):
        return True

    def seek(self, offset, whence=0):
        self.offset = offset + (0, self.offset, self.size)[whence]
        return self.offset

    def tell(self):
        return self.offset

    def read(self, size=-1):
        left = max(0, self.size - self.offset)
        with lock:
            if not self.is_open:
                raise OSError("the answer has ended")
            send(b"R", struct.pack("<qq", self.offset, left if size < 0 else min(size, left)))
            content = requests.read(*struct.unpack("<q", requests.read(8)))
        self.offset += len(content)
        return content
"""
"""The first part of the program: `File` is the file of a read."""
SERVE: Final = """
import pyarrow as pa

def serve(file, *arguments):
    schema, batches = decode(file, *arguments)
    frames = Frames()
    buffered = io.BufferedWriter(frames, 1 << 20)
    try:
        with pa.ipc.new_stream(buffered, schema) as stream:
            for batch in batches:
                stream.write_batch(batch)
                buffered.flush()
        buffered.flush()
    finally:
        frames.is_open = False  # an exception may keep it

send(b"E")
status = 0
try:
    for line in requests:
        size, *arguments = json.loads(line)
        file, end = File(size), (b"E",)
        try:
            serve(file, *arguments)
        except Exception as error:
            kind = b"M" if isinstance(error, MemoryError) else b"X"
            text = "".join(traceback.format_exception_only(error))
            end = kind, text.encode("utf-8", "replace")[: 1 << 16]
        with lock:  # a thread of the library may read ahead
            file.is_open = False
            send(*end)
except BaseException:
    traceback.print_exc()
    sys.stderr.flush()
    status = 1
os._exit(status)  # the end of Python would wait for a thread that reads
"""
"""The last part. The part between them defines `decode`."""


def parsed_head(head: bytes) -> tuple[bytes, int]:
    """Kind and length of a frame; `DIED` and 0 for anything else."""
    if len(head) == HEAD.size:
        kind, length = HEAD.unpack(head)
        most = {DATA: sys.maxsize, READ: RANGE.size, END: 0, ERROR: ERROR_BYTES, NO_MEMORY: ERROR_BYTES}
        if 0 <= length <= most.get(kind, -1) and (kind != READ or length == RANGE.size):
            return bytes(kind), length
    return DIED, 0
