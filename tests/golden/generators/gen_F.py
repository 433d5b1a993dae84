"""Golden tables of family F: base files in ORC (`hoodie.table.base.file.format=ORC`).

    python gen_F.py write --hudi 1.2.0 --jar BUNDLE.jar --work DIR --out DIR
    python gen_F.py pack --work DIR --out DIR

`--cases` and the layout of WORK and OUT are those of gen_B.py. Hudi 1.2.0 reads ORC files alone (copy on write,
read-optimized) only without Spark's vectorized ORC reader, so the session has it off. It can neither compact nor cluster such a table.
A table of a JVM in another zone needs a process of its own (`--cases`), because Hudi waits until its instants are later than all before.
"""
import argparse, json, os, re, time, traceback
import gen_D, hudi_case, random_histories
from hudi_case import Case, cause, instants, log, session

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
HISTORIES = [(323, COW, 9, "SIMPLE"), (231, COW, 6, "SIMPLE"), (204, MOR, 9, "SIMPLE"), (47, MOR, 9, "BUCKET"), (262, MOR, 6, "SIMPLE")]
WITHOUT = ("compact", "cluster")  # operations of `random_histories` that Hudi 1.2.0 does not support on tables in ORC
MORE_TYPES = ("SELECT t.*, timestamp_micros(1700000000000000 + ts * 1000000 - coalesce(v, 0) * 60000000000000) old, cast(coalesce(v, 0) as byte) tiny, "
              "if(v is null, array(), array(v, null)) holes, array(array(v), null) nested, array(named_struct('z', v), null) structs, "
              "if(v is null, '', null) blank, if(v is null, double('nan'), -0.0d) nan, cast(-coalesce(v, 0) - 0.5 as decimal(20,3)) neg, "
              "map('t', timestamp_micros(ts * 1000)) times FROM {rows} t")
ZONE = "America/New_York"
UTC_NOTE = "Hudi's JVM in UTC; WRONG: the wall-clock times of the writer's zone; the query without `__utc` has the instants"
# Hudi stores a fraction of a second before 1970 as negative nanoseconds, which its own reader refuses. Its reader returns
# instants before 1883-11-18 (New York) 238 s early, and shifts dates before 1582-10-15 to another calendar: both are left out
# instants: winter, summer; the hour that comes twice; around the hour that is left out; around 1970 in both zones; around 2015; before 1900; later
INSTANTS = {"winter": 1705322096123456, "summer": 1721046896123456, "twice1": 1699162200500000, "twice2": 1699165800500000,
            "gap1": 1678604399999999, "gap2": 1678604400000000, "epoch": 0, "half": 500000, "before": -1000000, "minute": -60000000, "dawn": -3600000000,
            "early": 12345678901, "midnight": 18000000000, "night": 17999999999, "base": 1420088400000000, "base_utc": 1420070400000000,
            "1969": -15724799000000, "1940": -937195199000000, "1899": -2208988801000000, "1884": -2700000000000000,
            "2040": 2225000000250000, "2040s": 2212000000250000, "2200": 7258118400000001, "none": None}
DAYS = {"winter": "2024-01-15", "summer": "2024-07-15", "epoch": "1970-01-01", "before": "1969-12-31", "1899": "1899-12-31", "1884": "1883-11-18",
        "early": "1700-02-28", "2200": "2200-01-01", "1940": "1582-10-15"}
# far from 1970: the ends of the range of Arrow's nanoseconds; a second before 1970 has no fraction, and no time has milliseconds, except the last one
FAR = {"reform": -12219292800000000, "1600": -11676096000000000, "before_low": -9223372037000000, "low": -9223372036000000, "1800": -5364662400000000,
       "epoch": 0, "high": 9223372036000854, "high_out": 9223372036000855, "after_high": 9223372037000000, "2300": 10413792000000001,
       "winter": 10413856496000456, "summer": 10429408496000456, "9999": 253370764800000000, "last": 253402300799999000, "end": 253402300799000999, "none": None}
EARLY = {"first": -62135596800000000, "second": -62135510400000000, "1000": -30610224000000000, "1500": -14817945600000000, "1582": -12220156800000000,
         "last": -12219292801000000, "reform": -12219292800000000, "none": None}
