"""Golden tables of family F: base files in ORC (`hoodie.table.base.file.format=ORC`).

    python gen_F.py write --hudi 1.2.0 --jar BUNDLE.jar --work DIR --out DIR
    python gen_F.py pack --work DIR --out DIR

`--cases` and the layout of WORK and OUT are those of gen_B.py. Hudi 1.2.0 reads ORC files alone (copy on write,
read-optimized) only without Spark's vectorized ORC reader, so the session has it off. It cannot compact such a table.
"""
import argparse, os, re, time, traceback
import gen_B, gen_D
from gen_B import Case, cause, instants, log, session

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
AVRO = "org.apache.hudi.common.model.HoodieAvroRecordMerger"
ORC = {"hoodie.table.base.file.format": "ORC", "hoodie.base.file.format": "ORC", "hoodie.write.auto.upgrade": "false",
       "hoodie.datasource.write.row.writer.enable": "false", "hoodie.logfile.data.block.format": "avro",
       "hoodie.write.record.merge.custom.implementation.classes": AVRO}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", "hoodie.bucket.index.hash.field": "id"}
TYPES = ("SELECT id, ts, nullif(v, 0) v, nullif(v, 0) * 3000000000L big, nullif(concat('n', v), 'n0') name, cast(v as double) / 2 d, cast(v as float) f, "
         "v > 3 flag, cast(nullif(v, 0) + 0.25 as decimal(10,2)) amt, cast(v as decimal(30,5)) wide, date_add(date'1969-12-30', v) day, "
         "timestamp_micros(1700000000000000 + ts * 1000000) at, cast(concat('b', v) as binary) bin, "
         "if(v = 0, null, array(v, v + 1)) arr, if(v = 0, null, map('k', v)) m, "
         "if(v = 0, null, named_struct('x', v, 'y', concat('y', v), 'at', timestamp_micros(ts * 1000000), 'in', array(named_struct('z', v)))) st, p FROM VALUES %s AS t(id,ts,v,p)")
FIRST = [("a", 1, 0, "x"), ("b", 1, 2, "x"), ("c", 1, 3, "y"), ("d", 1, 4, "y"), ("e", 1, 5, "x")]
SECOND = [("a", 2, 10, "x"), ("c", 2, 30, "y"), ("f", 2, 6, "y"), ("g", 2, 0, "x")]
THIRD = [("b", 3, 20, "x"), ("d", 3, 0, "y")]
LAST = [("e", 5, 50, "x"), ("h", 5, 8, "y")]


def rows(env, values):
    return env.spark.sql(TYPES % ",".join(map(str, values)))


def life(env, kind, version, name, what, options):
    from pyspark.sql import functions
    def make():
        env.tv = version
        c = Case(env, f"F_{name}_v{version}", kind, what, {**ORC, **options})
        c.write("upsert", None, text="insert %s" % FIRST, df=rows(env, FIRST))
        c.write("upsert", None, text="upsert %s" % SECOND, df=rows(env, SECOND))
        c.write("delete", None, text="delete b, f", df=rows(env, [("b", 9, 1, "x"), ("f", 9, 1, "y")]))
        c.write("upsert", None, text="upsert %s" % THIRD, df=rows(env, THIRD))
        c.write("upsert", None, text="v long, w string: upsert %s" % LAST,
                df=rows(env, LAST).withColumn("v", functions.col("v").cast("long")).withColumn("w", functions.expr("nullif(concat('w', id), '')")))
        c.standard()
        for n, i in enumerate([i for i in instants(c.base) if i[2] in gen_B.DATA]):
            c.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
        c.finish()
    return f"F_{name}_v{version}", make


def cases(env):
    for v in (6, 9):
        yield life(env, COW, v, "orc_cow", "Base files in ORC, rewritten; every type, nulls; a column is added.", {"hoodie.index.type": "SIMPLE"})
        yield life(env, MOR, v, "orc_mor", "Base files in ORC with Avro logs; every type, nulls; a column is added.",
                   {**BUCKETS, "hoodie.compact.inline": "false"})


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("stage", choices=["write", "pack"]); ap.add_argument("--hudi", default="1.2.0")
    ap.add_argument("--jar"); ap.add_argument("--work", required=True)
    ap.add_argument("--out", required=True); ap.add_argument("--cases", default="")
    a = ap.parse_args()
    a.work, a.out = os.path.abspath(a.work), os.path.abspath(a.out)
    os.makedirs(a.work, exist_ok=True); os.makedirs(a.out, exist_ok=True)
    if a.stage == "pack": return gen_D.pack(a, "cases_F.json")
    spark = session(a.jar)
    spark.sql("set spark.sql.orc.enableVectorizedReader=false")
    env = gen_B.Env(a, spark, None)
    asked = [re.compile(x) for x in a.cases.split(",") if x]
    for name, make in cases(env):
        if asked and not any(x.search(name) for x in asked): continue
        t = time.time()
        try: make()
        except Exception as e: log("FAILED", name, cause(e)); traceback.print_exc()
        log(name, "%.0f s" % (time.time() - t))


if __name__ == "__main__": main()
