"""Golden tables of family E: bootstrapped tables (`hoodie.bootstrap.base.path`), metadata-only, full and mixed.

Real Hudi bootstraps, writes and answers everything here. With Hudi 1.2.0 it needs javac, for a user-defined key
generator. The source files stay beside the table in WORK/<case>.source and are packed as `.source/` into the table's zip.

    python gen_E.py write --hudi 1.2.0 --jar BUNDLE.jar --work DIR --out DIR
    python gen_E.py reread --hudi 1.2.0 --jar BUNDLE.jar --work DIR --out DIR   (a newer release asks every query again)
    python gen_E.py pack --work DIR --out DIR [--onto cases_E.json]   (the cases of that catalogue are kept as they are)

`--cases` (regular expressions, separated by commas) and the layout of WORK and OUT are those of gen_B.py.
"""
import argparse, glob, json, os, random, re, time, traceback, zipfile
import hudi_case, random_histories
from boot_case import BootCase, COW, FULL, METADATA, MIXED, MOR, NONPART, R
from bootstrap_paths import formatted_cases, orc_cases, path_cases, with_key_generator
from hudi_case import Env, canon, cause, instants, log, run_query, save_frag, session
from gen_H import without_losers


def cow(env, v, cdc=False):
    c = BootCase(env, f"E_cow{'_cdc' if cdc else ''}_v{v}", COW, "Metadata-only bootstrap, two files a partition; upserts rewrite some slices, a delete, a new partition.",
                 {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "OP_KEY_ONLY"} if cdc else None)
    c.spark_source(); c.bootstrap(METADATA)
    c.write("upsert", [R(3, 20, 103, "a"), R(30, 20, 130, "a"), R(6, 5, 106, "a")])
    c.write("delete", [R(1, 30, 0, "b")])
    c.write("upsert", [R(40, 40, 140, "d")])
    c.done(cdc)


def mor(env, v):
    c = BootCase(env, f"E_mor_v{v}", MOR, "Metadata-only bootstrap; logs over skeletons: newer, older and equal ordering values, deletes, new keys; partition b compacted later, then logs again.")
    c.spark_source(); c.bootstrap(METADATA)
    c.write("upsert", [R(3, 20, 103, "a"), R(6, 5, 106, "a"), R(9, 10, 109, "a"), R(30, 20, 130, "a"), R(1, 20, 101, "b")])
    c.write("delete", [R(4, 30, 0, "b"), R(12, 30, 0, "a")])
    c.write("upsert", [R(3, 40, 203, "a"), R(12, 40, 212, "a")])
    c.done()


def mor_compacted(env, v):
    c = BootCase(env, f"E_mor_compacted_v{v}", MOR, "Metadata-only bootstrap; logs; compaction of the slices with logs; logs again over compacted and skeleton slices.")
    c.spark_source(keep_p=True); c.bootstrap(METADATA)
    c.write("upsert", [R(3, 20, 103, "a"), R(6, 5, 106, "a")])
    c.compact()
    c.write("upsert", [R(3, 40, 203, "a"), R(2, 40, 202, "c"), R(5, 9, 205, "c")])
    c.done()


def mixed(env, v, kind):
    c = BootCase(env, f"E_mixed_{'mor' if kind == MOR else 'cow'}_v{v}", kind, "Partition b by full bootstrap, the others metadata-only; upserts into both.")
    c.spark_source(keep_p=True); c.bootstrap(MIXED)
    c.write("upsert", [R(1, 20, 101, "b"), R(3, 20, 103, "a"), R(4, 5, 104, "b")])
    c.done()


def full(env, v):
    c = BootCase(env, f"E_full_v{v}", COW, "Full bootstrap of every partition; an upsert.")
    c.spark_source(keep_p=True); c.bootstrap(FULL)
    c.write("upsert", [R(3, 20, 103, "a")])
    c.done()