EARLY_NOTE = "WRONG: times before 1582-10-15 are shifted to another calendar; `micros` has the instants that were written"
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
        for n, i in enumerate([i for i in instants(c.base) if i[2] in hudi_case.DATA]):
            c.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
        c.finish()
    return f"F_{name}_v{version}", make


def later(env, values, changes):
    """Rows of a history, with the columns of its schema."""
    import gen_H  # late, because it imports this module
    return gen_H.later(env, values, changes, lambda env, values: env.spark.sql(MORE_TYPES, rows=rows(env, values)))


def histories(env):
    """Twelve random operations each."""
    import gen_H
    for seed, kind, version, index in HISTORIES:
        name = "F_orc_history_%s%d_v%d" % ("mor" if kind == MOR else "cow", seed, version)
        def make(seed=seed, kind=kind, version=version, index=index, name=name):
            env.tv = version
            changes = {"hoodie.table.cdc.enabled": "true"} if (kind, version) == (COW, 9) else {}
            c = Case(env, name, kind, "A random history of base files in ORC, seed %d, index %s." % (seed, index),
                     {**ORC, **(BUCKETS if index == "BUCKET" else {"hoodie.index.type": "SIMPLE"}), "hoodie.compact.inline": "false",
                      "hoodie.parquet.small.file.limit": "0", **changes})
            random_histories.run(c, random_histories.history(seed, kind == MOR, version, index, without=WITHOUT), lambda values, changes: later(env, values, changes))
            c.standard()
            if changes: c.standard(inc=False, cdc=True); c.queries = list({q["id"]: q for q in c.queries}.values())
            gen_H.asked(c)
            if kind == MOR:
                d = json.load(open(os.path.join(env.out, "frag", name + ".json")))
                hudi_case.full_slice(env, d)
                gen_H.without_losers(env, d)
        yield name, make


def in_zone(env, zone):
    """Sets the default zone of the JVM."""
    env.spark._jvm.java.util.TimeZone.setDefault(env.spark._jvm.java.util.TimeZone.getTimeZone(zone))


class ZoneCase(Case):
    """A table whose writer's default zone is ZONE. Each query is asked there, and again (`__utc`) in UTC."""
    def finish(self):
        super().finish()
        d = json.load(open(os.path.join(self.env.out, "frag", self.name + ".json")))
        in_zone(self.env, "UTC")
        for q in [dict(q) for q in self.queries if q["id"] in ("snapshot", "inc_all", "read_optimized")]:
            q = hudi_case.run_query(self.env, self.base, self.name, {**q, "note": UTC_NOTE}, "__utc")
            d["queries"].append({**q, "id": q["id"] + "__utc"})
        hudi_case.save_frag(self.env, d)


def zoned(env, names, version=1):
    """Rows with the instants of these names, also in nested columns."""
    spark = env.spark
    text = lambda x: "null" if x is None else repr(x)
    values = ",".join("(%r, %dL, %s, %s)" % (n, version, "cast(null as bigint)" if INSTANTS[n] is None else "%dL" % INSTANTS[n], text(DAYS.get(n))) for n in names)
    return spark.sql("SELECT id, ts, timestamp_micros(x) at, x micros, coalesce(cast(d as date), date'2000-01-01') day, "
                     "named_struct('at', timestamp_micros(x), 'x', x) st, array(timestamp_micros(x), null) ats, "
                     "map('k', timestamp_micros(x)) m, 'x' p FROM VALUES %s AS t(id, ts, x, d)" % values).coalesce(1)


def zones(env):
    for kind, codec in ((COW, ""), (MOR, ""), (COW, "LZO")):
        name = "F_orc_zone_%s_v9" % (codec.lower() or ("mor" if kind == MOR else "cow"))
        def make(kind=kind, codec=codec, name=name):
            env.tv = 9
            in_zone(env, ZONE)
            try:
                what = "The JVM of the writer is in the zone %s. Queries are asked there, those with `__utc` in UTC." % ZONE
                c = ZoneCase(env, name, kind, what + (" Files are compressed by %s." % codec if codec else ""),
                             {**ORC, "hoodie.index.type": "SIMPLE", "hoodie.compact.inline": "false", **({"hoodie.orc.compression.codec": codec} if codec else {})})
                names = list(INSTANTS)
                c.write("insert", None, text="insert %s" % names, df=zoned(env, names))
                c.write("upsert", None, text="upsert %s" % names[::3], df=zoned(env, names[::3], 2))
                c.standard()
                c.finish()
            finally: in_zone(env, "UTC")
        yield name, make


