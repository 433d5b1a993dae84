"""Golden Hudi tables, part E: a payload class and a record merger of a user's.

How to run (needs javac, and PySpark 3.5 in the Python that runs this):

  python gen_G.py --hudi 1.2.0 --jar <hudi-spark3.5-bundle jar> --work <dir> --out <golden dir>

Compiles `CountingPayload.java` and `LowestMerger.java`, lets Hudi write each table, and stores the rows that its own
reader returns: a snapshot after each commit (as of its requested time), and the ranges between them. Replaces the
entries of its tables in mergers.json. `--hudi 0.15.0` makes the tables of a payload class that 1.2.0 does not have.
"""
import argparse, glob, json, os, shutil, subprocess, zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
MERGER = "example.mergers.LowestMerger"
STRATEGY = "5c1f0a52-7e0d-4f6a-9a3e-2f6d5b0c4e11"
PAYLOAD = "example.mergers.CountingPayload"
SCHEMA = "id string, ts bigint, n bigint, note string, p string"

REVERSE = "org.apache.hudi.common.model.ReverseOrderHoodieRecordPayload"
FIRST_VALUE = "org.apache.hudi.common.model.FirstValueAvroPayload"
AVRO = "org.apache.hudi.common.model.HoodieAvroPayload"
MERGER_TABLE = {
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.record.merge.strategy.id": STRATEGY,
    "hoodie.write.record.merge.mode": "CUSTOM",
    "hoodie.write.record.merge.strategy.id": STRATEGY,
    "hoodie.write.record.merge.custom.implementation.classes": MERGER,
}
VIRTUAL = {"hoodie.populate.meta.fields": "false"}
FIRST = [("k%02d" % i, 100, i, "first" if i % 2 else None, "a") for i in range(12)]
STEPS = [
    ("insert", FIRST),
    # updates, an insert, a row whose count falls below zero, and one whose ordering value is higher
    ("upsert", [("k01", 90, 5, None, "a"), ("k02", 110, 7, "second", "a"), ("k03", 90, -9, "gone", "a"),
                ("k04", 100, -4, None, "a"), ("k20", 50, 1, None, "a"), ("k21", 50, 2, "new", "a")]),
    ("upsert", [("k01", 95, 10, "third", "a"), ("k02", 80, 1, None, "a"), ("k03", 85, 3, "back", "a"),
                ("k05", 120, 2, None, "a"), ("k20", 40, -5, "gone", "a"), ("k21", 60, 4, None, "a")]),
    ("delete", [("k06", 100, 0, None, "a"), ("k21", 100, 0, None, "a"), ("k02", 100, 0, None, "a")]),
    # after the deletes: a record of a deleted key stands alone
    ("upsert", [("k06", 70, 6, None, "a"), ("k21", 99, 8, None, "a"), ("k05", 10, 1, None, "a"), ("k22", 1, 1, "n", "a")]),
    # rows that are deletes with an ordering value of their own
    ("mark", [("k07", 90, 0, None, "a"), ("k08", 110, 0, None, "a"), ("k05", 11, 0, None, "a"), ("k22", 1, 0, None, "a")]),
    ("upsert", [("k07", 95, 1, "late", "a"), ("k08", 60, 2, None, "a"), ("k01", 1, 1, None, "a")]),
]
# equal ordering values of base rows, of log records and of deletes, and records after deletes
TIES = [
    ("upsert", [("k09", 100, 90, "tie", "a"), ("k08", 110, 80, "tie", "a"), ("k10", 101, 1, "more", "a"), ("k23", 5, 1, "n", "a")]),
    ("upsert", [("k10", 101, 2, "tie", "a"), ("k23", 5, 2, "tie", "a")]),
    ("mark", [("k10", 101, 0, None, "a"), ("k23", 4, 0, None, "a"), ("k09", 99, 0, None, "a"), ("k11", 1, 0, None, "a")]),
    ("upsert", [("k10", 101, 3, "after", "a"), ("k11", 1, 4, "below its base row", "a"), ("k09", 100, 5, "after", "a"), ("k23", 6, 6, "above", "a")]),
]


def written(spark, path, name, version, settings, steps):
    base = {
        "hoodie.table.name": name.lower(), "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.datasource.write.partitionpath.field": "p", "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.enable": "false", "hoodie.embed.timeline.server": "false", "hoodie.compact.inline": "false",
        "hoodie.upsert.shuffle.parallelism": "1", "hoodie.insert.shuffle.parallelism": "1",
        "hoodie.delete.shuffle.parallelism": "1", "hoodie.parquet.small.file.limit": "0",
        "hoodie.write.auto.upgrade": "false", "hoodie.write.table.version": str(version), **settings,
    }
    for number, (operation, rows) in enumerate(steps):
        rows = [(*row, operation == "mark") for row in rows]
        frame = spark.createDataFrame(rows, SCHEMA + ", _hoodie_is_deleted boolean").coalesce(1)
        options = {**base, "hoodie.datasource.write.operation": "upsert" if operation == "mark" else operation}
        frame.write.format("hudi").options(**options).mode("append" if number else "overwrite").save(path)