def groups(env, v, kind):
    c = BootCase(env, f"E_row_groups_{'mor' if kind == MOR else 'cow'}_v{v}", kind, "Metadata-only bootstrap of files with many row groups and nested columns; one partition updated by a frame without the nested column's rows.")
    c.arrow_source(); c.bootstrap(METADATA)
    df = env.spark.sql("SELECT id, ts, name, v, named_struct('x', 7, 'y', array('z')) s, p FROM VALUES ('k03',20L,'n103',103,'a'),('k12',5L,'n112',112,'a'),('k50',20L,'n150',150,'a') AS t(id,ts,name,v,p)")
    c.write("upsert", None, "upsert k03 (newer), k12 (older), k50 (new)", df=df)
    c.done()


def nonpart(env, v, kind):
    c = BootCase(env, f"E_nonpart_{'mor' if kind == MOR else 'cow'}_v{v}", kind, "Metadata-only bootstrap of a table without partitions.", NONPART)
    c.spark_source(parts=False); c.bootstrap(METADATA, NONPART)
    c.write("upsert", [R(3, 20, 103, "a"), R(60, 20, 160, "z")])
    c.done()


def widened(env, v):
    c = BootCase(env, f"E_widened_v{v}", MOR, "Metadata-only bootstrap; v becomes a long and a column is added by a later upsert, so that source files have older types.")
    c.spark_source(); c.bootstrap(METADATA)
    df = env.spark.sql("SELECT id, ts, name, if(ts>0, cast(v as long), null) v, cast(v+0.25 as decimal(10,2)) amt, timestamp_micros(1700000000000000) et, date'2023-11-14' d, if(ts>0, 'more', null) extra, p FROM VALUES ('k03',20L,'n103',5000000000L,'a'),('k51',20L,'n151',151L,'b') AS t(id,ts,name,v,p)")
    c.write("upsert", None, "upsert k03, k51 with v long and a new column", df=df)
    c.done()


def special(env, v):
    c = BootCase(env, f"E_special_v{v}", COW, "Metadata-only bootstrap of partitions with escaped characters and of the null partition.")
    c.spark_source([("k01", 10, 1, "x y/z"), ("k02", 10, 2, "ü%"), ("k03", 10, 3, "__HIVE_DEFAULT_PARTITION__")])
    c.bootstrap(METADATA); c.write("upsert", [R(9, 20, 9, "plain")]); c.done()


def metadata_table(env, v, kind):
    c = BootCase(env, f"E_mdt_{'mor' if kind == MOR else 'cow'}_v{v}", kind, "Metadata-only bootstrap with a metadata table (without column statistics, which Hudi refuses here); twelve partitions; upserts.",
                 {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "false"})
    c.spark_source([("k%02d" % n, 10, n, "abcdefghijkl"[n % 12]) for n in range(1, 25)]); c.bootstrap(METADATA)
    c.write("upsert", [R(1, 20, 101, "b"), R(12, 5, 112, "a"), R(30, 20, 130, "m")])
    c.done()


def archived(env, v, kind):
    c = BootCase(env, f"E_archived_{'mor' if kind == MOR else 'cow'}_v{v}", kind, "Metadata-only bootstrap, then upserts of partition a until the bootstrap's instant is archived; partitions b and c are still skeletons, one with a log in MOR.")
    c.spark_source(); c.bootstrap(METADATA)
    c.write("upsert", [R(1, 20, 101, "b")] if kind == MOR else [R(3, 15, 33, "a")])
    c.o.update({"hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1", "hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"})
    for n in range(1, 8):
        c.write("upsert", [R(3, 20 + n, 100 + n, "a")])
        if kind == MOR and n % 2 == 0: c.compact()
    c.ask("snapshot", "snapshot")
    if kind == MOR: c.ask("read_optimized", "read_optimized")
    last = [i for i in instants(c.base) if i[2] in hudi_case.DATA][-1]
    c.ask("time_travel_1", "time_travel", as_of=last[0])
    c.finish()


