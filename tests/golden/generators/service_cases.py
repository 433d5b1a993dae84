"""Scenarios of family A: rollbacks, damaged logs, compaction, clustering, savepoints, archival, concurrent writers."""
import os, random, threading, time
from case_context import MOR, W_1X, W_69, W_ALL, case
from merge_cases import OT, fuzz, reg_merge

# ---------------------------------------------------------------- block formats
reg_merge("block_parquet", W_ALL, "MOR with parquet log data blocks, event time, random stream", fuzz, mode="EVENT", seed=11, otype="timestamp", extra={"hoodie.logfile.data.block.format": "parquet"})
reg_merge("block_parquet_zstd", [("1.2.0", 9)], "parquet log blocks with zstd", fuzz, mode="EVENT", seed=12, otype="int", extra={"hoodie.logfile.data.block.format": "parquet", "hoodie.parquet.compression.codec": "zstd"})
reg_merge("block_hfile", [("1.2.0", 9), ("0.15.0", 6)], "HFile log data blocks in a data table", fuzz, mode="EVENT", seed=13, otype="long", nkeys=30, extra={"hoodie.logfile.data.block.format": "hfile"})
reg_merge("positions", W_1X, "record positions in log block headers", fuzz, mode="EVENT", seed=14, extra={"hoodie.write.record.positions": "true"})
reg_merge("positions_commit", [("1.2.0", 9)], "record positions, commit time, small log blocks (several per file)", fuzz, mode="COMMIT", seed=15, nkeys=200, extra={"hoodie.write.record.positions": "true", "hoodie.logfile.data.block.max.size": "1024"})

# ---------------------------------------------------------------- services
S_DDL = "id string, p string, ts bigint, v int, w string"


def rows(ids, ts, v0, p=None, w=None):
    return [("id-%03d" % i, p or ("a" if i % 2 else "b"), ts, v0 + i, w) for i in ids]


@case("rollback_log", [("0.15.0", 6), ("1.0.2", 8), ("1.2.0", 9), ("1.0.2", 6)], "(crafted failure) MOR: a failed delta is rolled back by the next writer (v6: rollback block in the log; v8+: log file deleted). Rows of the failed delta must not appear")
def rollback_log(x, n=20, mode="COMMIT", more=False):
    x.mode(mode)
    x.base["hoodie.rollback.using.markers"] = "false"
    x.schema = S_DDL
    x.w(rows(range(n), 5, 0), op="insert")
    i1 = x.w(rows(range(0, n, 2), 6, 100, w="good1"))
    x.w(rows(range(0, n, 3), 7, 200, w="FAILED"))
    x.fail_last()
    x.w(rows(range(1, n, 4), 8, 300, w="good2"))
    if more:
        x.w(rows(range(2, n, 4), 9, 400, w="FAILED2"))
        x.fail_last()
        x.w(rows(range(3, n, 5), 9, 500, w="good3"))
    x.tt(i1)


@case("failed_leftover", W_ALL, "(crafted failure) MOR: the completed file of a delta is missing (pending forever; multi-writer with lazy cleaning): later deltas complete; the pending one and its log files must be ignored although newer files of the same group exist")
def failed_leftover(x, n=20):
    x.mode("COMMIT")
    x.base.update({"hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.clean.failed.writes.policy": "LAZY", "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
                   "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider", "hoodie.clean.automatic": "false"})
    x.schema = S_DDL
    x.w(rows(range(n), 5, 0), op="insert")
    x.w(rows(range(0, n, 2), 6, 100, w="good1"))
    x.w(rows(range(0, n, 3), 7, 200, w="PENDING") + rows(range(100, 104), 7, 200, w="PENDING"))
    x.fail_last()
    x.w(rows(range(1, n, 4), 8, 300, w="good2"))
    x.w(rows(range(2, n, 5), 9, 400, w="good3"))


