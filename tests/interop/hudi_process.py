"""Releases of real Hudi: their environment (made once, kept under `.cache/`), and a process of one of them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = REPOSITORY / "requirements" / "hudi-peer.txt"
BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12"
NEWEST = "1.2.0"
CACHE = REPOSITORY / ".cache" / "hudi"
SIGNS_OF_A_LOST_SESSION = ("OutOfMemoryError", "stopped SparkContext", "ConnectionRefusedError", "Py4JNetworkError")
"""In an error: the JVM is no use any more, and the next request starts another."""


@dataclass(frozen=True)
class HudiEnvironment:
    """Where a release runs: a Python with PySpark 3.5, and its bundle; `jar` None lets Spark resolve the bundle."""

    python: pathlib.Path
    release: str
    jar: pathlib.Path | None

    def bundle_arguments(self) -> list[str]:
        if self.jar:
            return ["--jar", str(self.jar)]
        return ["--package", f"{BUNDLE}:{self.release}", "--ivy", str(CACHE / "ivy")]


def run(*command: str | pathlib.Path) -> None:
    """Runs a set-up step; what it printed is the error's text."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900)
    if result.returncode:
        raise RuntimeError(f"{command[0]} failed ({result.returncode}): {(result.stdout + result.stderr)[-3000:]}")


def make_python(home: pathlib.Path) -> pathlib.Path:
    """A new environment with PySpark 3.5 and nothing else."""
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, "-r", REQUIREMENTS)
    return python


def fetch_bundle(release: str, folder: pathlib.Path) -> pathlib.Path | None:
    """A release's bundle by Maven where that is on the PATH; None leaves it to Spark's own resolver."""
    maven = shutil.which("mvn")
    if not maven:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    artifact = f"-Dartifact={BUNDLE}:{release}"
    run(maven, "--batch-mode", "-q", "dependency:copy", artifact, f"-DoutputDirectory={folder}")
    (jar,) = folder.glob("*.jar")
    return jar


def ready_python() -> pathlib.Path:
    """The Python of every release; `ready.json` is written last, so a half-made one is made anew."""
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    ready, home = CACHE / "ready.json", CACHE / "venv"
    if ready.exists() and json.loads(ready.read_text())["of"] == wanted and (home / "bin" / "python").exists():
        return home / "bin" / "python"
    ready.unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    python = make_python(home)
    ready.write_text(json.dumps({"of": wanted}))
    return python


def ready_bundle(release: str) -> pathlib.Path | None:
    """A release's bundle, fetched once; None leaves it to Spark."""
    wanted = hashlib.sha256(f"{BUNDLE}:{release}".encode()).hexdigest()
    ready = CACHE / "jars" / f"{release}.json"
    if ready.exists():
        made = json.loads(ready.read_text())
        jar = pathlib.Path(made["jar"]) if made["jar"] else None
        if made["of"] == wanted and (jar is None or jar.exists()):
            return jar
    jar = fetch_bundle(release, CACHE / "jars" / release)
    ready.parent.mkdir(parents=True, exist_ok=True)
    ready.write_text(json.dumps({"of": wanted, "jar": str(jar) if jar else None}))
    return jar