def far_values():
    """(id, microseconds, partition) such that the seconds are stored as runs of each kind of ORC's encoding, version 2."""
    day, values = 86400000000, list(FAR.values())
    values += [253402214400000000] * 5 + [None] * 3 + [10413792000000000] * 9  # short repeat
    values += [10413792000000000 + n * day for n in range(60)]  # delta
    values += [16725225600000000 + n * n * day + n % 7 for n in range(60)]
    values += [-11676096000000000 + n * 7919 % 3001 * 40 * day for n in range(120)]  # direct
    values += [1700000000000000 + n * 7919 % 97 * 1000000 + n * 31 % 1000 if n % 25 else 253402300799000000 for n in range(120)]  # patched base
    return [("r%03d" % n, None if n % 13 == 12 else value, "xy"[n % 2]) for n, value in enumerate(values)]


def far_rows(env, values, version=1):
    """Rows with these instants, also in nested columns. Each partition is one file."""
    text = ",".join("(%r, %dL, %s, %r)" % (n, version, "cast(null as bigint)" if x is None else "%dL" % x, p) for n, x, p in values)
    return env.spark.sql("SELECT id, ts, timestamp_micros(x) at, x micros, named_struct('at', timestamp_micros(x), 'x', x) st, "
                         "if(x %% 3 = 0, array(), array(timestamp_micros(x), null, timestamp_micros(x))) ats, "
                         "if(x is null, null, map('k', timestamp_micros(x))) m, p FROM VALUES %s AS t(id, ts, x, p)" % text).coalesce(1)


def far(env):
    """Timestamps that Arrow's nanoseconds do not hold. The fractions of file groups in partition `y` are never rewritten."""
    named = lambda names: [(n, x, "x") for n, x in names.items()]
    later = [n for n in FAR if n not in ("reform", "1600", "before_low", "low", "1800")]  # Hudi's zone before 1883
    for name, kind, zone, what, values in (
            ("far_cow", COW, "UTC", "Timestamps before 1677 and after 2262.", far_values()),
            ("far_mor", MOR, "UTC", "Timestamps before 1677 and after 2262, with logs.", far_values()),
            ("far_zone", COW, ZONE, "Timestamps after 2262 of a JVM in %s. Queries are asked there, those with `__utc` in UTC." % ZONE, named({n: FAR[n] for n in later})),
            ("early", COW, "UTC", "Timestamps before 1582-10-15.", named(EARLY))):
        name = "F_orc_%s_v9" % name
        def make(name=name, kind=kind, zone=zone, what=what, values=values):
            env.tv = 9
            in_zone(env, zone)
            try:
                options = {**ORC, "hoodie.index.type": "SIMPLE", "hoodie.compact.inline": "false"}
                c = (Case if zone == "UTC" else ZoneCase)(env, name, kind, what, options)
                changed = [v for v in values if v[2] == "x"][::5]
                c.write("insert", None, text="insert %d rows" % len(values), df=far_rows(env, values))
                c.write("upsert", None, text="upsert %s" % [n for n, _, _ in changed], df=far_rows(env, changed, 2))
                c.standard()
                if values[0][0] == "first":
                    for q in c.queries: q["note"] = EARLY_NOTE
                c.finish()
            finally: in_zone(env, "UTC")
        yield name, make


def cases(env):
    yield from histories(env)
    yield from zones(env)
    yield from far(env)
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
    spark.sql("set spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED")  # of the expected rows
    env = hudi_case.Env(a, spark, None)
    asked = [re.compile(x) for x in a.cases.split(",") if x]
    for name, make in cases(env):
        if asked and not any(x.search(name) for x in asked): continue
        t = time.time()
        try: make()
        except Exception as e: log("FAILED", name, cause(e)); traceback.print_exc()
        log(name, "%.0f s" % (time.time() - t))


if __name__ == "__main__": main()
