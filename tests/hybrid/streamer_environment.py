"""The environment of the real HoodieStreamer: its jars by Maven and a Python with PySpark 3.4, created once in
`.cache/`.

Only Hudi 0.14.0 publishes the Streamer's module as a separate jar, without its dependencies: these are in Hudi's Spark
bundle under relocated names. Therefore the calls of the module are relocated to these names, as the bundle does.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import pathlib
import shutil
import sys
import tempfile
from typing import Final

from tests.hybrid.moved_classes import move
from tests.interop.hudi_process import REPOSITORY, make_python
from tests.kafka_broker import checked

RELEASE: Final = "0.14.0"
SPARK: Final = "3.4.1"
"""The release that Hudi 0.14.0 was built with; its Kafka source supports no other release of this line."""
MODULE: Final = f"org.apache.hudi:hudi-utilities_2.12:{RELEASE}"
ARTIFACTS: Final = (
    MODULE,
    f"org.apache.hudi:hudi-spark3.4-bundle_2.12:{RELEASE}",
    f"org.apache.spark:spark-streaming-kafka-0-10_2.12:{SPARK}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.12:{SPARK}",
    "org.apache.kafka:kafka-clients:3.3.2",
    "com.twitter:bijection-core_2.12:0.9.7",
    "com.twitter:bijection-avro_2.12:0.9.7",
)
"""The module and its dependencies, including those that are only loaded."""
PACKAGES: Final = ("com/beust/jcommander", "com/codahale/metrics", "org/apache/commons/io", "org/apache/spark/sql/avro")
BELOW: Final = "org/apache/hudi"
REQUIREMENTS: Final = REPOSITORY / "requirements" / "hudi-streamer.txt"
CACHE: Final = REPOSITORY / ".cache" / f"hudi-streamer-{RELEASE}"
DEPENDENCY: Final = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)
POM: Final = (
    "<project><modelVersion>4.0.0</modelVersion><groupId>penstock.tests</groupId><artifactId>streamer</artifactId>"
    "<version>1</version><dependencies>{}</dependencies></project>"
)


def command() -> list[str | pathlib.Path]:
    """The command that starts the Streamer. The first call creates the environment (one or two minutes)."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        content = REQUIREMENTS.read_bytes() + "".join((*ARTIFACTS, *PACKAGES, sys.version)).encode()
        digest, ready = hashlib.sha256(content).hexdigest(), CACHE / "ready.json"
        jars, home = CACHE / "jars", CACHE / "venv"
        if not ready.exists() or json.loads(ready.read_text())["of"] != digest:
            ready.unlink(missing_ok=True)
            for folder in (jars, home):
                shutil.rmtree(folder, ignore_errors=True)
            _fetch(jars)
            make_python(home, REQUIREMENTS)
            ready.write_text(json.dumps({"of": digest}))
    class_path = ":".join(str(jar) for jar in sorted(jars.glob("*.jar")))
    return [home / "bin" / "python", pathlib.Path(__file__).with_name("streamer_process.py"), class_path]


def _fetch(folder: pathlib.Path) -> None:
    """Downloads only these jars and relocates the calls of the module."""
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("the Streamer's jars are fetched by Maven: no 'mvn' on the PATH")
    with tempfile.TemporaryDirectory(dir=CACHE) as content:
        digest = "".join(DEPENDENCY.format(*artifact.split(":")) for artifact in ARTIFACTS)
        (pathlib.Path(content) / "pom.xml").write_text(POM.format(digest))
        goal = ("dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}")
        checked([maven, "-q", "--batch-mode", *goal], cwd=content)
    _, name, release = MODULE.split(":")
    unmoved = folder / f"{name}-{release}.jar"
    move(unmoved, folder / f"{name}-{release}-moved.jar", PACKAGES, BELOW)
    unmoved.unlink()
