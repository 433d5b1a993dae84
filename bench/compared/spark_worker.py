"""A Spark session in its own process that answers requests, one JSON line each; for PySpark 3.5 and later.

Run it with the Python that has the PySpark to use; only tests import it:
    python spark_worker.py [--jar BUNDLE.jar] [--package G:N:V --ivy FOLDER] [--penstock]

Requests, answered by `{"ok": …}` or `{"error": text}`:
    {"do": "query", "format", "options", "path", "columns", …, "ask": what}  a new load() each time; `ask`:
        "noop"                  every row to Spark's `noop` sink
        "count"                 count(*)
        ["sum", column]         the sum of a column
        ["select", [aggregate]] the values of aggregates, as text (fingerprints)
        ["sql", text]           rows of a query over the table or view `t`, as text; "bytes" adds the bytes that Python
                                has sent
    {"do": "write", "path", "select", "options"}                            a write by Hudi
    {"do": "parquet", "path", "select"}                                     rows as plain Parquet files
    {"do": "sql", "text"}                                                   a statement, such as a call of a service
    {"do": "write_penstock", "path", "select", "operation", "objects"}      a write by Penstock (`bench.writing`)
    {"do": "stream_penstock", "path", "rows", "operation"}                  micro-batches into Penstock's sink
    {"do": "shuffled", "after": stage}                                      bytes that later stages wrote for shuffles
A query's answer: {"values", "wall_s", "plan"}.
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile
import time
import traceback

HUDI = {
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
}
SESSION = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "3g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
}
"""Settings of all contestants; the JVM's compilers and collector are its defaults."""


def start(args):
    """Starts the session, on two cores."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("bench")
    settings = {**SESSION, "spark.sql.warehouse.dir": tempfile.mkdtemp()}
    if args.jar:
        settings |= {**HUDI, "spark.jars": args.jar}
    elif args.package:
        settings |= {**HUDI, "spark.jars.packages": args.package, "spark.jars.ivy": args.ivy}
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    if args.penstock:
        register(session)
    return session


def register(session):
    """Registers Penstock's data source and two of the bench: one that returns single rows, one of three rows."""
    from bench.compared.bare_source import BareDataSource
    from bench.compared.per_record import PerRecordDataSource
    from penstock.engine.spark.source import PenstockDataSource

    session.dataSource.register(PenstockDataSource)
    session.dataSource.register(PerRecordDataSource)
    session.dataSource.register(BareDataSource)


def load(spark, request):
    """The DataFrame of a request, projected to its columns."""
    if request["format"] == "penstock.spark.table":
        import penstock.spark

        options = dict(request.get("options", {}))
        columns = options.pop("columns", "").split(",") if "columns" in options else None
        return penstock.spark.table(spark, request["path"], columns, **options)
    reader = spark.read.format(request["format"]).options(**request.get("options", {}))
    frame = reader.load(request["path"])
    return frame.select(*request["columns"]) if request.get("columns") else frame


def query(spark, request):
    """Runs a query; returns its values, its duration and on request Spark's plan."""
    began = time.perf_counter()
    if request["format"] == "penstock.spark.sql":
        import penstock.spark

        values = texts(penstock.spark.sql(spark, request["ask"][1], {"t": request["path"]}))
        return {"values": values, "wall_s": time.perf_counter() - began}
    frame, ask = load(spark, request), request["ask"]
    values = None
    if ask == "noop":
        frame.write.format("noop").mode("overwrite").save()
    elif ask == "count":
        values = [str(frame.count())]
    elif ask[0] == "sum":
        frame = frame.selectExpr(f"sum({ask[1]})")
        values = texts(frame)
    elif ask[0] == "select":
        frame = frame.selectExpr(*ask[1])
        values = texts(frame)
    else:
        frame.createOrReplaceTempView("t")
        frame = spark.sql(ask[1])
        values = texts(frame)
    answer = {"values": values, "wall_s": time.perf_counter() - began}
    if request.get("explain"):
        answer["plan"] = frame._jdf.queryExecution().executedPlan().toString()
    if request.get("bytes"):
        answer["bytes"] = from_python(frame._jdf.queryExecution().executedPlan())
    return answer


def texts(frame):
    """Every value of a small result, in order, as text."""
    return ["NULL" if value is None else str(value) for row in frame.collect() for value in row]


def from_python(plan):
    """Bytes that Spark's Python workers sent, by the metric of the executed plan's nodes. Spark 4.3 sums it over all
    queries of the session."""
    if "AdaptiveSparkPlan" in plan.nodeName():
        plan = plan.executedPlan()
    metric = plan.metrics().get("pythonDataReceived")
    total = metric.get().value() if metric.isDefined() else 0
    if "QueryStage" in plan.nodeName():
        total += from_python(plan.plan())
    children = plan.children()
    return total + sum(from_python(children.apply(number)) for number in range(children.size()))


def write(spark, request):
    """One write by Hudi."""
    mode = "append" if (pathlib.Path(request["path"]) / ".hoodie").is_dir() else "overwrite"
    data = spark.sql(request["select"])
    data.write.format("hudi").options(**request["options"]).mode(mode).save(request["path"])


def parquet(spark, request):
    """Writes rows as plain Parquet files."""
    spark.sql(request["select"]).write.mode("overwrite").parquet(request["path"])


def sql(spark, request):
    """Runs a statement."""
    spark.sql(request["text"]).collect()


def shuffled(spark, request):
    """[number of the newest stage, bytes that the stages after `after` wrote for shuffles]."""
    context = spark.sparkContext
    no_quantiles, no_tasks = context._gateway.new_array(context._jvm.double, 0), context._jvm.java.util.ArrayList()
    context._jsc.sc().listenerBus().waitUntilEmpty()
    stages = context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, no_tasks)
    bytes_of = {stage.stageId(): stage.shuffleWriteBytes() for stage in map(stages.apply, range(stages.size()))}
    after = request["after"]
    return [max(bytes_of, default=after), sum(size for stage, size in bytes_of.items() if stage > after)]


def write_penstock(spark, request):
    """One write by Penstock."""
    from bench.writing import spark_requests

    spark_requests.write(spark, request)


def stream_penstock(spark, request):
    """The micro-batches of a stream by Penstock's sink."""
    from bench.writing import spark_requests

    return spark_requests.stream(spark, request)


ANSWERS = {
    "query": query,
    "write": write,
    "parquet": parquet,
    "sql": sql,
    "write_penstock": write_penstock,
    "stream_penstock": stream_penstock,
    "shuffled": shuffled,
}


def main():
    """Answers until stdin ends. Spark's own output goes to stderr; stdout carries only answers."""
    parser = argparse.ArgumentParser()
    for name in ("--jar", "--package", "--ivy"):
        parser.add_argument(name)
    parser.add_argument("--penstock", action="store_true")
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["TZ"] = "UTC"
    time.tzset()
    spark = start(args)
    print(json.dumps({"ok": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            result = {"ok": ANSWERS[request["do"]](spark, request)}
        except Exception:  # noqa: BLE001 - reported to the bench, which stops
            result = {"error": traceback.format_exc()[-6000:]}
        print(json.dumps(result), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