def make_environment(release: str = NEWEST) -> HudiEnvironment:
    """Makes the environment, or finds it made: one Python for all releases, a bundle for each."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return HudiEnvironment(ready_python(), release, ready_bundle(release))


class Hudi:
    """A release of real Hudi: writes tables, and answers queries with the rows its own reader returns; one request at
    a time, from any thread."""

    def __init__(self, environment: HudiEnvironment, folder: pathlib.Path) -> None:
        self._environment, self._folder = environment, folder
        self._answers, self._asking = itertools.count(1), threading.Lock()
        self._log = (folder / "spark.log").open("w")
        self._start()

    def _start(self) -> None:
        environment, self._is_lost = self._environment, False
        driver = pathlib.Path(__file__).with_name("hudi_writer.py")
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK", "PYTHON"))
        }
        self._process = subprocess.Popen(
            [str(environment.python), str(driver), *environment.bundle_arguments()],
            cwd=self._folder,
            env={**kept, "PYSPARK_PYTHON": str(environment.python)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def started(self) -> None:
        """Waits until it answers."""
        self._answer()

    def write(
        self,
        table: pathlib.Path,
        columns: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[Any]],
        options: Mapping[str, str],
    ) -> list[tuple[str, str | None, str]]:
        """One write; the instants it completed as (requested, completion, action)."""
        request = {"do": "write", "path": str(table), "columns": columns, "rows": rows, "options": dict(options)}
        return [tuple(instant) for instant in self._ask(request)]

    def write_query(self, table: pathlib.Path, select: str, options: Mapping[str, str]) -> None:
        """One write of a SQL query's rows."""
        self._ask({"do": "write", "path": str(table), "select": select, "options": dict(options)})

    def race(
        self,
        table: pathlib.Path,
        columns: Sequence[tuple[str, str]],
        slow: tuple[Sequence[Sequence[Any]], Mapping[str, str]],
        fast: tuple[Sequence[Sequence[Any]], Mapping[str, str]],
    ) -> list[tuple[str, str | None, str]]:
        """Two writes of (rows, options): `slow` is requested first, `fast` completes first."""
        writes = {
            name: {"columns": columns, "rows": rows, "options": dict(options)}
            for name, (rows, options) in (("slow", slow), ("fast", fast))
        }
        return [tuple(instant) for instant in self._ask({"do": "race", "path": str(table), **writes})]

    def instants(self, table: pathlib.Path) -> list[tuple[str, str | None, str]]:
        """The table's completed instants as (requested, completion, action)."""
        return [tuple(instant) for instant in self._ask({"do": "instants", "path": str(table)})]

    def call(self, statement: str) -> list[dict[str, Any]]:
        """A SQL statement, such as a procedure call."""
        answer: list[dict[str, Any]] = self._ask({"do": "sql", "text": statement})
        return answer

    def script(self, settings: Mapping[str, str], statements: Sequence[str]) -> None:
        """SQL statements one after the other, under session settings that are taken back."""
        self._ask({"do": "script", "settings": dict(settings), "texts": list(statements)})

    def read(self, table: pathlib.Path, **options: str) -> pa.Table:
        """The rows Hudi's reader returns; option names are written with `__` for a dot."""
        into = self._folder / f"answer-{next(self._answers)}"
        named = {name.replace("__", "."): value for name, value in options.items()}
        self._ask({"do": "read", "path": str(table), "options": named, "into": str(into)})
        return ds.dataset(into, format="parquet").to_table()

    def incremental(self, table: pathlib.Path, begin: str, end: str) -> pa.Table:
        """Hudi's rows of (begin, end]: completion times on layout 2, requested times on layout 1."""
        return self.read(
            table,
            hoodie__datasource__query__type="incremental",
            hoodie__datasource__read__begin__instanttime=begin,
            hoodie__datasource__read__end__instanttime=end,
        )

    def changes(self, table: pathlib.Path, begin: str, end: str) -> pa.Table:
        """Hudi's change data of (begin, end], requested times in every version: op, ts_ms, before, after."""
        return self.read(
            table,
            hoodie__datasource__query__type="incremental",
            hoodie__datasource__query__incremental__format="cdc",
            hoodie__datasource__read__begin__instanttime=begin,
            hoodie__datasource__read__end__instanttime=end,
        )

    def stop(self) -> None:
        """Ends the process and its JVM."""
        self._end()
        self._log.close()

    def _end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, 9)
            self._process.wait(30)
        self._process.stdout.close()

    def _ask(self, request: Mapping[str, Any]) -> Any:
        with self._asking:
            return self._answered(request)

    def _answered(self, request: Mapping[str, Any]) -> Any:
        if self._is_lost:
            self._end()
            self._start()
            self.started()
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            self._is_lost = True
            self._log.flush()
            raise RuntimeError(f"Hudi's process ended: {(self._folder / 'spark.log').read_text()[-3000:]}")
        answer = json.loads(line)
        if "error" in answer:
            self._is_lost = any(sign in answer["error"] for sign in SIGNS_OF_A_LOST_SESSION)
            raise RuntimeError(answer["error"])
        return answer["ok"]


@contextlib.contextmanager
def running(release: str, folder: pathlib.Path) -> Iterator[Hudi]:
    """A release's process while it is needed. In CI it must come up; elsewhere the test is skipped with the reason."""
    try:
        peer = Hudi(make_environment(release), folder)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"Hudi {release} could not be set up: {error}")
    try:
        peer.started()
        yield peer
    finally:
        peer.stop()
