"""Scenarios of family B: instants that complete in another order, timelines, upgrades, statistics, types of changes."""
import json, os, re, shutil, threading, time
from hudi_case import Case, DATA, cause, frame, instants, log, table_version
from range_cases import CDC, MODE

def wait_for(fn, sec=90):
    t = time.time()
    while time.time() - t < sec:
        r = fn()
        if r: return r
        time.sleep(0.1)
    raise RuntimeError("timeout")

OCC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control", "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
       "hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.clean.failed.writes.policy": "LAZY"}
def gated(env, rows, gate):
    """A frame whose rows stay in the task until the file GATE exists."""
    from pyspark.sql.functions import udf
    def hold(x):
        import os, time
        for _ in range(1200):
            if os.path.exists(gate): break
            time.sleep(0.1)
        return x
    h = udf(hold, "string")
    df = frame(env.spark, rows)
    cols = df.columns
    return df.withColumn("id", h("id")).select(*cols)
def requested(base):
    out = set()
    for d in (os.path.join(base, ".hoodie"), os.path.join(base, ".hoodie", "timeline")):
        if os.path.isdir(d):
            for f in os.listdir(d):
                m = re.match(r"^(\d+)\.(\w+)\.requested$", f)
                if m: out.add(m[1])
    return out
def race(c, op_slow, slow_rows, during, text):
    """Start a write, hold its rows, run DURING, then release it: requested first, completes last."""
    gate = os.path.join(c.env.work, "_gate_%s_%d" % (c.name, len(c.steps)))
    if os.path.exists(gate): os.remove(gate)
    have = requested(c.base); err = []
    def slow():
        try:
            o = dict(c.o); o["hoodie.datasource.write.operation"] = op_slow
            gated(c.env, slow_rows, gate).write.format("hudi").options(**o).mode("append").save(c.base)
        except Exception as e: err.append(cause(e))
    before = {i[0] for i in instants(c.base)}
    th = threading.Thread(target=slow); th.start()
    mine = wait_for(lambda: requested(c.base) - have)
    c.steps.append("slow writer starts %s %s: requested %s" % (op_slow, json.dumps(slow_rows), sorted(mine)))
    try: during()
    finally: mid = sorted(instants(c.base)); open(gate, "w").close(); th.join(180)
    c.steps.append("slow writer finishes -> %s %s" % ([i[:3] for i in instants(c.base) if i[0] in mine], text))
    if err: c.notes.append("slow writer failed: " + err[0]); log("slow writer failed", err[0])
    return sorted(mine)[0], mid

def ooo(env, name, kind, k="k", s=0, cdc=False, extra=None):
    c = Case(env, name, kind, "Out-of-order completion: the instant requested 2nd completes after two later ones (OCC, other partition). A reader that orders by requested time, or keeps one high mark on it, skips the late commit.",
             {**OCC, **(extra or {}), **({CDC: "true"} if cdc else {})})
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    c.write("insert", [R(i, 10, i, "abc"[i % 3]) for i in range(1, 10)])
    def during():
        c.write("upsert", [R(1, 30, 31, "b"), R(4, 30, 34, "b")], "fast writer upsert in b")
        copy_as(c, "_pending", "the table while the slow write is in flight")
        c.write("upsert", [R(2, 40, 42, "c"), R(50, 40, 50, "c")], "fast writer upsert in c")
    slow, _ = race(c, "upsert", [R(3, 20, 23, "a"), R(60, 20, 60, "a")], during, "(completes last)")
    c.write("upsert", [R(1, 60, 61, "b"), R(3, 60, 63, "a")], "upsert after")
    c.standard(inc=True, cdc=cdc)
    l2 = os.path.isdir(os.path.join(c.base, ".hoodie", "timeline"))
    ts = [i for i in instants(c.base) if i[2] in DATA]
    req = sorted(i[0] for i in ts)
    for n in range(1, len(req)):
        c.ask("inc_req_%02d" % n, "incremental", req[n - 1], req[n], bounds="bounds given as requested times", note="what a range of requested times returns")
    if cdc and l2:
        com = sorted(i[1] for i in ts)
        for n in range(1, len(com)):
            c.ask("cdc_compl_%02d" % n, "cdc", com[n - 1], com[n], bounds="bounds given as completion times")
    if not l2:
        for pol in ("FAIL", "BLOCK", "USE_TRANSITION_TIME"):
            c.ask("inc_holes_" + pol.lower(), "incremental", req[0], None, options={"hoodie.read.timeline.holes.resolution.policy": pol})
    for n, t in enumerate(sorted((i[1] or i[0]) for i in ts)):
        c.ask("asof_%d" % (n + 1), "time_travel", as_of=t)
    for n, t in enumerate(req):
        c.ask("asof_req_%d" % (n + 1), "time_travel", as_of=t)
    c.finish()

