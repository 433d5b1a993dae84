"""Apache Arrow's Flight client for Java: its jars (downloaded once by Maven, kept under `.cache/`), and runs of it."""

from __future__ import annotations

import fcntl
import pathlib
import shutil
import tempfile
from collections.abc import Sequence

import pyarrow as pa

from tests.kafka_broker import CACHE, checked, java

RELEASE = "18.3.0"
SOURCE = pathlib.Path(__file__).with_name("FlightReader.java")
POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>penstock.tests</groupId><artifactId>flight</artifactId><version>1</version>
<dependencies>
<dependency><groupId>org.apache.arrow</groupId><artifactId>flight-core</artifactId><version>{release}</version></dependency>
<dependency><groupId>org.apache.arrow</groupId><artifactId>arrow-memory-netty</artifactId><version>{release}</version>
</dependency>
<dependency><groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.17</version></dependency>
</dependencies></project>
"""
OPENS = "--add-opens=java.base/java.nio=org.apache.arrow.memory.core,ALL-UNNAMED"
"""Arrow's memory needs it in every JVM."""


class JavaClient:
    """The compiled client."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder, self._jars = folder, jars()
        checked(["javac", "-nowarn", "-d", str(folder), "-cp", f"{self._jars}/*", str(SOURCE)], cwd=folder)

    def run(self, address: str, requests: Sequence[str], token: str = "") -> list[tuple[str, list[pa.Table]]]:
        """The printed line of each request, and the rows of its endpoints."""
        with tempfile.TemporaryDirectory(dir=self._folder) as into:
            classes = f"{self._folder}:{self._jars}/*"
            command = [str(java()), OPENS, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classes, "FlightReader"]
            port = address.rpartition(":")[2]
            lines = checked([*command, port, token, into, *requests], cwd=self._folder).splitlines()
            assert len(lines) == len(requests), lines
            return [(line, _endpoints(pathlib.Path(into), number)) for number, line in enumerate(lines)]


def jars(release: str = RELEASE) -> pathlib.Path:
    """The folder with every jar of the client; Maven downloads them at the first call."""
    folder = CACHE / f"flight-{release}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"flight-{release}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
                (pathlib.Path(scratch) / "pom.xml").write_text(POM.format(release=release))
                goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=jars")
                checked([shutil.which("mvn") or "mvn", "-q", "--batch-mode", *goal], cwd=scratch)
                (pathlib.Path(scratch) / "jars").rename(folder)
    return folder


def _endpoints(folder: pathlib.Path, number: int) -> list[pa.Table]:
    files = sorted(folder.glob(f"{number}-*.arrow"), key=lambda file: int(file.stem.partition("-")[2]))
    tables = []
    for file in files:
        with pa.OSFile(str(file)) as source, pa.ipc.open_stream(source) as reader:
            tables.append(reader.read_all())
    return tables
