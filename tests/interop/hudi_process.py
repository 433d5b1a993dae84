"""Releases of Hudi: their environment (created once, kept under `.cache/`), and a process of one release."""

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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.interop.peer_process import PeerProcess

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
REQUIREMENTS = REPOSITORY / "requirements" / "hudi-peer.txt"
BUNDLE = "org.apache.hudi:hudi-spark3.5-bundle_2.12"
KAFKA_SOURCE = (
    "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.7",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.7",
    "org.apache.kafka:kafka-clients:3.4.1",
    "org.apache.commons:commons-pool2:2.11.1",
)
"""Spark's Kafka source, and its dependencies."""
JAVA_CLIENT = "org.apache.hudi:hudi-java-client:1.2.0"
"""Hudi's writer without Spark. It needs the bundle of the same release: 1.2.1 calls methods that 1.2.0 does not have.
"""

NEWEST = "1.2.0"
OLD = "0.15.0"
CACHE = REPOSITORY / ".cache" / "hudi"


@dataclass(frozen=True)
class HudiEnvironment:
    """The environment of a release: a Python with PySpark 3.5, its bundle, and optionally Spark's Kafka source and the
    Java client. If `jar` is None, Spark resolves bundle and source."""

    python: pathlib.Path
    release: str
    jar: pathlib.Path | None
    kafka_source: tuple[pathlib.Path, ...] = ()
    java_client: tuple[pathlib.Path, ...] = ()

    def bundle_arguments(self) -> list[str]:
        if self.jar:
            return ["--jar", ",".join(map(str, (self.jar, *self.kafka_source, *self.java_client)))]
        return ["--package", f"{BUNDLE}:{self.release},{KAFKA_SOURCE[0]}", "--ivy", str(CACHE / "ivy")]


def run(*command: str | pathlib.Path) -> None:
    """Runs a set-up step. Its output is the error's text."""
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=900)
    if result.returncode:
        raise RuntimeError(f"{command[0]} failed ({result.returncode}): {(result.stdout + result.stderr)[-3000:]}")