def copy_as(c, suffix, what):
    """A frozen copy of the table at this moment, as a case of its own (queries asked later)."""
    dst = c.base + suffix
    shutil.rmtree(dst, ignore_errors=True); shutil.copytree(c.base, dst, copy_function=shutil.copy2)
    k = Case.__new__(Case); k.__dict__.update(c.__dict__)
    k.name, k.base, k.what = c.name + suffix, dst, c.what + " This copy: " + what + "."
    k.steps, k.queries, k.notes = list(c.steps), [], []
    c.env.copies.append(k); return k

def nbcc(env, name, k="k", s=0):
    c = Case(env, name, "MERGE_ON_READ", "Non-blocking concurrency control, bucket index: two log files of one file group with crossed requested and completion times, and a compaction requested between. Slicing the late log by requested time loses it.",
             {"hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL", "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
              "hoodie.clean.failed.writes.policy": "LAZY", "hoodie.table.type": "MERGE_ON_READ", "hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "SIMPLE", "hoodie.bucket.index.num.buckets": "1", "hoodie.bucket.index.hash.field": "id"})
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    c.write("upsert", [R(i, 10, i, "a") for i in range(1, 5)])
    c.write("upsert", [R(1, 15, 15, "a")])
    def during():
        c.write("upsert", [R(1, 30, 31, "a"), R(2, 30, 32, "a")], "fast writer")
        c.compact(opts=",hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL,hoodie.clean.failed.writes.policy=LAZY,hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.InProcessLockProvider,hoodie.table.type=MERGE_ON_READ,hoodie.index.type=BUCKET,hoodie.index.bucket.engine=SIMPLE,hoodie.bucket.index.num.buckets=1,hoodie.bucket.index.hash.field=id,hoodie.datasource.write.recordkey.field=id,hoodie.table.recordkey.fields=id")
        copy_as(c, "_pending", "the slow log is written by nobody yet, the compaction is complete")
        c.write("upsert", [R(3, 40, 43, "a")], "fast writer 2")
    race(c, "upsert", [R(1, 20, 21, "a"), R(2, 35, 35, "a"), R(4, 20, 24, "a"), R(6, 20, 26, "a")], during, "(completes after the compaction)")
    c.write("upsert", [R(6, 60, 66, "a")])
    c.standard()
    for n, i in enumerate(x for x in instants(c.base) if x[2] in DATA):
        c.ask("asof_%d" % (n + 1), "time_travel", as_of=i[0]); c.ask("asof_c%d" % (n + 1), "time_travel", as_of=i[1])
    c.finish()

def timeline(env, name, kind, k="k", s=0):
    """All actions and states; ends with a pending compaction and a pending clustering."""
    c = Case(env, name, kind, "Every action of the timeline: commit, deltacommit, compaction, clustering, clean, savepoint, rollback, restore, indexing, an empty commit, and pending compaction and clustering at the end.",
             {"hoodie.metadata.enable": "true"})
    svc = c.SVC.replace("hoodie.metadata.enable=false", "hoodie.metadata.enable=true"); c.SVC = svc
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    c.write("insert", [R(i, 10, i, "ab"[i % 2]) for i in range(1, 7)])
    c.write("upsert", [R(1, 20, 21, "b"), R(2, 20, 22, "a")])
    sp = [i for i in instants(c.base) if i[2] in DATA][-1][0]
    c.call("CALL create_savepoint(path => '$P', commit_time => '%s')" % sp, "savepoint " + sp) if env.hudi != "0.15.0" else c.call("CALL create_savepoint(path => '$P', commit_time => '%s')" % sp, "savepoint " + sp)
    c.write("upsert", [R(3, 30, 33, "b")])
    c.write("upsert", [R(5, 40, 45, "b")])
    copy_as(c, "_before_restore", "with savepoint, before the restore")
    try: c.call("CALL rollback_to_savepoint(path => '$P', instant_time => '%s')" % sp, "restore to savepoint " + sp)
    except Exception as e: c.notes.append("restore: " + cause(e)); log("restore failed", cause(e))
    c.write("upsert", [R(1, 50, 51, "b"), R(10, 50, 60, "a")])
    c.write("upsert", [R(2, 60, 62, "a")])
    last = [i for i in instants(c.base) if i[2] in DATA][-1][0]
    _t = lambda sql, text: _try(c, sql, text)
    _t("CALL rollback_to_instant(table => '%s', instant_time => '%s')" % (register(c), last), "rollback " + last)
    c.write("upsert", [R(4, 70, 74, "a")])
    c.write("upsert", None, "upsert of an empty frame", df=frame(env.spark, [R(1, 1, 1, "a")]).where("1=0"), o={"hoodie.allow.empty.commit": "true"})
    if kind == "MERGE_ON_READ": c.compact()
    c.cluster()
    c.write("upsert", [R(5, 80, 85, "b"), R(4, 80, 84, "a")])
    _t("CALL run_clean(table => '%s', retain_commits => 1)" % c.sqlname, "clean")
    if env.hudi != "0.15.0":
        lock = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider", "hoodie.write.concurrency.mode": "optimistic_concurrency_control", "hoodie.clean.failed.writes.policy": "LAZY"}
        for x, y in lock.items(): env.spark.sql("SET %s=%s" % (x, y))
        _t("CREATE INDEX record_index ON %s (id)" % c.sqlname, "indexing record_index")
        for x in lock: env.spark.sql("RESET %s" % x)
    c.write("upsert", [R(1, 90, 91, "b"), R(4, 90, 94, "a")])
    if kind == "MERGE_ON_READ": c.compact(op="schedule")
    c.write("upsert", [R(1, 95, 95, "b"), R(20, 95, 20, "c")])
    try: c.cluster(op="schedule")
    except Exception as e: c.notes.append("schedule clustering: " + cause(e)); log(cause(e))
    if kind == "MERGE_ON_READ":
        k = copy_as(c, "_pending_compaction", "the last compaction set back to inflight (its completed file removed, its new base files stay) with a delta commit after it")
        comp = [i for i in instants(k.base) if i[2] == "commit"]
        for i in comp[-1:]: os.remove(i[3]); k.steps.append("removed " + os.path.basename(i[3]))
    c.standard()
    c.finish()
def register(c):
    c.sqlname = re.sub(r"\W", "_", c.name)
    c.env.spark.sql("DROP TABLE IF EXISTS %s" % c.sqlname)
    c.env.spark.sql("CREATE TABLE %s USING hudi LOCATION '%s'" % (c.sqlname, c.base))
    return c.sqlname
def _try(c, sql, text):
    try: return c.call(sql, text)
    except Exception as e:
        c.notes.append("%s failed: %s" % (text, cause(e))); log(text, "failed:", cause(e))

def upgrade(env, name, kind, k="k", s=0, cdc=False):
    """One table, written as 6, then 8, then 9 by the newest release; a copy after each step."""
    assert env.tv == 6
    c = Case(env, name + "_v6", kind, "Upgrade in place 6 -> 8 -> 9 by %s: the table as version 6." % env.hudi,
             {"hoodie.metadata.enable": "true", **({CDC: "true"} if cdc else {}), "hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "3", "hoodie.archive.automatic": "true", "hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5"})
    base = c.base; R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    c.write("insert", [R(i, 10, i, "ab"[i % 2]) for i in range(1, 7)])
    c.write("upsert", [R(1, 20, 21, "b"), R(2, 20, 22, "a")])
    c.write("upsert", [R(1, 15, 25, "b"), R(3, 25, 23, "b")], "upsert (k1 late)")
    c.write("delete", [R(4, 30, 0, "a")])
    c.cluster() if kind == "COPY_ON_WRITE" else None
    for j in range(3): c.write("upsert", [R(5, 40 + j, 40 + j, "b")])
    seen = [i for i in instants(base) if i[2] in DATA]
    k6 = copy_as(c, "", "x") if False else None
    def snap(v):
        d = os.path.join(env.work, name + "_v%d" % v)
        if d != base: shutil.rmtree(d, ignore_errors=True); shutil.copytree(base, d, copy_function=shutil.copy2)
        x = Case.__new__(Case); x.__dict__.update(c.__dict__); x.name = name + "_v%d" % v; x.base = d
        x.steps = list(c.steps); x.queries = []; x.notes = ["data instants before the upgrade: " + json.dumps([i[:3] for i in seen])]
        x.what = "Upgrade in place 6 -> 8 -> 9 by %s: the table as version %d, with commits after the upgrade." % (env.hudi, v) if v > 6 else c.what
        x.standard(inc=True, cdc=cdc, per=True); x.finish()
    work = base
    # freeze v6 under its own folder first, go on in another folder
    base2 = os.path.join(env.work, name + "_live"); shutil.rmtree(base2, ignore_errors=True)
    shutil.copytree(base, base2, copy_function=shutil.copy2)
    snap(6)
    c.base = base = base2
    for v in (8, 9):
        c.o["hoodie.write.table.version"] = str(v)
        c.write("upsert", [R(6, 50 + v, 50 + v, "a"), R(30 + v, 50, v, "b")], "first write as version %d (upgrades)" % v)
        c.write("upsert", [R(1, 60 + v, 60 + v, "b"), R(6, 1, 1, "a")], "second write (k6 late)")
        log(name, "now version", table_version(base))
        snap(v)

def colstats(env, name, kind, k="k", s=0, cdc=False):
    c = Case(env, name, kind, "Column statistics in the metadata table for event-time bounds: timestamp(micros), long epoch millis, date, string, all-null column; base files and log files, late rows in logs, deletes.",
             {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true", "hoodie.metadata.index.column.stats.column.list": "et,et_ms,d,v,nul,id",
              "hoodie.write.track.event.time.watermark": "true", "hoodie.payload.event.time.field": "et_ms", "hoodie.payload.ordering.field": "ts", "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
              "hoodie.metadata.index.partition.stats.enable": "true" if env.hudi != "0.15.0" else "false"})
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    F = lambda rows: frame(env.spark, rows, ", 1700000000000+ts*1000 et_ms, cast(null as bigint) nul")
    def w(op, rows, text=None): c.write(op, rows, text, df=F(rows))
    w("insert", [R(i, 10 * i, i, "ab"[i % 2]) for i in range(1, 9)])
    w("upsert", [R(1, 200, 21, "b"), R(2, 300, 22, "a"), R(9, 5, 9, "b")], "upsert (k9 new with an event time below every stored one)")
    w("upsert", [R(1, 2, 31, "b")], "upsert (late: below the file's minimum)")
    w("delete", [R(5, 400, 0, "b")])
    w("upsert", [R(6, 500, 66, "a"), R(40, 500, 40, "c")])
    if kind == "MERGE_ON_READ":
        c.SVC = c.SVC.replace("hoodie.metadata.enable=false", "hoodie.metadata.enable=true,hoodie.metadata.index.column.stats.enable=true,hoodie.metadata.index.column.stats.column.list=et\\,et_ms")
        c.SVC = c.SVC.split(",hoodie.metadata.index.column.stats.column.list")[0]
        c.compact(); w("upsert", [R(7, 1, 77, "b"), R(8, 600, 88, "a")], "upsert after compaction (k7 late)")
    c.standard(inc=True, per=False)
    c.finish()

def cdc_types(env, name, kind, mode="DATA_BEFORE_AFTER"):
    c = Case(env, name, kind, "CDC images of nested, array, map, binary, decimal, timestamp, date, double, boolean and null columns: how each CDC case renders them as JSON.", {CDC: "true", MODE: mode})
    def F(rows):
        vals = ",".join("('%s',%dL,%d)" % r for r in rows)
        return env.spark.sql("SELECT id, ts, v, cast(v*1.5 as double) dbl, cast(v*0.1 as float) flt, v%%2=0 flag, cast(v+0.125 as decimal(20,3)) amt, timestamp_micros(1700000000000000+ts*1000000+7) et, "
                             "date_add(date'2023-11-14', v) d, cast(concat('x',v) as binary) bin, named_struct('a', v, 'b', concat('b\"',v)) st, array(v, v+1) arr, map('k1', v) mp, cast(null as string) nul, "
                             "concat('u\\u00e9 \\\\ \"',v) txt, 'a' p FROM VALUES %s AS t(id,ts,v)" % vals)
    c.write("insert", [("k1", 1, 1), ("k2", 1, 2), ("k3", 1, 3)], df=F([("k1", 1, 1), ("k2", 1, 2), ("k3", 1, 3)]))
    c.write("upsert", [("k1", 2, 11), ("k4", 2, 4)], df=F([("k1", 2, 11), ("k4", 2, 4)]))
    c.write("delete", [("k2", 3, 0)], df=F([("k2", 3, 0)]))
    c.write("insert_overwrite", [("k9", 4, 9)], df=F([("k9", 4, 9)]))
    c.standard(inc=False, cdc=True); c.finish()

def adopt(env, name, kind, writer, what, sql):
    """Ask a table after a failed run of another release (a crash state nobody can write on purpose)."""
    c = Case.__new__(Case); c.env, c.name, c.kind, c.what = env, name, kind, what
    c.base = os.path.join(env.work, name); c.steps, c.queries, c.notes = [sql], [], ["written by %s, answers by %s" % (writer, env.hudi)]
    c.standard(); c.finish()

# ----------------------------------------------------------------------------------------------- plans
