"""The shell of a page: `bash` and `console` blocks run one by one and share folder, variables and background jobs."""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Final

BLOCK_TIMEOUT_S: Final = 240
_SERVES: Final = re.compile(r"^penstock (serve|flight .*--listen) .*&", re.MULTILINE)
_PAUSE_S: Final = 0.05


class Shell:
    """The shell of one page; `close` ends its background jobs."""

    def __init__(self, folder: pathlib.Path, notes: pathlib.Path, environment: Mapping[str, str], served: str) -> None:
        """`folder` is the first working directory; `notes` keeps variables and folder between two blocks. `served`: the
        address at which a server that the page starts listens."""
        self._notes, self._served = notes, served
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        self._environment = {**os.environ, **environment, "PATH": path, "NO_COLOR": "1", "COLUMNS": "200"}
        (notes / "folder").write_text(str(folder))
        (notes / "variables").touch()
        self._sessions: list[int] = []

    def run(self, script: str) -> str:
        """Runs a block and returns its stdout. AssertionError with all its output if a command fails. After a
        start of a server, it returns when the server answers."""
        variables, folder = (shlex.quote(str(self._notes / name)) for name in ("variables", "folder"))
        whole = (
            f'set -eo pipefail\n. {variables}\ncd "$(cat {folder})"\n{script}\nexport -p >{variables}\npwd >{folder}\n'
        )
        out, err = self._notes / "stdout", self._notes / "stderr"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(
                ["bash", "-c", whole],
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                env=self._environment,
                start_new_session=True,
            )
            self._sessions.append(process.pid)
            code = process.wait(BLOCK_TIMEOUT_S)
        printed = out.read_text(errors="replace")
        assert code == 0, f"exit code {code}\n{script}\n--- stdout\n{printed}\n--- stderr\n{err.read_text()}"
        if _SERVES.search(script):
            self._await_server()
        return printed

    def _await_server(self) -> None:
        """Returns when a server listens at the address."""
        host, _, port = self._served.partition(":")
        until = time.monotonic() + BLOCK_TIMEOUT_S
        while True:
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
                return
            assert time.monotonic() < until, f"no server listens at {self._served}"
            time.sleep(_PAUSE_S)

    def close(self) -> None:
        """Ends the background processes."""
        for session in self._sessions:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(session, signal.SIGTERM)


def steps(console: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with the output that the page shows for it ("" if it shows none)."""
    parsed: list[tuple[str, list[str]]] = []
    is_open = False
    for line in console.splitlines():
        if line.startswith("$ "):
            parsed.append((line[2:], []))
        elif is_open:
            parsed[-1] = (f"{parsed[-1][0]}\n{line.removeprefix('> ')}", [])
        else:
            parsed[-1][1].append(line)
        is_open = line.endswith("\\") and not parsed[-1][1]
    return [(command, "\n".join(lines)) for command, lines in parsed]


def looks_like(output: str, printed: str) -> bool:
    """Whether output equals the output on a page, line by line, without trailing blanks. `…` matches any text; a line
    of only `…` matches any lines."""
    expected = [line.rstrip() for line in output.strip("\n").splitlines()]
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else r".*?".join(map(re.escape, line.split("…"))) + r"\n"
        for line in expected
    )
    return bool(re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())))