def cases(env):
    for v in ((6,) if env.hudi == "0.15.0" else (9,)):
        yield f"E_cow_v{v}", lambda: cow(env, v)
        yield f"E_mor_v{v}", lambda: mor(env, v)
        yield f"E_mor_compacted_v{v}", lambda: mor_compacted(env, v)
        yield f"E_mixed_mor_v{v}", lambda: mixed(env, v, MOR)
        yield f"E_row_groups_mor_v{v}", lambda: groups(env, v, MOR)
        yield f"E_nonpart_mor_v{v}", lambda: nonpart(env, v, MOR)
        yield f"E_widened_v{v}", lambda: widened(env, v)
        yield f"E_archived_mor_v{v}", lambda: archived(env, v, MOR)
        if v == 9:
            yield f"E_mdt_mor_v{v}", lambda: metadata_table(env, v, MOR)
            yield f"E_mdt_cow_v{v}", lambda: metadata_table(env, v, COW)
            yield f"E_archived_cow_v{v}", lambda: archived(env, v, COW)
            yield f"E_full_v{v}", lambda: full(env, v)
            yield f"E_mixed_cow_v{v}", lambda: mixed(env, v, COW)
            yield f"E_row_groups_cow_v{v}", lambda: groups(env, v, COW)
            yield f"E_nonpart_cow_v{v}", lambda: nonpart(env, v, COW)
            yield f"E_special_v{v}", lambda: special(env, v)
            yield f"E_cow_cdc_v{v}", lambda: cow(env, v, cdc=True)
            yield from formatted_cases(env, v)
            yield from orc_cases(env, v)
            yield from path_cases(env, v)
    yield from histories(env)


TYPES = ("SELECT id, ts, nullif(v, 0) v, nullif(concat('n', v), 'n0') name, cast(v as double) / 2 d, cast(nullif(v, 0) + 0.25 as decimal(10,2)) amt, "
         "date_add(date'1969-12-30', v) day, timestamp_micros(1700000000000000 + ts * 1000000 - v * 60000000000000) at, if(v = 0, null, array(v, v + 1)) arr, "
         "if(v = 0, null, map('k', v)) m, if(v = 0, null, named_struct('x', nullif(v, 2), 'y', concat('y', v))) st, p FROM VALUES %s AS t(id,ts,v,p)")
CDC = {"hoodie.table.cdc.enabled": "true"}
NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
BY_REGEX = {**MIXED, "hoodie.bootstrap.mode.selector.regex": "p=y.*"}
HISTORIES = [("1.2.0", 989, COW, 9, METADATA, CDC), ("1.2.0", 561, MOR, 9, METADATA, {"hoodie.compact.inline": "true"}), ("1.2.0", 1754, MOR, 9, METADATA, {**CDC, **NO_SMALL_FILES}),
             ("1.2.0", 1078, MOR, 9, BY_REGEX, NO_SMALL_FILES), ("1.2.0", 1643, MOR, 6, METADATA, NO_SMALL_FILES),
             ("0.15.0", 185, MOR, 6, METADATA, {}), ("0.15.0", 313, COW, 6, METADATA, {})]
"""(Release, seed, table type, version, mode, options) of each. With other seeds Hudi 1.2.0 fails at some inserts that would rewrite a skeleton."""


def typed(spark, values):
    """Rows of a history: nulls and nested columns."""
    return spark.sql(TYPES % ",".join(map(str, values)))


def later(spark, values, changes):
    """Rows of a history, with the columns of its schema."""
    from pyspark.sql import functions
    df = typed(spark, values)
    if not changes: return df
    return df.withColumn("v", functions.col("v").cast("long")).withColumn("w", functions.expr("nullif(concat('w', id), 'wk01')"))


def source_rows(seed):
    draw = random.Random("source %d" % seed)
    return [("k%02d" % n, draw.randint(1, 12), 0 if draw.random() < 0.1 else n + 1, draw.choice(random_histories.PARTITIONS))
            for n in range(draw.randint(12, 20))]