@case("log_compaction", W_ALL, "MOR: log compaction merged several log blocks into one (COMPACTED_BLOCK_TIMES); originals must not be applied again, later deltas on top")
def log_compaction(x, seed=21, mode="EVENT"):
    x.base.update({"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.enable": "true", "hoodie.log.compaction.blocks.threshold": "2",
                   "hoodie.optimized.log.blocks.scan.enable": "true", "hoodie.log.record.reader.use.scanV2": "true"})
    fuzz(x, mode=mode, seed=seed, nkeys=40, ndeltas=5)
    x.q("snapshot_scanv2", "snapshot", "with hoodie.optimized.log.blocks.scan.enable=true", **{"hoodie.optimized.log.blocks.scan.enable": "true"})


@case("corrupt_middle", [("0.15.0", 6), ("1.2.0", 9)], "(crafted failure) MOR: one log file holds a good block, a truncated block of a failed append, then a good block; the reader must skip to the next magic")
def corrupt_middle(x, n=30):
    x.mode("COMMIT")
    x.base["hoodie.datasource.write.partitionpath.field"] = ""
    x.schema = S_DDL
    x.w(rows(range(n), 5, 0), op="insert")
    x.w(rows(range(0, n, 2), 6, 100, w="good1"))
    x.w(rows(range(0, n, 3), 7, 200, w="good2"))
    x.w(rows(range(1, n, 4), 8, 300, w="good3"))
    lg = x.logs()
    assert len(lg) == 3, lg
    b = [open(f, "rb").read() for f in lg]
    cut = b[1][: len(b[1]) * 6 // 10]
    if x.tv < 8:
        open(lg[2], "wb").write(b[0] + cut + b[2])
        os.remove(lg[0])
        os.remove(lg[1])
        x.steps.append("bytes: third log := log1 + 60% of log2 + log3; log1, log2 removed")
    else:
        open(lg[1], "wb").write(cut + b[1])
        x.steps.append("bytes: second log := 60% of itself + itself")
    for f in lg:
        c = os.path.join(os.path.dirname(f), "." + os.path.basename(f) + ".crc")
        if os.path.exists(c):
            os.remove(c)


@case("corrupt_tail", W_69, "(crafted failure) MOR: garbage / half a block after the last good block of a log file")
def corrupt_tail(x, n=30):
    x.mode("COMMIT")
    x.base["hoodie.datasource.write.partitionpath.field"] = ""
    x.schema = S_DDL
    x.w(rows(range(n), 5, 0), op="insert")
    x.w(rows(range(0, n, 2), 6, 100, w="good1"))
    x.w(rows(range(0, n, 3), 7, 200, w="good2"))
    lg = x.logs()
    b = [open(f, "rb").read() for f in lg]
    open(lg[0], "wb").write(b[0] + b[1][:40])
    open(lg[1], "wb").write(b[1] + b"#HUDI#" + (10 ** 6).to_bytes(8, "big") + b"garbage" * 30)
    x.steps.append("bytes: log1 += first 40 bytes of a block; log2 += magic + wrong size + garbage")
    for f in lg:
        c = os.path.join(os.path.dirname(f), "." + os.path.basename(f) + ".crc")
        if os.path.exists(c):
            os.remove(c)


@case("compaction_pending", W_ALL, "MOR: compaction scheduled, not run; more deltas after it: slice P (logs only) merges over the previous slice; read-optimized shows the old base")
def compaction_pending(x, seed=31, mode="EVENT"):
    fuzz(x, mode=mode, seed=seed, nkeys=40, ndeltas=3)
    t, f = OT["long"]
    rnd = random.Random(seed * 7)
    part = lambda i: ("a", "b")[i % 2]
    mk = lambda n, s: [("id-%03d" % i, part(i), f(rnd.randint(1, 9)), 9000 + s * 100 + i, "post", rnd.random() < .2) for i in sorted(rnd.sample(range(40), n))]
    x.w(mk(10, 1), o={"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"})
    a = x.w(mk(12, 2))
    x.w(mk(12, 3))
    x.w([("id-%03d" % i, part(i), f(9), None, None, False) for i in (1, 2, 3, 4)], op="delete")
    x.tt(a)


@case("compaction_then_updates", W_ALL, "MOR: completed inline compaction, then more deltas, second compaction, more deltas")
def compaction_done(x, seed=32, mode="EVENT"):
    fuzz(x, mode=mode, seed=seed, nkeys=40, ndeltas=6, extra={"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "4"})


@case("clustering_pending", [("0.15.0", 6), ("1.2.0", 9)], "MOR: clustering scheduled only, then inserts to other groups", )
def clustering_pending(x, ex=True, n=20):
    x.mode("COMMIT")
    x.schema = S_DDL
    x.base.update({"hoodie.clustering.plan.strategy.small.file.limit": "104857600"})
    x.w(rows(range(n), 5, 0), op="bulk_insert")
    x.w(rows(range(n, 2 * n), 5, 0), op="bulk_insert")
    a = x.w(rows(range(2 * n, 2 * n + 4), 6, 0), op="bulk_insert", o={"hoodie.clustering.schedule.inline": "true", "hoodie.clustering.inline.max.commits": "1"})
    x.w(rows(range(2 * n + 10, 2 * n + 14), 7, 0), op="bulk_insert")
    x.tt(a)


@case("clustering_done", W_ALL, "MOR: clustering completed (file groups replaced), then updates to the new groups; time travel before it must show the old groups")
def clustering_done(x, n=20):
    x.mode("COMMIT")
    x.schema = S_DDL
    x.base.update({"hoodie.clustering.plan.strategy.small.file.limit": "104857600"})
    x.w(rows(range(n), 5, 0), op="bulk_insert")
    a = x.w(rows(range(n, 2 * n), 5, 0), op="bulk_insert")
    x.w(rows(range(0, 2 * n, 3), 6, 100, w="upd1"), o={"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"})
    x.w(rows(range(0, 2 * n, 4), 7, 200, w="upd2"))
    x.tt(a)


@case("replace_ops", W_ALL, "insert_overwrite of one partition, delete_partition of another, later insert_overwrite_table; time travel between")
def replace_ops(x, n=30, hive="true"):
    x.mode("COMMIT")
    x.base["hoodie.datasource.write.hive_style_partitioning"] = hive
    x.schema = S_DDL
    mk = lambda ids, ts, v0, w=None: [("id-%03d" % i, "pqr"[i % 3], ts, v0 + i, w) for i in ids]
    x.w(mk(range(n), 5, 0), op="insert")
    x.w(mk(range(0, n, 2), 6, 100, "upd"))
    a = x.w(mk(range(0, 12, 3), 7, 200, "ow"), op="insert_overwrite")
    part = "p=q" if hive == "true" else "q"
    x.w(mk([1], 7, 0), op="delete_partition", o={"hoodie.datasource.write.partitions.to.delete": part})
    b = x.w(mk(range(0, n, 5), 8, 300, "upd2"))
    x.tt(a)
    x.tt(b)
    x.w(mk(range(40, 46), 9, 400, "owt"), op="insert_overwrite_table")
    x.w(mk(range(40, 43), 10, 500, "upd3"))


@case("savepoint_restore", W_69, "MOR: savepoint, two more deltas, restore to the savepoint, then one more delta")
def savepoint_restore(x, n=20):
    x.mode("COMMIT")
    x.schema = S_DDL
    x.w(rows(range(n), 5, 0), op="insert")
    sp = x.w(rows(range(0, n, 2), 6, 100, w="u1"))
    t = x.reg()
    x.spark.sql("set hoodie.metadata.enable=false")
    x.sql(f"call create_savepoint(table => '{t}', commit_time => '{sp}')").collect()
    x.w(rows(range(0, n, 3), 7, 200, w="LOST") + rows(range(50, 53), 7, 200, w="LOST"))
    x.w(rows(range(0, n, 4), 8, 300, w="LOST2"))
    x.sql(f"call rollback_to_savepoint(table => '{t}', instant_time => '{sp}')").collect()
    x.spark.sql("reset hoodie.metadata.enable")
    x.w(rows(range(1, n, 4), 8, 400, w="after"))
    x.tt(sp)


@case("savepoint_kept", [("0.15.0", 6), ("1.2.0", 9)], "MOR: savepoint on an early instant, then compaction + clean + archive past it: time travel to it works")
def savepoint_kept(x):
    archive(x, nwrites=10, save_at=2)


@case("archive", W_ALL, "MOR: small archival + clean limits: instants of live log blocks and base files are archived (no longer in the active timeline)")
def archive(x, nwrites=14, save_at=None, mode="COMMIT", n=30):
    x.mode(mode)
    x.schema = S_DDL
    x.base.update({"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "5", "hoodie.cleaner.commits.retained": "3", "hoodie.clean.commits.retained": "3",
                   "hoodie.commits.archival.batch": "1", "hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "5", "hoodie.timeline.compaction.batch.size": "3"})
    x.w(rows(range(n), 5, 0), op="insert")
    ins = []
    for i in range(nwrites):
        ids = [k for k in range(n) if (k + i) % 4 == 0] if i % 3 else [k for k in range(n) if k % 2 == 1 and (k + i) % 3 == 0]
        ins.append(x.w([r for r in rows(ids, 6 + i, 100 * (i + 1), w=f"w{i}")]))
        if save_at is not None and i == save_at:
            t = x.reg()
            x.sql(f"call create_savepoint(table => '{t}', commit_time => '{ins[-1]}')").collect()
    x.tt(ins[-3])
    if save_at is not None:
        x.tt(ins[save_at], "savepointed instant")


@case("mdt_all", W_69, "MOR with metadata table, column stats and record index on; compaction")
def mdt_all(x):
    x.base.update({"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true", "hoodie.metadata.record.index.enable": "true"})
    compaction_done(x, seed=33)


def nbcc(x, mode="COMMIT"):
    """Two writers: the earlier-requested delta completes after a later one and after a compaction was scheduled and run."""
    x.mode(mode)
    x.base.update({"hoodie.table.type": MOR, "hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "SIMPLE", "hoodie.bucket.index.num.buckets": "1", "hoodie.bucket.index.hash.field": "id",
                   "hoodie.datasource.write.partitionpath.field": "", "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
                   "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
                   "hoodie.clean.failed.writes.policy": "LAZY", "hoodie.cleaner.policy.failed.writes": "LAZY", "hoodie.clean.automatic": "false"})
    x.schema = S_DDL
    n = 16
    x.w(rows(range(n), 5, 0), op="upsert")
    x.w(rows(range(0, n, 2), 6, 100, w="u1"))
    err = []

    def slow():
        try:
            df = x.df(rows(range(0, n, 3), 7, 200, w="SLOW"), x.schema)
            df = df.selectExpr("id", "p", "ts", "v + if(java_method('java.lang.Thread','sleep', cast(if(id='id-000',15000,0) as bigint)) is null, 0, 0) as v", "w")
            x.w(df)
        except Exception as e:
            err.append(str(e)[:300])
    th = threading.Thread(target=slow)
    th.start()
    for _ in range(100):
        time.sleep(0.2)
        if any(f.endswith(".deltacommit.requested") and f[0] != "." and not any(g.startswith(f.split(".")[0] + "_") for g in os.listdir(x.tl())) for f in os.listdir(x.tl())):
            break
    a = x.w(rows(range(0, n, 4), 6, 300, w="fast"))
    x.w(rows(range(1, n, 4), 6, 350, w="fast2"), o={"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"})
    th.join()
    x.steps.append("(the 'SLOW' delta was requested before 'fast' and the compaction, and completed after them) " + str(err))
    b = x.w(rows(range(2, n, 5), 9, 400, w="last"))
    t = x.reg()
    try:
        x.sql(f"call run_compaction(op => 'run', table => '{t}')").collect()
    except Exception as e:
        x.steps.append("run compaction failed: " + str(e)[:200])
    x.w(rows(range(3, n, 5), 9, 500, w="end"))
    x.tt(a)
    x.tt(b)


reg_merge("nbcc_commit", W_1X, "MOR, non-blocking concurrency: a delta requested before a compaction completes after it: its log belongs to the later slice by completion time; commit-time merging order of two concurrent deltas", nbcc, mode="COMMIT")
