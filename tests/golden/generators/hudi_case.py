"""A table that Hudi writes step by step, the questions to it and Hudi's answers: what all families but A share."""
import glob, json, os, re, shutil, time

# ----------------------------------------------------------------------------------------------- session
def session(jar, cores="1"):
    from pyspark.sql import SparkSession
    os.environ["TZ"] = "UTC"; time.tzset()
    s = (SparkSession.builder.master(f"local[{cores}]").config("spark.jars", jar)
         .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
         .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
         .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.hudi.catalog.HoodieCatalog")
         .config("spark.kryo.registrator", "org.apache.spark.HoodieSparkKryoRegistrar")
         .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
         .config("spark.default.parallelism", "2").config("spark.driver.memory", "2g")
         .config("spark.sql.session.timeZone", "UTC").config("spark.driver.extraJavaOptions", "-Duser.timezone=UTC")
         .config("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
         .config("spark.sql.warehouse.dir", os.path.join(os.getcwd(), "wh")).getOrCreate())
    s.sparkContext.setLogLevel("OFF")
    return s

# ----------------------------------------------------------------------------------------------- data
def frame(spark, rows, extra=""):
    """rows: (id, ts, v, p). The other columns follow from them, so that every type is present."""
    vals = ",".join("('%s',%dL,%d,'%s')" % r for r in rows)
    return spark.sql(
        "SELECT id, ts, concat('n',v) name, v, cast(v+0.25 as decimal(10,2)) amt, "
        "timestamp_micros(1700000000000000+ts*1000000+123) et, date_add(date'2023-11-14', v) d, p %s "
        "FROM VALUES %s AS t(id,ts,v,p)" % (extra, vals))

# ----------------------------------------------------------------------------------------------- timeline as listed
def instants(base):
    """Completed instants: (requested, completion or None, action, operationType), by file name only."""
    out = []
    d1, d2 = os.path.join(base, ".hoodie"), os.path.join(base, ".hoodie", "timeline")
    if os.path.isdir(d2):
        for f in os.listdir(d2):
            m = re.match(r"^(\d+)_(\d+)\.(\w+)$", f)
            if m: out.append((m[1], m[2], m[3], os.path.join(d2, f)))
    else:
        for f in os.listdir(d1):
            m = re.match(r"^(\d+)\.(commit|deltacommit|replacecommit|clean|rollback|savepoint|restore|indexing)$", f)
            if m: out.append((m[1], None, m[2], os.path.join(d1, f)))
    return sorted(out)
DATA = ("commit", "deltacommit", "replacecommit")

class Case:
    def __init__(self, env, name, kind, what, options=None, precombine="ts", cores=None):
        self.env, self.name, self.kind, self.what = env, name, kind, what
        self.base = os.path.join(env.work, name)
        shutil.rmtree(self.base, ignore_errors=True)
        self.steps, self.queries, self.notes = [], [], []
        self.o = {
            "hoodie.table.name": "t", "hoodie.datasource.write.table.type": kind,
            "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.metadata.enable": "false", "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT", "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false",
            "hoodie.index.bloom.num_entries": "100", "hoodie.bloom.index.filter.dynamic.max.entries": "1000",
            "hoodie.upsert.shuffle.parallelism": "1", "hoodie.insert.shuffle.parallelism": "1",
            "hoodie.bulkinsert.shuffle.parallelism": "1", "hoodie.delete.shuffle.parallelism": "1",
            "hoodie.datasource.write.row.writer.enable": "true"}
        if precombine: self.o["hoodie.datasource.write.precombine.field"] = precombine
        if env.tv: self.o["hoodie.write.table.version"] = str(env.tv)
        self.o.update(options or {})
        self.first = True
    # ---- writes
    def write(self, op, rows, text=None, df=None, **opts):
        o = dict(self.o); o["hoodie.datasource.write.operation"] = op
        o.update({k: str(v) for k, v in opts.pop("o", {}).items()})
        before = {i[0] for i in instants(self.base)} if os.path.isdir(os.path.join(self.base, ".hoodie")) else set()
        df = df if df is not None else frame(self.env.spark, rows)
        mode = "overwrite" if self.first and not os.path.isdir(os.path.join(self.base, ".hoodie")) else "append"
        self.first = False
        df.write.format("hudi").options(**o).mode(mode).save(self.base)
        new = [i for i in instants(self.base) if i[0] not in before]
        self.steps.append("%s %s -> %s" % (text or op, "" if rows is None else json.dumps(rows), ["%s.%s" % (i[0], i[2]) for i in new]))
        return new
    def call(self, sql, text=None):
        before = {i[0] for i in instants(self.base)}
        r = [x.asDict() for x in self.env.spark.sql(sql.replace("$P", self.base)).collect()]
        new = [i for i in instants(self.base) if i[0] not in before]
        self.steps.append("%s -> %s" % (text or sql.replace("$P", "<table>"), ["%s.%s" % (i[0], i[2]) for i in new]))
        return r
    SVC = "hoodie.metadata.enable=false,hoodie.embed.timeline.server=false,hoodie.clean.automatic=false,hoodie.archive.automatic=false"
    def compact(self, op="scheduleAndExecute", opts=""):
        return self.call("CALL run_compaction(op => '%s', path => '$P', options => 'hoodie.compact.inline.max.delta.commits=1,%s%s')" % (op, self.SVC, opts), "compaction " + op)
    def cluster(self, op="scheduleAndExecute", opts=""):
        return self.call("CALL run_clustering(op => '%s', path => '$P', options => 'hoodie.clustering.plan.strategy.small.file.limit=1000000000,%s%s')" % (op, self.SVC, opts), "clustering " + op)
    # ---- queries
    def ask(self, qid, query, begin=None, end=None, as_of=None, bounds="", note="", options=None):
        self.queries.append(dict(id=qid, query=query, as_of=as_of, begin=begin, end=end, bounds=bounds, note=note, options=options or {}))
    def standard(self, inc=True, cdc=False, per=True):
        self.ask("snapshot", "snapshot")
        if self.kind == "MERGE_ON_READ": self.ask("read_optimized", "read_optimized")
        ts = [i for i in instants(self.base) if i[2] in DATA]
        layout2 = os.path.isdir(os.path.join(self.base, ".hoodie", "timeline"))
        b = "begin exclusive, end inclusive, on %s" % ("completion time" if layout2 else "requested time")
        pos = sorted((i[1] if layout2 else i[0], i) for i in ts)
        if inc:
            self.ask("inc_all", "incremental", "000", None, bounds=b)
            if per and not cdc:
                prev = "000"
                for n, (t, i) in enumerate(pos):
                    self.ask("inc_%02d" % (n + 1), "incremental", prev, t, bounds=b, note="only %s %s" % (i[0], i[2])); prev = t
                m = len(pos) // 2
                self.ask("inc_mid", "incremental", pos[m - 1][0], None, bounds=b, note="second half")
                if len(pos) > 3: self.ask("inc_2_to_last1", "incremental", pos[0][0], pos[-2][0], bounds=b, note="all but first and last")
        if cdc:
            bc = "begin exclusive, end inclusive, on requested time"
            self.ask("cdc_all", "cdc", "000", None, bounds=bc)
            req = sorted(i[0] for i in ts); prev = "000"
            if per:
                for n, t in enumerate(req):
                    i = [x for x in ts if x[0] == t][0]
                    self.ask("cdc_%02d" % (n + 1), "cdc", prev, t, bounds=bc, note="only %s %s" % (i[0], i[2])); prev = t
                m = len(req) // 2
                self.ask("cdc_mid", "cdc", req[m - 1], None, bounds=bc, note="second half")
    def finish(self):
        d = dict(name=self.name, hudi=self.env.hudi, table_version=table_version(self.base), table_type=self.kind, what=self.what,
                 sql="; ".join(self.steps), notes=self.notes, queries=[])
        d["instants"] = [list(i[:3]) for i in instants(self.base)]
        for q in self.queries: d["queries"].append(run_query(self.env, self.base, self.name, dict(q)))
        save_frag(self.env, d)
        bad = [q["id"] for q in d["queries"] if q["error"]]
        log("case %s: %d queries, rows %s, errors %s" % (self.name, len(d["queries"]), [(q["id"], q["rows"]) for q in d["queries"]], bad))

def table_version(base):
    t = open(os.path.join(base, ".hoodie", "hoodie.properties")).read()
    m = re.search(r"hoodie\.table\.version=(\d+)", t)
    return int(m[1])
def save_frag(env, d):
    os.makedirs(os.path.join(env.out, "frag"), exist_ok=True)
    json.dump(d, open(os.path.join(env.out, "frag", d["name"] + ".json"), "w"), indent=1)

def options_of(q):
    o = {}
    if q["query"] in ("incremental", "cdc"):
        o["hoodie.datasource.query.type"] = "incremental"
        o["hoodie.datasource.read.begin.instanttime"] = q["begin"]
        if q["end"]: o["hoodie.datasource.read.end.instanttime"] = q["end"]
        if q["query"] == "cdc": o["hoodie.datasource.query.incremental.format"] = "cdc"
    elif q["query"] == "read_optimized": o["hoodie.datasource.query.type"] = "read_optimized"
    elif q["query"] == "time_travel": o["as.of.instant"] = q["as_of"]
    o.update(q["options"])
    return o
def cause(e):
    s = str(e)
    j = getattr(e, "java_exception", None) or getattr(getattr(e, "_origin", None), "java_exception", None)
    out = [s.split("\n")[0][:300]]
    try:
        j = j or e._origin
        c = j
        if c is not None: out.append(c.toString().split("\n")[0][:400])
        while c is not None and c.getCause() is not None and len(out) < 6:
            c = c.getCause(); out.append(c.toString().split("\n")[0][:300])
    except Exception: pass
    for m in re.findall(r"Caused by: ([^\n]{1,300})", s)[-2:]: out.append(m)
    return " <- ".join(dict.fromkeys(out))
def run_query(env, base, case, q, suffix=""):
    q["hudi"] = env.hudi; q["also"] = []; q["error"] = None; q["rows"] = None; q["expected"] = None
    q["options"] = options_of(q)
    rel = "expected/%s/%s%s.parquet" % (case, q["id"], suffix)
    dst = os.path.join(env.out, rel); tmp = os.path.join(env.work, "_tmp_%s" % os.getpid())
    os.makedirs(os.path.dirname(dst), exist_ok=True); shutil.rmtree(tmp, ignore_errors=True)
    try:
        reader = env.spark.read.format("hudi").options(**q["options"])
        df = (reader.schema(env.schema(q)) if env.schema else reader).load(base)
        df.coalesce(1).write.parquet(tmp)
        fs = glob.glob(os.path.join(tmp, "part-*.parquet"))
        import pyarrow.parquet as pq
        if not fs: q["rows"] = 0; q["note"] = (q.get("note") or "") + " (no rows, no file)"
        else:
            shutil.copy(fs[0], dst); q["rows"] = pq.read_metadata(dst).num_rows; q["expected"] = rel
    except Exception as e:
        q["error"] = cause(e)
    shutil.rmtree(tmp, ignore_errors=True)
    return q
def full_slice(env, d):
    """Penstock's answer for a range: Hudi's own snapshot as of the last instant, filtered by the set of instants.
    Only for tables whose instants complete in the order requested (time travel compares requested times)."""
    import pyarrow.parquet as pq, pyarrow.compute as pc, pyarrow as pa
    base = os.path.join(env.work, d["name"]); ins = [i for i in d["instants"] if i[2] in DATA]
    for q in d["queries"]:
        if q["query"] != "incremental" or q["hudi"] != d["hudi"] or not re.match(r"^inc_(\d\d|mid|all|2_to_last1)$", q["id"]): continue
        S = sorted(i[0] for i in ins if q["begin"] < (i[1] or i[0]) <= (q["end"] or "9"))
        if not S: continue
        t = {"id": q["id"] + ".full", "query": "time_travel", "as_of": S[-1], "begin": None, "end": None, "options": {}, "note": ""}
        r = run_query(env, base, d["name"], t)
        if r["error"]: q["full_error"] = r["error"]; continue
        q["full"], q["full_rows"] = None, 0
        if r["expected"]:
            p = os.path.join(env.out, r["expected"]); x = pq.read_table(p)
            x = x.filter(pc.is_in(x["_hoodie_commit_time"], pa.array(S))); pq.write_table(x, p)
            q["full"], q["full_rows"] = r["expected"], x.num_rows
            if q["expected"] and canon(p) == canon(os.path.join(env.out, q["expected"])): os.remove(p); q["full"] = q["expected"]
def canon(path):
    import pyarrow.parquet as pq
    t = pq.read_table(path)
    return sorted(t.column_names), sorted(json.dumps([str(r[c]) for c in sorted(r)]) for r in t.to_pylist())
def log(*a):
    print(time.strftime("%H:%M:%S"), *a, flush=True)

class Env:
    def __init__(self, a, spark, tv=None):
        self.hudi, self.work, self.out, self.spark, self.tv = a.hudi, a.work, a.out, spark, tv
        self.schema = None  # query -> the schema to read with, for columns that Spark has no type for

# ----------------------------------------------------------------------------------------------- cases