def empty_images(env, d):
    """Changes with an image of a row of a skeleton: Hudi reads it without its source file, and so without its values."""
    import pyarrow.parquet as pq
    for q in d["queries"]:
        if q["query"] != "cdc" or not q["expected"] or "WRONG" in q["note"]: continue
        images = pq.read_table(os.path.join(env.out, q["expected"]), columns=["before", "after"])
        empty = sum(all(name.startswith("_hoodie_") for name in json.loads(image)) for side in images.columns for image in side.to_pylist() if image and image != "null")
        if empty: q["note"] += "; WRONG: %d images of rows of the bootstrap are empty, since Hudi reads skeletons without their source files here" % empty


def ranges_without_losers(env, d, queries):
    """`full` of the ranges that this release answered."""
    asked = [dict(q, hudi=env.hudi) for q in queries]
    part = dict(d, hudi=env.hudi, queries=asked)
    hudi_case.full_slice(env, part)
    without_losers(env, part)
    for q, answered in zip(queries, asked): q.update({k: v for k, v in answered.items() if k.startswith("full")})


def histories(env):
    """A bootstrap of random rows, then eleven random operations each."""
    for release, seed, kind, version, mode, options in HISTORIES:
        if release != env.hudi: continue
        name = "E_history_%s%d_v%d" % ("mor" if kind == MOR else "cow", seed, version)
        def make(seed=seed, kind=kind, version=version, mode=mode, options=options, name=name):
            c = BootCase(env, name, kind, "A random history of a bootstrapped table, seed %d, %s." % (seed, "mixed" if mode is BY_REGEX else "metadata-only"),
                         {"hoodie.index.type": "SIMPLE", "hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false", "hoodie.compact.inline": "false", **options})
            (_, first, _), *operations = random_histories.history(seed, kind == MOR, version, "SIMPLE", source_rows(seed))
            c.spark_source(first, keep_p=mode is BY_REGEX, data=typed); c.steps.append("rows of the source: %s" % first); c.bootstrap(mode)
            random_histories.run(c, operations, lambda values, changes: later(env.spark, values, changes))
            c.done(cdc=options.items() >= CDC.items())
            d = json.load(open(os.path.join(env.out, "frag", name + ".json")))
            empty_images(env, d)
            if kind == MOR and release == "1.2.0": ranges_without_losers(env, d, d["queries"])
            save_frag(env, d)
        yield name, make


def full_ranges(env, d):
    """hudi_case.full_slice, except where the snapshot has other columns than the range: it has the schema of its instant."""
    import pyarrow.parquet as pq
    hudi_case.full_slice(env, d)
    for q in d["queries"]:
        own = [pq.read_schema(os.path.join(env.out, q[k])).names for k in ("full", "expected") if q.get(k)]
        if len(own) == 2 and own[0] != own[1]:
            os.remove(os.path.join(env.out, q.pop("full"))); q.pop("full_rows")
            if d["hudi"] == "0.15.0": q["note"] += "; WRONG: 0.15.0 reads skeletons without their source files here (nulls)"
    save_frag(env, d)


