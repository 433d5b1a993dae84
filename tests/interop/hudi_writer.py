"""Hudi in a separate process: writes and reads tables, one JSON line per request.

Run by the Python of the peer environment (PySpark 3.5), never imported by the suite:
    python hudi_writer.py --jar BUNDLE.jar,MORE.jar                   the bundle and other jars, or
    python hudi_writer.py --package GROUP:NAME:VERSION,… --ivy FOLDER   resolved by Spark itself

Requests on stdin, one response on stdout each, `{"ok": …}` or `{"error": text}`:
    {"do": "write", "path", "columns", "rows", "options"}   columns: [[name, SQL expression over c0, c1, …]]
    {"do": "write", "path", "select", "options"}             the rows of a SQL query
    {"do": "write", …, "gate"}                               its rows are held back until there is a file `gate`;
                                                             there is a file `gate.reached` when they are read
    {"do": "sql", "text"}                                    a procedure call such as run_compaction
    {"do": "script", "settings", "texts"}                    statements under session settings that are taken back
    {"do": "read", "path", "options", "into"}                Hudi's rows as Parquet files in the folder `into`
    {"do": "race", "path", "slow", "fast"}                   two writes (as above): `slow` is requested first, and its
                                                             rows are held back until `fast` is done
    {"do": "write_range" or "run_sink", "path", …}           from a topic (hudi_topics)
    {"do": "java_write", "path", …}                          Avro records by the Java client (hudi_java_client)
    {"do": "instants", "path"}                               [[requested, completion or null, action]] of completed ones
    {"do": "flink_range" or "option_names", …}               ranges of Flink's source, names of options (hudi_ranges)
    {"do": "add_jar", "jar"}                                 makes a jar's classes available to Hudi
    {"do": "completion_times", "path", "requested"}          what Hudi's own view of completion times has for each
"""

import argparse
import json
import os
import pathlib
import re
import sys
import threading
import time
import traceback

COMPLETED_V2 = re.compile(r"(\d+)_(\d+)\.(\w+)")
COMPLETED_V1 = re.compile(r"(\d+)\.(commit|deltacommit|replacecommit|clean|rollback|savepoint|restore)")


def start_spark(jar, package, ivy):
    """A small local session with Hudi, in UTC, without UI."""
    from pyspark.sql import SparkSession

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.default.parallelism", "1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -XX:TieredStopAtLevel=1")
        .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        .config("spark.sql.warehouse.dir", str(pathlib.Path.cwd() / "warehouse"))
    )
    if jar:
        builder = builder.config("spark.jars", jar)
    else:
        builder = builder.config("spark.jars.packages", package).config("spark.jars.ivy", ivy)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def frame(spark, columns, rows):
    """Rows from JSON, projected by SQL: `columns` are [name, expression] over the values c0, c1, …."""
    fields = ", ".join(f"{expression} AS {name}" for name, expression in columns)
    values = ", ".join("(" + ", ".join(literal(value) for value in row) + ")" for row in rows)
    names = ", ".join(f"c{number}" for number in range(len(rows[0])))
    return spark.sql(f"SELECT {fields} FROM VALUES {values} AS v({names})")


def literal(value):
    """A SQL literal."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return f"{value}L"
    if isinstance(value, float):
        return f"{value!r}D"
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def write(spark, request):
    """One Hudi write; the instants that it completed."""
    path = pathlib.Path(request["path"])
    before = instants(path)
    mode = "append" if (path / ".hoodie").is_dir() else "overwrite"
    data = spark.sql(request["select"]) if "select" in request else frame(spark, request["columns"], request["rows"])
    data = data.coalesce(1)
    if "gate" in request:
        data = held_back(data, request["gate"])
    data.write.format("hudi").options(**request["options"]).mode(mode).save(str(path))
    return [instant for instant in instants(path) if instant not in before]


def race(spark, request):
    """A write whose rows are held back by a file until another write is done; the instants that both completed."""
    path, slow = pathlib.Path(request["path"]), request["slow"]
    gate = path.with_name(f"{path.name}.gate-{time.monotonic_ns()}")
    before, known, failed = instants(path), requested(path), []

    def write_slowly():
        try:
            data = held_back(frame(spark, slow["columns"], slow["rows"]).coalesce(1), str(gate))
            data.write.format("hudi").options(**slow["options"]).mode("append").save(str(path))
        except Exception:  # noqa: BLE001 - raised again below
            failed.append(traceback.format_exc())

    thread = threading.Thread(target=write_slowly)
    thread.start()
    try:
        while requested(path) == known and thread.is_alive():
            time.sleep(0.05)
        write(spark, {"path": str(path), **request["fast"]})
    finally:
        gate.touch()
        thread.join()
    if failed:
        raise RuntimeError(failed[0])
    return [instant for instant in instants(path) if instant not in before]


def held_back(data, gate):
    """The same rows, available when the file `gate` exists."""
    from pyspark.sql.functions import udf

    def wait(key):
        import pathlib
        import time

        pathlib.Path(f"{gate}.reached").touch()
        while not pathlib.Path(gate).exists():
            time.sleep(0.05)
        return key

    names = data.columns
    return data.withColumn(names[0], udf(wait, "string")(names[0])).select(*names)


def script(spark, request):
    """Runs statements under settings of the session, which are reset afterwards."""
    try:
        for name, value in request["settings"].items():
            spark.conf.set(name, value)
        for text in request["texts"]:
            spark.sql(text).collect()
    finally:
        for name in request["settings"]:
            spark.conf.unset(name)


def requested(path):
    """Names of the requested instants."""
    folders = (path / ".hoodie" / "timeline", path / ".hoodie")
    return {entry.name for folder in folders if folder.is_dir() for entry in folder.glob("[0-9]*.requested")}


def read(spark, request):
    """Writes Hudi's rows as Parquet."""
    answer = spark.read.format("hudi").options(**request["options"]).load(request["path"]).coalesce(1)
    answer.write.mode("overwrite").parquet(request["into"])


