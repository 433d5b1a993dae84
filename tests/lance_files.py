"""Lance files for tests, written by a child process: the library of Lance warns of every later fork of its process."""

from __future__ import annotations

import atexit
import functools
import pathlib
import subprocess
import sys

import pyarrow as pa

_PROGRAM = """
import sys
import pyarrow as pa
from lance.file import LanceFileWriter
for line in sys.stdin:
    source, target, version = line.rstrip().split("\\t")
    with pa.ipc.open_file(source) as file:
        rows = file.read_all()
    with LanceFileWriter(target, rows.schema, version=version) as writer:
        writer.write_batch(rows)
    print(target, flush=True)
"""


def write_lance(path: pathlib.Path, rows: pa.Table, version: str = "2.0") -> bytes:
    """Writes the rows, in this version of the format, and returns the file's bytes."""
    source = path.with_suffix(".arrow")
    with pa.ipc.new_file(source, rows.schema) as file:
        file.write_table(rows)
    child = _writer()
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(f"{source}\t{path}\t{version}\n")
    child.stdin.flush()
    assert child.stdout.readline() == f"{path}\n"
    source.unlink()
    return path.read_bytes()


@functools.cache
def _writer() -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(functools.partial(child.communicate, "", 60))
    return child
