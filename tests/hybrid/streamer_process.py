"""The real HoodieStreamer of Hudi 0.14.0 in a process that stays: each round is one run of it, in one JVM.

Run by a Python with PySpark 3.4, never imported by the suite:
    python streamer_process.py JAR:JAR:…

Requests on stdin, one answer on stdout each, `{"ok": null}` or `{"error": text}`:
    {"do": "sync", "arguments"}     a round, its arguments as on the Streamer's command line
"""

import json
import os
import sys
import time
import traceback


def start_spark(class_path):
    """One local session: UTC everywhere, no UI, small."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.default.parallelism", "1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC -XX:TieredStopAtLevel=1")
        .config("spark.streaming.kafka.consumer.poll.ms", "20000")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


def sync(spark, arguments):
    """Does what the `main` function of the Streamer does with the arguments, with the existing Spark context."""
    gateway, jvm = spark.sparkContext._gateway, spark.sparkContext._jvm
    array = gateway.new_array(jvm.java.lang.String, len(arguments))
    for number, argument in enumerate(arguments):
        array[number] = argument
    config = getattr(jvm.org.apache.hudi.utilities.streamer, "HoodieStreamer$Config")()
    jvm.org.apache.hudi.com.beust.jcommander.JCommander(config, None, array)
    jvm.org.apache.hudi.utilities.streamer.HoodieStreamer(config, spark.sparkContext._jsc).sync()


def error_text(error):
    """An error's text, truncated so that every cause remains."""
    causes = [line for line in error.splitlines() if line.startswith(("Caused by", "pyspark.", "py4j.", ": "))]
    return "\n".join([*causes, error[-4000:]])


def main():
    """Answers until stdin ends. Spark's output goes to stderr: stdout carries only answers."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["TZ"] = "UTC"
    time.tzset()
    spark = start_spark(sys.argv[1])
    print(json.dumps({"ok": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] != "sync":
                raise ValueError(f"unknown request {request['do']!r}")
            result = {"ok": sync(spark, request["arguments"])}
        except Exception:  # noqa: BLE001 - reported to the test that asked
            result = {"error": error_text(traceback.format_exc())}
        print(json.dumps(result), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
