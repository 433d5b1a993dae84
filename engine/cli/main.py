"""The entry point of the `penstock` script."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from penstock.engine.cli.standard_streams import open_closed_streams, stdout_closed
from penstock.version import __version__


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code. Prints errors on stderr."""
    open_closed_streams()
    if list(arguments) == ["--version"]:  # without the import of the command line, which takes ten times as long
        try:
            print(f"penstock {__version__}", flush=True)
        except BrokenPipeError:
            return stdout_closed()
        return 0
    from penstock.engine.cli.command_line import run_command

    return run_command(arguments)


def main() -> None:
    """Runs the command line of this process."""
    if sys.argv[1:2] == ["read"]:
        sys.meta_path.insert(0, _WithoutPandas)
    sys.exit(run(sys.argv[1:]))


class _WithoutPandas:
    """Hides pandas. Where it is installed, pyarrow imports it to ask whether a list or number is a series, which takes
    as long as a small read; the command needs none of it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)
