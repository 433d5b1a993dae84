"""Prints Java's options for the suites' JVMs of Spark, and writes the archive of classes that they name.

A JVM of Spark that runs a first query spends most of its processor time on loading and compiling classes. With an
archive (Java's class data sharing) and one compiler it spends a third. JVMs with other jars, such as those of real
Hudi, ignore the archive. The suites get the options as SPARK_SUBMIT_OPTS.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
JIT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""JVMs of tests end before the second compiler or another collector would pay off."""
QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""Java warns of an archive that it cannot use."""
QUERIES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(10).selectExpr("id % 2 AS k", "id").write.parquet(sys.argv[1])
rows = spark.read.parquet(sys.argv[1]).mapInArrow(iter, "k long, id long")
rows.join(spark.range(2), "id").groupBy("k").count().orderBy("k").toArrow()
spark.stop()
"""
"""They load the classes of most tests."""


def java_options(cache: pathlib.Path, variables: Mapping[str, str]) -> str:
    """The options for JVMs of Spark. Writes the archive into `cache` unless it is there; without one if that fails."""
    import pyspark

    archive = cache / f"spark-{pyspark.__version__}-{_java(variables)}.jsa"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        part = archive.with_suffix(f".{os.getpid()}")
        options = f"{JIT} {QUIET} -XX:ArchiveClassesAtExit={part}"
        local = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": options, "PYSPARK_PYTHON": sys.executable}
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-P", "-c", QUERIES, f"{folder}/rows"]
            subprocess.run(command, env={**variables, **local}, capture_output=True)
        if not part.exists():
            return JIT
        part.rename(archive)
    return f"{JIT} {QUIET} -XX:SharedArchiveFile={archive}"


def _java(variables: Mapping[str, str]) -> str:
    home = variables.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, env=dict(variables)).stderr
    return printed.split('"')[1]


if __name__ == "__main__":
    print(java_options(REPOSITORY / ".cache", os.environ))
