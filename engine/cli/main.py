"""The entry point of the `penstock` script."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from penstock.version import __version__


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Prints errors on stderr."""
    _open_closed_streams()
    try:
        if list(arguments) == ["--version"]:  # without the import of the command line, which takes ten times as long
            print(f"penstock {__version__}", flush=True)
            return 0
        from penstock.engine.cli.command_line import run_command

        return run_command(arguments)
    except BrokenPipeError:
        return _stdout_closed()


def main() -> None:
    """Runs the command line of this process."""
    if sys.argv[1:2] == ["read"] and "--help" not in sys.argv:
        _load_pyarrow_without_pandas()
    code = run(sys.argv[1:])
    gc.freeze()  # at exit Python would visit the objects of all modules, a twentieth of a small read
    sys.exit(code)


def _load_pyarrow_without_pandas() -> None:
    """Where pandas is installed, pyarrow imports it to ask whether its first list is a series, which takes as long as a
    small read. It asks once, and the command needs none of it."""
    sys.meta_path.insert(0, _WithoutPandas)
    try:
        import pyarrow as pa

        pa.array([0])
    finally:
        sys.meta_path.remove(_WithoutPandas)


class _WithoutPandas:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _open_closed_streams() -> None:
    """Opens /dev/null for a stream that was closed before Python started (`>&-`); Python sets such a stream to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - as long as the process


def _stdout_closed() -> int:
    """Ends after the reader of stdout closed it, which is not an error. The flush at exit must not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