def instants(path):
    """Completed instants from file names, in order of completion (layout 2) or of request (layout 1)."""
    timeline = path / ".hoodie" / "timeline"
    pattern, folder = (COMPLETED_V2, timeline) if timeline.is_dir() else (COMPLETED_V1, path / ".hoodie")
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    matches = [match for match in (pattern.fullmatch(name) for name in names) if match]
    if pattern is COMPLETED_V2:
        return sorted(([m[1], m[2], m[3]] for m in matches), key=lambda instant: instant[1])
    return sorted([m[1], None, m[2]] for m in matches)


def completion_times(spark, request):
    """The completion time of each instant, null if Hudi knows none (`CompletionTimeQueryView`): active or archived."""
    hudi = spark._jvm.org.apache.hudi
    configuration = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(spark._jsc.hadoopConfiguration())
    table = (
        hudi.common.table.HoodieTableMetaClient.builder().setBasePath(request["path"]).setConf(configuration).build()
    )
    view = table.getTimelineLayout().getTimelineFactory().createCompletionTimeQueryView(table)
    try:
        return [view.getCompletionTime(instant).orElse(None) for instant in request["requested"]]
    finally:
        view.close()


def add_jar(spark, request):
    """Adds a jar where the bundle's classes are: Hudi loads classes by the loader of its own (`ReflectionUtils`)."""
    loaded = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
    own = loaded.loadClass("org.apache.hudi.common.util.ReflectionUtils").getClassLoader()
    own.addURL(spark._jvm.java.io.File(request["jar"]).toURI().toURL())


def answer(spark, request):
    """Runs one request."""
    if request["do"] == "write":
        return write(spark, request)
    if request["do"] == "race":
        return race(spark, request)
    if request["do"] == "sql":
        return [row.asDict() for row in spark.sql(request["text"]).collect()]
    if request["do"] == "script":
        return script(spark, request)
    if request["do"] == "read":
        return read(spark, request)
    if request["do"] in ("write_range", "run_sink"):
        import hudi_topics  # beside this script: the environment of Hudi does not have the package `tests`

        return getattr(hudi_topics, request["do"])(spark, request)
    if request["do"] in ("flink_range", "option_names"):
        import hudi_ranges

        return getattr(hudi_ranges, request["do"])(spark, request)
    if request["do"] == "java_write":
        import hudi_java_client

        if "columns" in request:
            request["data"] = frame(spark, request["columns"], request["rows"])
        return hudi_java_client.java_write(spark, request)
    if request["do"] == "instants":
        return instants(pathlib.Path(request["path"]))
    if request["do"] == "add_jar":
        return add_jar(spark, request)
    if request["do"] == "completion_times":
        return completion_times(spark, request)
    raise ValueError(f"unknown request {request['do']!r}")


def error_text(error):
    """An error's text, shortened so that every cause remains."""
    causes = [line for line in error.splitlines() if line.startswith(("Caused by", "pyspark.", "py4j.", ": "))]
    return "\n".join([*causes, error[-4000:]])


def main():
    """Handles requests until stdin ends. Spark's output goes to stderr, because stdout has only responses."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jar")
    parser.add_argument("--package")
    parser.add_argument("--ivy")
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["TZ"] = "UTC"
    time.tzset()
    spark = start_spark(arguments.jar, arguments.package, arguments.ivy)
    print(json.dumps({"ok": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            result = {"ok": answer(spark, json.loads(line))}
        except Exception:  # noqa: BLE001 - reported to the test that asked
            result = {"error": error_text(traceback.format_exc())}
        print(json.dumps(result, default=str), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
