"""Golden tables of family H: base files in Lance (`hoodie.table.base.file.format=LANCE`).

    python gen_H.py write --hudi 1.2.0 --jar BUNDLE.jar --lance DIR --work DIR --out DIR
    python gen_H.py pack --work DIR --out DIR

`--lance` is a folder with the jars of `org.lance:lance-spark-3.5_2.12:0.4.0` and of its dependencies in `org.lance` and
`org.apache.arrow`, `netty-buffer`, `netty-common`, `flatbuffers-java` and `jar-jni`. They come before Spark's older
ones on the class path, but the two of lance-spark after Hudi's bundle: both have Spark's class `NamedArgument`.
`--cases` and the layout of WORK and OUT are those of gen_B.py.
"""
import argparse, glob, json, os, re, time, traceback
import gen_D, hudi_case, random_histories
from hudi_case import Case, cause, instants, log, session
from gen_F import FIRST, LAST, SECOND, THIRD

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
MERGER = "org.apache.hudi.DefaultSparkRecordMerger"
LANCE = {"hoodie.table.base.file.format": "LANCE", "hoodie.base.file.format": "LANCE", "hoodie.write.auto.upgrade": "false",
         "hoodie.datasource.write.row.writer.enable": "false", "hoodie.compact.inline": "false",
         "hoodie.write.record.merge.custom.implementation.classes": MERGER}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", "hoodie.bucket.index.hash.field": "id"}
HISTORIES = [(22, COW, 9, "SIMPLE"), (71, MOR, 9, "SIMPLE"), (15, MOR, 9, "BUCKET"), (194, MOR, 6, "SIMPLE"), (256, COW, 6, "SIMPLE")]
# without maps, at which Lance's writer ends the process, and without null structs of fields that are not nullable, which it refuses
TYPES = ("SELECT id, ts, nullif(v, 0) v, nullif(v, 0) * 3000000000L big, nullif(concat('n', v), 'n0') name, cast(v as double) / 2 d, cast(v as float) f, "
         "v > 3 flag, cast(nullif(v, 0) + 0.25 as decimal(10,2)) amt, cast(v as decimal(30,5)) wide, date_add(date'1969-12-30', v) day, "
         "timestamp_micros(1700000000000000 + ts * 1000000 - v * 60000000000000) at, cast(concat('b', v) as binary) bin, "
         "if(v = 0, null, array(v, v + 1)) arr, if(v = 0, array(), array(v, null)) holes, array(array(v), null) nested, "
         "array(named_struct('z', nullif(v, 0)), null) structs, cast(v as byte) tiny, timestamp_ntz'2024-01-01 00:00:01.5' ntz, "
         "if(v = 0, '', null) blank, if(v = 0, double('nan'), -0.0d) nan, cast(-v - 0.5 as decimal(20,3)) neg, "
         "if(v = 0, null, named_struct('x', nullif(v, 2), 'y', nullif(concat('y', v), 'y2'))) opt, "
         "named_struct('x', nullif(v, 0), 'y', concat('y', v), 'in', array(named_struct('z', v))) st, p FROM VALUES %s AS t(id,ts,v,p)")


def rows(env, values):
    return env.spark.sql(TYPES % ",".join(map(str, values)))


def vectors(env, values):
    """Vectors of floats and doubles. None is null: Hudi 1.2.0 fails on a base file in Lance with a null vector ("Value at
    index is null", `LanceRecordIterator`)."""
    from pyspark.sql.types import ArrayType, DoubleType, FloatType, LongType, StringType, StructField, StructType
    vector = lambda name, kind, hudi: StructField(name, ArrayType(kind, False), True, {"hudi_type": hudi})
    schema = StructType([StructField("id", StringType()), StructField("ts", LongType()), vector("f", FloatType(), "VECTOR(3)"),
                         vector("d", DoubleType(), "VECTOR(2, DOUBLE)"), StructField("p", StringType())])
    return env.spark.createDataFrame([(i, ts, [v + 0.5, -v, 1e9], [v / 3, 2.0 ** v], p)
                                      for i, ts, v, p in ((i, ts, float(v), p) for i, ts, v, p in values)], schema).coalesce(1)


def asked(c):
    for n, i in enumerate([i for i in instants(c.base) if i[2] in hudi_case.DATA]):
        c.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
    c.finish()


def life(env, kind, version, name, what, options, data=rows, evolves=True, service=None):
    from pyspark.sql import functions
    def make():
        env.tv = version
        c = Case(env, f"H_{name}_v{version}", kind, what, {**LANCE, **options})
        c.write("upsert", None, text="insert %s" % FIRST, df=data(env, FIRST))
        c.write("upsert", None, text="upsert %s" % SECOND, df=data(env, SECOND))
        c.write("delete", None, text="delete b, f", df=data(env, [("b", 9, 1, "x"), ("f", 9, 1, "y")]))
        if service: service(c)
        c.write("upsert", None, text="upsert %s" % THIRD, df=data(env, THIRD))
        if evolves:
            c.write("upsert", None, text="v long, w string: upsert %s" % LAST,
                    df=data(env, LAST).withColumn("v", functions.col("v").cast("long")).withColumn("w", functions.expr("nullif(concat('w', id), '')")))
        c.standard()
        asked(c)
    return f"H_{name}_v{version}", make


