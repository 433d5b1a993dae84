"""Cases of family E whose source files are in ORC, and cases whose paths are not texts of their rows: formatted dates, a user's key generator, slashes."""
import os, shutil, subprocess, zipfile
import gen_F
from boot_case import BootCase, COW, METADATA, MOR, R

FORMATTED = {"hoodie.keygen.timebased.timezone": "UTC", "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
             "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd", "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd"}
EPOCH = {"hoodie.keygen.timebased.timezone": "UTC", "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
         "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd", "hoodie.datasource.write.hive_style_partitioning": "false",
         "hoodie.datasource.write.partitionpath.field": "em"}
DATES = ("2024-01-01", "2024-01-02", "2024-02-03")
def keygen(name): return {"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen." + name, "hoodie.bootstrap.keygen.class": "org.apache.hudi.keygen." + name}


def formatted(env, v, name, kind, what, options, path, lacking):
    """Tables whose paths have formatted dates: rows of (id, ts, name, v, half, em, p), one source file a partition. `path` makes the
    folder of a row; the source files lack the columns `lacking`."""
    import datetime as dt, pyarrow as pa, pyarrow.parquet as pq
    millis = lambda p, n: int(dt.datetime.fromisoformat(p + "T05:00:00+00:00").timestamp() * 1000) + n
    c = BootCase(env, f"E_{name}_v{v}", kind, what, options)
    folders = {}
    for n in range(1, 13): folders.setdefault(path(DATES[n % 3], n % 2), []).append(("k%02d" % n, 10, "n%d" % n, n, n % 2, millis(DATES[n % 3], n), DATES[n % 3]))
    names = ("id", "ts", "name", "v", "half", "em", "p")
    for folder, rows in folders.items():
        os.makedirs(os.path.join(c.source, folder), exist_ok=True)
        table = pa.table({column: pa.array(values, pa.int32()) if column in ("v", "half") else pa.array(values) for column, values in zip(names, zip(*rows))})
        pq.write_table(table.drop_columns(list(lacking)), os.path.join(c.source, folder, "f.parquet"))
    c.steps.append("source: 12 rows, one file a partition (%s), written by pyarrow%s" % (", ".join(sorted(folders)), ", without " + ", ".join(lacking) if lacking else ""))
    c.bootstrap(METADATA, options)
    def write(*rows):
        values = ",".join("('%s',%dL,'n%d',%d,%d,%dL,'%s')" % (i, ts, v, v, half, millis(p, v), p) for i, ts, v, half, p in rows)
        c.write("upsert", None, "upsert " + values, df=env.spark.sql("SELECT id, ts, name, v, half, em, p FROM VALUES %s AS t(id,ts,name,v,half,em,p)" % values))
    write(("k03", 20, 103, 1, DATES[0]), ("k40", 20, 140, 0, DATES[2]), ("k04", 5, 104, 0, DATES[1]))
    write(("k05", 30, 105, 1, DATES[2]), ("k41", 30, 141, 1, DATES[0]))
    c.done()


def formatted_cases(env, v):
    hive, of_path = lambda p, n: "p=" + p.replace("-", ""), "formatted dates; Hudi returns the partition columns as texts of the path"
    for name, kind, what, options, path, lacking in (
        ("timestamp_cow", COW, "Metadata-only bootstrap of " + of_path + ", though source files have others.", {**keygen("TimestampBasedKeyGenerator"), **FORMATTED}, hive, ()),
        ("timestamp_mor", MOR, "Metadata-only bootstrap of " + of_path + ", which source files lack.", {**keygen("TimestampBasedKeyGenerator"), **FORMATTED}, hive, ("p",)),
        ("epoch_mor", MOR, "Metadata-only bootstrap of yyyy/MM/dd folders of a whole number; Hudi returns a text column of paths.", {**keygen("TimestampBasedKeyGenerator"), **EPOCH}, lambda p, n: p.replace("-", "/"), ()),
        ("custom_mor", MOR, "Metadata-only bootstrap with a custom key generator: a whole number as it is, and " + of_path + ".",
         {**keygen("CustomKeyGenerator"), **FORMATTED, "hoodie.datasource.write.partitionpath.field": "half:SIMPLE,p:TIMESTAMP"}, lambda p, n: "half=%d/%s" % (n, hive(p, n)), ("half", "p")),
    ):
        yield f"E_{name}_v{v}", lambda of=(name, kind, what, options, path, lacking): formatted(env, v, *of)


ORC = {**gen_F.ORC, "hoodie.index.type": "SIMPLE", "hoodie.compact.inline": "false"}
def orc_rows(spark, values): return spark.sql("SELECT id, ts, v, concat('n', v) name, nullif(p, '') p FROM VALUES %s AS t(id,ts,v,p)" % ",".join("('%s',%dL,%d,'%s')" % row for row in values))
def orc_types(spark, values):
    return orc_rows(spark, values).selectExpr("id", "ts", "if(v % 5 = 0, null, v) v", "if(v % 7 = 0, null, name) name", "p", "cast(v as double) / 2 d", "date_add(date'1969-12-30', v) day", "cast(v + 0.25 as decimal(10,2)) amt",
                                              "timestamp_micros(1700000000000000 + ts * 1000000 - v * 60000000000123) at",
                                              "if(v % 5 = 0, null, array(v, v + 1)) arr", "if(v % 5 = 0, null, map('k', v)) m", "if(v % 5 = 0, null, named_struct('x', v, 'y', concat('y', v))) st")