def instants(path, version):
    folder = os.path.join(path, ".hoodie", "timeline") if version >= 8 else os.path.join(path, ".hoodie")
    names = sorted(os.path.basename(one) for one in glob.glob(os.path.join(folder, "*.deltacommit")))
    return [name.split(".")[0].split("_") for name in names]


def answer(spark, path, into, settings, **options):
    named = {name.replace("__", "."): value for name, value in options.items()}
    frame = spark.read.format("hudi").options(**settings).options(**named).load(path)
    shutil.rmtree(into + ".d", ignore_errors=True)
    frame.coalesce(1).write.parquet(into + ".d")
    (part,) = glob.glob(into + ".d/*.parquet")
    os.makedirs(os.path.dirname(into), exist_ok=True)
    shutil.copy(part, into)
    return frame.count()


def packed(path, archive):
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed_table:
        for folder, _, files in os.walk(path):
            for file in files:
                if not file.endswith(".crc"):
                    whole = os.path.join(folder, file)
                    packed_table.write(whole, os.path.relpath(whole, path))


def main():
    given = argparse.ArgumentParser()
    for name in ("--hudi", "--jar", "--work", "--out"):
        given.add_argument(name, required=True)
    given = given.parse_args()
    classes = os.path.join(given.work, "classes")
    shutil.rmtree(given.work, ignore_errors=True)
    os.makedirs(classes)
    import pyspark

    jars = given.jar + ":" + os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")
    sources = [os.path.join(HERE, name) for name in ("CountingPayload.java", "LowestMerger.java")]
    if given.hudi == "1.2.0": subprocess.run(["javac", "-nowarn", "-d", classes, "-cp", jars, *sources], check=True)
    jar = os.path.join(given.work, "mergers.jar")
    with zipfile.ZipFile(jar, "w") as packed_classes:
        for one in glob.glob(classes + "/example/mergers/*.class"):
            packed_classes.write(one, os.path.relpath(one, classes))
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", f"{given.jar},{jar}").config("spark.driver.extraClassPath", f"{given.jar}:{jar}")
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
        .config("spark.sql.session.timeZone", "UTC").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1").getOrCreate()
    )
    cases = []
    of_release = {"0.15.0": [
        ("first", FIRST_VALUE, {"hoodie.datasource.write.payload.class": FIRST_VALUE}, (6,)),
    ], "1.2.0": [
        ("payload", PAYLOAD, {"hoodie.datasource.write.payload.class": PAYLOAD}, (6, 8, 9)),
        ("merger", STRATEGY, MERGER_TABLE, (9,)),
        ("payload_virtual", PAYLOAD, {"hoodie.datasource.write.payload.class": PAYLOAD, **VIRTUAL}, (6, 9)),
        ("merger_virtual", STRATEGY, {**MERGER_TABLE, **VIRTUAL}, (9,)),
        ("reverse", REVERSE, {"hoodie.datasource.write.payload.class": REVERSE}, (6, 9)),
        ("avro", AVRO, {"hoodie.datasource.write.payload.class": AVRO}, (6, 9)),
    ]}
    for topic, merger, settings, versions in of_release[given.hudi]:
        for version in versions:
            name = "G_%s_v%d_h%s" % (topic, version, given.hudi.replace(".", "")[:3])
            path = os.path.join(given.work, name)
            written(spark, path, name, version, settings, STEPS + TIES * (topic == "first"))
            reading = {k: v for k, v in settings.items() if k.startswith("hoodie.write.record.merge.custom")}
            folder = os.path.join(given.out, "expected", name)
            times = instants(path, version)
            queries = []

            def ask(identifier, **query):
                file = os.path.join(folder, identifier + ".parquet")
                entry = {"id": identifier, **{k: v for k, v in query.items() if k in ("as_of", "begin", "end")}}
                try:
                    entry["rows"] = answer(spark, path, file, reading, **query["options"])
                    entry["expected"] = os.path.relpath(file, given.out)
                except Exception as error:
                    entry["error"] = str(error).splitlines()[0][:300]
                queries.append(entry)

            ask("snapshot", options={})
            for number, time in enumerate(times):
                ask(f"asof_{number}", as_of=time[0], options={"as__of__instant": time[0]})
            key = 1 if version >= 8 else 0
            for number in range(1, len(times)):
                begin, end = times[number - 1][key], times[number][key]
                ask(f"inc_{number}", begin=begin, end=end, options={
                    "hoodie__datasource__query__type": "incremental",
                    "hoodie__datasource__read__begin__instanttime": begin,
                    "hoodie__datasource__read__end__instanttime": end,
                })
            packed(path, os.path.join(given.out, "tables", name + ".zip"))
            cases.append({
                "name": name, "hudi": given.hudi, "table_version": version, "table_type": "MERGE_ON_READ",
                "what": f"MOR, merged by {merger}{', without meta columns' if topic.endswith('virtual') else ''}", "merger": merger, "instants": times, "queries": queries,
            })
    for left in glob.glob(os.path.join(given.out, "expected", "G_*", "*.d")):
        shutil.rmtree(left)
    index = os.path.join(given.out, "mergers.json")
    made = {case["name"] for case in cases}
    cases = [case for case in json.load(open(index)) if case["name"] not in made] + cases
    with open(index, "w") as file:
        json.dump(cases, file, indent=1)
    spark.stop()


main()