def cases(env):
    SIMPLE = {"hoodie.index.type": "SIMPLE"}
    for v in (6, 9):
        yield life(env, COW, v, "lance_cow", "Base files in Lance, rewritten; every type that Lance has, nulls; a column is added.", SIMPLE)
        yield life(env, MOR, v, "lance_mor", "Base files in Lance with logs, compacted; every type that Lance has, nulls; a column is added.",
                   BUCKETS, service=lambda c: c.compact())
    yield life(env, COW, 9, "lance_vectors_cow", "Vectors in Lance, rewritten.", SIMPLE, vectors, evolves=False)
    yield life(env, MOR, 9, "lance_vectors_mor", "Vectors in Lance and in logs.", BUCKETS, vectors, evolves=False)
    def cdc():
        env.tv = 9
        c = Case(env, "H_lance_cdc_v9", COW, "Change data of a table in Lance, with the full images.",
                 {**LANCE, **SIMPLE, "hoodie.table.cdc.enabled": "true"})
        c.write("upsert", None, text="insert %s" % FIRST, df=rows(env, FIRST).select("id", "ts", "v", "name", "day", "p"))
        c.write("upsert", None, text="upsert %s" % SECOND, df=rows(env, SECOND).select("id", "ts", "v", "name", "day", "p"))
        c.write("delete", None, text="delete b, f", df=rows(env, [("b", 9, 1, "x"), ("f", 9, 1, "y")]).select("id", "ts", "v", "name", "day", "p"))
        c.standard(cdc=True)
        asked(c)
    yield "H_lance_cdc_v9", cdc
    def clustered():
        env.tv = 9
        c = Case(env, "H_lance_clustered_v9", COW, "Inserts in Lance that clustering joins, with a metadata table and column statistics.",
                 {**LANCE, **SIMPLE, "hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true",
                  "hoodie.parquet.small.file.limit": "0"})
        few = lambda values: rows(env, values).select("id", "ts", "v", "name", "day", "p")
        c.write("insert", None, text="insert %s" % FIRST, df=few(FIRST))
        c.write("insert", None, text="insert %s" % SECOND[2:], df=few(SECOND[2:]))
        c.cluster()
        c.write("upsert", None, text="upsert %s" % THIRD, df=few(THIRD))
        c.standard()
        asked(c)
    yield "H_lance_clustered_v9", clustered
    yield from histories(env)


def later(env, values, changes, data=rows):
    """Rows of a history, with the columns of its schema."""
    from pyspark.sql import functions
    df = data(env, values)
    if not changes: return df
    return df.withColumn("v", functions.col("v").cast("long")).withColumn("w", functions.expr("nullif(concat('w', id), 'wk1')"))


def without_losers(env, d):
    """Ranges in which Hudi also returns rows that lost the merge (not in `hudi_case.full_slice`): `full` is the range without
    them, because the snapshot has fewer columns than the range if columns are added later."""
    import pyarrow.parquet as pq
    row = lambda r: (r["_hoodie_commit_time"], r["_hoodie_partition_path"], r["_hoodie_record_key"])
    rows_of = lambda path: pq.read_table(path, columns=["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"]).to_pylist()
    for q in d["queries"]:
        if not q.get("full") or q["full"] == q["expected"]: continue
        full = os.path.join(env.out, q["full"]); range_ = pq.read_table(os.path.join(env.out, q["expected"]))
        winners = [row(r) for r in rows_of(full)]
        kept = [row(r) in winners for r in range_.to_pylist()]
        if sum(kept) != len(winners): raise AssertionError((d["name"], q["id"], "the range lacks rows"))
        if all(kept): os.remove(full); q.pop("full"); q.pop("full_rows")
        else: pq.write_table(range_.filter(kept), full)
    hudi_case.save_frag(env, d)


def histories(env):
    """Twelve random operations each."""
    for seed, kind, version, index in HISTORIES:
        name = "H_lance_history_%s%d_v%d" % ("mor" if kind == MOR else "cow", seed, version)
        def make(seed=seed, kind=kind, version=version, index=index, name=name):
            env.tv = version
            changes = {"hoodie.table.cdc.enabled": "true"} if (kind, version) == (COW, 9) else {}
            c = Case(env, name, kind, "A random history of base files in Lance, seed %d, index %s." % (seed, index),
                     {**LANCE, **(BUCKETS if index == "BUCKET" else {"hoodie.index.type": "SIMPLE"}), "hoodie.parquet.small.file.limit": "0", **changes})
            random_histories.run(c, random_histories.history(seed, kind == MOR, version, index), lambda values, changes: later(env, values, changes))
            c.standard()
            if changes: c.standard(inc=False, cdc=True); c.queries = list({q["id"]: q for q in c.queries}.values())
            asked(c)
            if kind == MOR:
                d = json.load(open(os.path.join(env.out, "frag", name + ".json")))
                hudi_case.full_slice(env, d)
                without_losers(env, d)
        yield name, make


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("stage", choices=["write", "pack"]); ap.add_argument("--hudi", default="1.2.0")
    ap.add_argument("--jar"); ap.add_argument("--lance"); ap.add_argument("--work", required=True)
    ap.add_argument("--out", required=True); ap.add_argument("--cases", default="")
    a = ap.parse_args()
    a.work, a.out = os.path.abspath(a.work), os.path.abspath(a.out)
    os.makedirs(a.work, exist_ok=True); os.makedirs(a.out, exist_ok=True)
    if a.stage == "pack": return gen_D.pack(a, "cases_H.json")
    jars = sorted(glob.glob(os.path.join(os.path.abspath(a.lance), "*.jar")))
    connector = [jar for jar in jars if "lance-spark" in os.path.basename(jar)]
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-class-path %s pyspark-shell" % ":".join(jar for jar in jars if jar not in connector)
    env = hudi_case.Env(a, session(",".join([a.jar, *connector])), None)
    asked_for = [re.compile(x) for x in a.cases.split(",") if x]
    for name, make in cases(env):
        if asked_for and not any(x.search(name) for x in asked_for): continue
        t = time.time()
        try: make()
        except Exception as e: log("FAILED", name, cause(e)); traceback.print_exc()
        log(name, "%.0f s" % (time.time() - t))


if __name__ == "__main__": main()