def make_python(home: pathlib.Path, requirements: pathlib.Path = REQUIREMENTS) -> pathlib.Path:
    """A new environment with only the required PySpark."""
    run(sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    run(sys.executable, "-m", "pip", "--python", python, "install", *options, "-r", requirements)
    return python


def fetch_bundle(release: str, folder: pathlib.Path) -> pathlib.Path | None:
    """Downloads a release's bundle with Maven; None: Maven is not on the PATH, and Spark's resolver is used."""
    maven = shutil.which("mvn")
    if not maven:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    artifact = f"-Dartifact={BUNDLE}:{release}"
    run(maven, "--batch-mode", "-q", "dependency:copy", artifact, f"-DoutputDirectory={folder}")
    (jar,) = folder.glob("*.jar")
    return jar


def fetch_jars(artifacts: Sequence[str], folder: pathlib.Path) -> tuple[pathlib.Path, ...]:
    """Downloads artifacts with Maven without their dependencies, each jar once; empty without Maven."""
    maven = shutil.which("mvn")
    if not maven:
        return ()
    folder.mkdir(parents=True, exist_ok=True)
    for artifact in artifacts:
        _, name, release = artifact.split(":")
        if not (folder / f"{name}-{release}.jar").exists():
            copy = (f"-Dartifact={artifact}", f"-DoutputDirectory={folder}")
            run(maven, "--batch-mode", "-q", "dependency:copy", *copy)
    return tuple(sorted(folder.glob("*.jar")))


def ready_python() -> pathlib.Path:
    """The Python of every release. `ready.json` is written last, so that an incomplete environment is created again."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()
    ready, home = CACHE / "ready.json", CACHE / "venv"
    if ready.exists() and json.loads(ready.read_text())["of"] == digest and (home / "bin" / "python").exists():
        return home / "bin" / "python"
    ready.unlink(missing_ok=True)
    shutil.rmtree(home, ignore_errors=True)
    python = make_python(home)
    ready.write_text(json.dumps({"of": digest}))
    return python


def ready_bundle(release: str) -> pathlib.Path | None:
    """A release's bundle, downloaded once; None leaves it to Spark."""
    digest = hashlib.sha256(f"{BUNDLE}:{release}".encode()).hexdigest()
    ready = CACHE / "jars" / f"{release}.json"
    if ready.exists():
        entry = json.loads(ready.read_text())
        jar = pathlib.Path(entry["jar"]) if entry["jar"] else None
        if entry["of"] == digest and (jar is None or jar.exists()):
            return jar
    jar = fetch_bundle(release, CACHE / "jars" / release)
    ready.parent.mkdir(parents=True, exist_ok=True)
    ready.write_text(json.dumps({"of": digest, "jar": str(jar) if jar else None}))
    return jar


def make_environment(release: str = NEWEST) -> HudiEnvironment:
    """Creates the environment if it does not exist: one Python and Kafka source for all releases, a bundle for each."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kafka_source = fetch_jars(KAFKA_SOURCE, CACHE / "jars" / "kafka-source")
        java_client = fetch_jars([JAVA_CLIENT], CACHE / "jars" / "java-client") if release == NEWEST else ()
        return HudiEnvironment(ready_python(), release, ready_bundle(release), kafka_source, java_client)


class Hudi(PeerProcess):
    """A process of a Hudi release that writes tables and returns the rows of its own reader. One request at a time,
    from any thread."""

    def __init__(self, environment: HudiEnvironment, folder: pathlib.Path) -> None:
        driver = pathlib.Path(__file__).with_name("hudi_writer.py")
        super().__init__([environment.python, driver, *environment.bundle_arguments()], folder)
        self._answers = itertools.count(1)

    def write(
        self,
        table: pathlib.Path,
        columns: Sequence[tuple[str, str]],
        rows: Sequence[Sequence[Any]],
        options: Mapping[str, str],
        gate: pathlib.Path | None = None,
    ) -> list[tuple[str, str | None, str]]:
        """One write; the instants completed meanwhile as (requested, completion, action).

        The first column must be a string if there is a `gate`: then the rows are held back until this file exists.
        """
        request = {"do": "write", "path": str(table), "columns": columns, "rows": rows, "options": dict(options)}
        if gate is not None:
            request["gate"] = str(gate)
        return [tuple(instant) for instant in self._ask(request)]

    def write_query(self, table: pathlib.Path, select: str, options: Mapping[str, str]) -> None:
        """One write of a SQL query's rows."""
        self._ask({"do": "write", "path": str(table), "select": select, "options": dict(options)})

    def write_records(self, table: pathlib.Path, **request: Any) -> None:
        """One write of Avro records by the Java client (`hudi_java_client.java_write`)."""
        self._ask({"do": "java_write", "path": str(table), **request})

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

    def write_range(self, table: pathlib.Path, **request: Any) -> None:
        """One write of a range of a topic (`hudi_topics.write_range`)."""
        self._ask({"do": "write_range", "path": str(table), **request})

    def run_sink(self, table: pathlib.Path, **request: Any) -> None:
        """A streaming query up to the topic's end (`hudi_topics.run_sink`)."""
        self._ask({"do": "run_sink", "path": str(table), **request})

    def instants(self, table: pathlib.Path) -> list[tuple[str, str | None, str]]:
        """The table's completed instants as (requested, completion, action)."""
        return [tuple(instant) for instant in self._ask({"do": "instants", "path": str(table)})]

    def completion_times(self, table: pathlib.Path, requested: Sequence[str]) -> list[str | None]:
        """The completion time of each instant, active or archived, by Hudi's own view; None if it knows none."""
        request = {"do": "completion_times", "path": str(table), "requested": list(requested)}
        answer: list[str | None] = self._ask(request)
        return answer

    def flink_range(self, table: pathlib.Path, start: str | None, end: str | None) -> list[str]:
        """The requested times of the instants that Flink's source reads between the two options (`hudi_ranges`)."""
        answer: list[str] = self._ask({"do": "flink_range", "path": str(table), "start": start, "end": end})
        return answer

    def option_names(self) -> list[str]:
        """The names of the options of Hudi's Spark source and readers."""
        answer: list[str] = self._ask({"do": "option_names"})
        return answer

    def add_jar(self, jar: pathlib.Path) -> None:
        """Makes the classes of a jar available to Hudi, as merger or payload class. Once for a process."""
        self._ask({"do": "add_jar", "jar": str(jar)})

    def call(self, statement: str) -> list[dict[str, Any]]:
        """A SQL statement, such as a procedure call."""
        answer: list[dict[str, Any]] = self._ask({"do": "sql", "text": statement})
        return answer

    def script(self, settings: Mapping[str, str], statements: Sequence[str]) -> None:
        """SQL statements in order, under session settings that are reset afterwards."""
        self._ask({"do": "script", "settings": dict(settings), "texts": list(statements)})

    @contextlib.contextmanager
    def by_rows(self, switch: bool = True) -> Iterator[None]:
        """Uses Parquet's row reader instead of the vectorized one while the block runs, if `switch`."""
        if switch:
            self.call("set spark.sql.parquet.enableVectorizedReader=false")
        try:
            yield
        finally:
            if switch:
                self.call("reset spark.sql.parquet.enableVectorizedReader")

    def read(self, table: pathlib.Path, **options: str) -> pa.Table:
        """The rows of Hudi's reader. Option names have `__` instead of dots."""
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


@contextlib.contextmanager
def running(release: str, folder: pathlib.Path) -> Iterator[Hudi]:
    """A release's process while the block runs. If it does not start, the test fails in CI and is skipped elsewhere."""
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
