"""An HDFS cluster of one name node and one data node, and what a process needs to reach it by pyarrow."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.faults.served import end, until
from tests.interop.hudi_process import fetch_jars
from tests.loopback_ports import free_port

TOOLS: Final = pathlib.Path(".cache", "ops", "hdfs")
"""The folder of `libhdfs.so`, which `tools/ops_tools.sh` builds, and of the jars."""
JARS: Final = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.2",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.slf4j:slf4j-api:1.7.36",
    "commons-logging:commons-logging:1.3.0",
    "org.apache.commons:commons-lang3:3.17.0",
)
"""The cluster with its dependencies, and a library that `libhdfs.so` calls."""


def client_environment() -> dict[str, str]:
    """The environment of a process that opens `hdfs://` by pyarrow. The library starts a JVM inside of the process."""
    settings = subprocess.run(["java", "-XshowSettings:properties", "-version"], capture_output=True, text=True).stderr
    home = re.search(r"java\.home = (.+)", settings)
    jars = fetch_jars(JARS, TOOLS / "jars")
    assert home is not None and jars, "Java and Maven are needed"
    return {
        **os.environ, "JAVA_HOME": home[1].strip(), "ARROW_LIBHDFS_DIR": str(TOOLS.resolve()),
        "CLASSPATH": ":".join(str(jar.resolve()) for jar in jars), "LIBHDFS_OPTS": "-Xmx256m -Xrs",
    }  # fmt: skip


@contextmanager
def hdfs_cluster(folder: pathlib.Path) -> Iterator[str]:
    """The URI of a running cluster, whose files are in the folder."""
    log = folder / "log"
    classes = f"{TOOLS.resolve()}/jars/*"
    fetch_jars(JARS, TOOLS / "jars")
    source, data, port = pathlib.Path(__file__).with_name("Cluster.java"), str(folder / "data"), str(free_port())
    with log.open("w") as output:
        command = ["java", "-Xmx384m", "-cp", classes, str(source), data, port]
        process = subprocess.Popen(command, stdout=output, stderr=output, text=True, cwd=folder)
    try:
        until(lambda: "\nat hdfs:" in f"\n{log.read_text()}", f"the cluster is up; its log: {log}")
        yield f"hdfs://localhost:{port}"
    finally:
        end(process)