def orc(env, v, name, kind, keep_p, data, what):
    """Hudi's bootstrap takes the schema of ORC files from one of them. So a table whose files lack `p` lacks it until a
    write has it. Hudi 1.2.0 failed at upserts with the columns of orc_types."""
    c = BootCase(env, f"E_orc_{name}_v{v}", kind, what, ORC)
    c.spark_source([("k%02d" % n, 10, n, "abc"[n % 3]) for n in range(1, 17)], keep_p=keep_p, data=data, form="orc"); c.bootstrap(METADATA)
    def write(op, values): c.write(op, None, "%s %s" % (op, values), df=data(env.spark, values))
    if data is orc_rows:
        write("upsert", [R(3, 20, 103, "a"), R(6, 5, 106, "a"), R(9, 10, 109, "a"), R(30, 20, 130, "a")])
        write("delete", [R(1, 30, 0, "b")])
        write("upsert", [R(4, 40, 104, "b"), R(1, 40, 101, "b"), R(40, 40, 140, "d")])
    c.done()


def orc_cases(env, v):
    for name, *of in (("cow", COW, True, orc_rows, "Metadata-only bootstrap of files in ORC; skeletons are in ORC, too; upserts rewrite some slices, a delete, a new partition."),
                      ("mor", MOR, False, orc_rows, "Metadata-only bootstrap of files in ORC without the partition column; logs over skeletons, a delete; partition b gets a new key again."),
                      ("types", COW, False, orc_types, "Metadata-only bootstrap of files in ORC with every type and without the partition column, which the table lacks, too.")):
        yield f"E_orc_{name}_v{v}", lambda name=name, of=of: orc(env, v, name, *of)


def paths(env, v, name, kind, what, options, path, lacking):
    """Tables whose paths are not texts of their rows: rows of (id, ts, v, p), one source file a partition, which lacks `p`
    if `lacking`. `path` makes the folder of a row."""
    import pyarrow as pa, pyarrow.parquet as pq
    c = BootCase(env, f"E_{name}_v{v}", kind, what, options)
    folders = {}
    for n in range(1, 19): folders.setdefault(path(DATES[n % 3]), []).append(("k%02d" % n, 10, n, DATES[n % 3]))
    for folder, rows in folders.items():
        os.makedirs(os.path.join(c.source, folder), exist_ok=True)
        table = pa.table({"id": [r[0] for r in rows], "ts": [r[1] for r in rows], "v": pa.array([r[2] for r in rows], pa.int32()), "p": [r[3] for r in rows]})
        pq.write_table(table.drop_columns(["p"] if lacking else []), os.path.join(c.source, folder, "f.parquet"))
    c.steps.append("source: 18 rows, one file a partition (%s), written by pyarrow%s" % (", ".join(sorted(folders)), ", without p" if lacking else ""))
    c.bootstrap(METADATA, options)
    def write(*rows): c.write("upsert", None, "upsert %s" % (rows,), df=env.spark.sql("SELECT id, ts, v, nullif(p, '') p FROM VALUES %s AS t(id,ts,v,p)" % ",".join("('%s',%dL,%d,'%s')" % row for row in rows)))
    write(("k03", 20, 103, DATES[0]), ("k40", 20, 140, DATES[2]), ("k04", 5, 104, DATES[1]))
    write(("k05", 30, 105, DATES[2]), ("k41", 30, 141, DATES[0]))
    c.done()


USER = {"hoodie.datasource.write.keygenerator.class": "MonthPathKeyGenerator", "hoodie.bootstrap.keygen.class": "MonthPathKeyGenerator", "hoodie.index.type": "SIMPLE"}
SLASHES = {"hoodie.datasource.write.slash.separated.date.partitioning": "true", "hoodie.datasource.write.hive_style_partitioning": "false", "hoodie.index.type": "SIMPLE"}


def path_cases(env, v):
    month, slashes = lambda p: "p=M" + p[5:7], lambda p: p.replace("-", "/")
    of_user, of_slashes = "Metadata-only bootstrap with a key generator of a user's, whose paths have the month of a date; ", "Metadata-only bootstrap of folders yyyy/MM/dd; "
    for name, *of in (("user_cow", COW, of_user + "source files have the date, and Hudi returns the text of the path.", USER, month, False),
                      ("user_mor", MOR, of_user + "source files lack the column.", USER, month, True),
                      ("slashes_cow", COW, of_slashes + "Hudi's bootstrap does not store the property of slashes, and returns the path.", SLASHES, slashes, False),
                      ("slashes_mor", MOR, of_slashes + "source files lack the column, and the table does until a write has it.", SLASHES, slashes, True)):
        yield f"E_{name}_v{v}", lambda name=name, of=of: paths(env, v, name, *of)


def with_key_generator(jar, work):
    """The bundle, and a jar of MonthPathKeyGenerator."""
    import pyspark
    classes, own = os.path.join(work, "_classes"), os.path.join(work, "_keygen.jar")
    shutil.rmtree(classes, ignore_errors=True); os.makedirs(classes)
    of_spark = os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "MonthPathKeyGenerator.java")
    subprocess.run(["javac", "-nowarn", "-d", classes, "-cp", jar + ":" + of_spark, source], check=True)
    with zipfile.ZipFile(own, "w") as z:
        for name in os.listdir(classes): z.write(os.path.join(classes, name), name)
    return jar + "," + own