def reread(env, ok):
    """Of tables that this release wrote: the rows of ranges by the rule of `full` (hudi_case.full_slice). Of others: rows
    that differ become an entry `<id>__r<release>` each."""
    for fr in sorted(glob.glob(os.path.join(env.out, "frag", "*.json"))):
        d = json.load(open(fr))
        if not ok(d["name"]) or (env.hudi == "0.15.0" and d["table_version"] > 6): continue
        if d["hudi"] == env.hudi:
            if d["table_type"] == MOR: full_ranges(env, d)
            if "special" in d["name"]:
                for q in d["queries"]:
                    if q["id"] in ("inc_all", "inc_01"): q["note"] += "; WRONG: p is not unescaped ('x y%2Fz'), a snapshot has 'x y/z'"
                save_frag(env, d)
            continue
        suffix = "__r" + env.hudi.replace(".", ""); add = []; history = "_history_" in d["name"]
        d["queries"] = [q for q in d["queries"] if q["hudi"] != env.hudi]
        for q in d["queries"]:
            n = run_query(env, os.path.join(env.work, d["name"]), d["name"], json.loads(json.dumps(q)), suffix)
            if n["expected"] and q["expected"] and canon(os.path.join(env.out, n["expected"])) == canon(os.path.join(env.out, q["expected"])):
                q["also"] = [env.hudi]; os.remove(os.path.join(env.out, n["expected"]))
            elif (n["rows"] == 0 and q["rows"] == 0) or (n["error"] and q["error"]): q["also"] = [env.hudi]
            if history and d["table_type"] == MOR: ranges_without_losers(env, d, [q if q["also"] else n])
            if not q["also"]:
                if history: q["note"] += "; WRONG: 0.15.0 " + ("reads skeletons without their source files here (nulls)" if d["table_type"] == MOR else "omits file groups that were replaced later")
                n["id"] = q["id"] + suffix; add.append(n)
                if q.get("full") not in (None, q["expected"]): q["note"] += "; 0.15.0 reads skeletons without their source files here (nulls): `full` has the rows"
        d["queries"] += add; save_frag(env, d)
        log("reread", d["name"], "different:", [(x["id"], x["rows"], x["error"]) for x in add])


def pack(a):
    os.makedirs(os.path.join(a.out, "tables"), exist_ok=True); out = []
    for fr in sorted(glob.glob(os.path.join(a.out, "frag", "*.json"))):
        d = json.load(open(fr)); d["table"] = "tables/%s.zip" % d["name"]; out.append(d)
        for q in d["queries"]:
            if q.get("error"):
                q["error"] = re.sub(r"(file:)?" + re.escape(a.work) + r"/[\w.]+", "<table>", q["error"])[-500:]
                q["error"] = re.sub(r"\([\w.:-]+ executor driver\)", "(executor driver)", q["error"])
        d["sql"] = d["sql"].replace(a.work, "<work>")
        with zipfile.ZipFile(os.path.join(a.out, d["table"]), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
            for base, prefix in ((os.path.join(a.work, d["name"]), ""), (os.path.join(a.work, d["name"] + ".source"), ".source/")):
                for root, dirs, files in os.walk(base):
                    for n in [x for x in dirs if not os.listdir(os.path.join(root, x))]: z.writestr(zipfile.ZipInfo(prefix + os.path.relpath(os.path.join(root, n), base) + "/"), "")
                    for n in sorted(files):
                        if not n.endswith(".crc"): z.write(os.path.join(root, n), prefix + os.path.relpath(os.path.join(root, n), base))
    packed = {d["name"] for d in out}
    kept = [d for d in json.load(open(a.onto)) if d["name"] not in packed] if a.onto else []
    json.dump(sorted(kept + out, key=lambda d: d["name"]), open(os.path.join(a.out, "cases_E.json"), "w"), indent=1)
    print(len(out), "cases")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("stage", choices=["write", "reread", "pack"]); ap.add_argument("--hudi", default="1.2.0")
    ap.add_argument("--jar"); ap.add_argument("--work", required=True); ap.add_argument("--out", required=True); ap.add_argument("--cases", default=""); ap.add_argument("--onto", default="")
    a = ap.parse_args()
    a.work, a.out = os.path.abspath(a.work), os.path.abspath(a.out)
    os.makedirs(a.work, exist_ok=True); os.makedirs(a.out, exist_ok=True)
    if a.stage == "pack": return pack(a)
    asked = [re.compile(x) for x in a.cases.split(",") if x]
    ok = lambda n: not asked or any(x.search(n) for x in asked)
    env = Env(a, session(with_key_generator(a.jar, a.work) if a.hudi == "1.2.0" else a.jar), None)
    env.spark.sql("set spark.sql.orc.enableVectorizedReader=false")  # as in gen_F
    if a.stage == "reread": return reread(env, ok)
    for name, make in cases(env):
        if not ok(name): continue
        t = time.time()
        try: make()
        except Exception as e: log("FAILED", name, cause(e)); traceback.print_exc()
        log(name, "%.0f s" % (time.time() - t))


if __name__ == "__main__": main()
