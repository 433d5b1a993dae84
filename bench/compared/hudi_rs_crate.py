"""hudi-rs's newest crate, where no wheel of it exists: `python -m bench.compared.hudi_rs_crate` builds it.

The build needs Rust 1.94.1 or later, and `protoc` (or its path in the variable PROTOC). It took an hour on two busy
cores. Its result is in `.cache/bench`; `make bench` then has the crate as a contestant.
"""

from __future__ import annotations

import ctypes
import pathlib
import subprocess
import sys

import pyarrow as pa

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "bench" / "hudi_rs_crate"
TARGET = REPOSITORY / ".cache" / "bench" / "hudi_rs_crate"
LIBRARY = TARGET / "release" / "libhudi_rs_stream.so"
STREAM_POINTERS = 5
"""The fields of Arrow's `struct ArrowArrayStream`."""


def is_built() -> bool:
    """Whether the library is there."""
    return LIBRARY.exists()


def read_stream(path: str, columns: list[str]) -> pa.RecordBatchReader:
    """The newest rows of a table, batch by batch; of all columns if `columns` is empty. RuntimeError if hudi-rs cannot
    open the table."""
    stream = (ctypes.c_void_p * STREAM_POINTERS)()
    library = ctypes.CDLL(str(LIBRARY))
    if library.open_stream(path.encode(), ",".join(columns).encode(), stream):
        raise RuntimeError(f"hudi-rs cannot read {path}; its error is on standard error")
    return pa.RecordBatchReader._import_from_c(ctypes.addressof(stream))


def main() -> None:
    """Builds the library."""
    command = ["cargo", "build", "--release", "--manifest-path", SOURCE / "Cargo.toml", "--target-dir", TARGET]
    sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main()
