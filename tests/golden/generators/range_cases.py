"""Scenarios of family B: change data capture, incremental queries, archived instants."""
import json, os
from hudi_case import Case, DATA, instants

CDC = "hoodie.table.cdc.enabled"; MODE = "hoodie.table.cdc.supplemental.logging.mode"

def cdc_cow(env, name, mode, k="k", s=0, alt=False):
    """Every copy-on-write case of the CDC extractor in one table."""
    c = Case(env, name, "COPY_ON_WRITE", "COW with CDC mode %s: insert, upsert (update+insert+late row), delete, delete of a whole file, "
             "insert_overwrite, bulk_insert, delete_partition, clustering, upsert. Per-commit CDC and incremental ranges." % mode, {CDC: "true", MODE: mode})
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    c.write("insert", [R(1, 10, 1, "a"), R(2, 10, 2, "a"), R(3, 10, 3, "a"), R(4, 10, 4, "b"), R(5, 10, 5, "b")])
    c.write("upsert", [R(1, 20, 11, "a"), R(2, 5, 12, "a"), R(6, 20, 16, "a"), R(4, 20, 14, "b")], "upsert (k1 newer, k2 older ts than stored, k6 new, k4 newer)")
    c.write("delete", [R(3, 30, 0, "a")])
    c.write("delete", [R(4, 30, 0, "b"), R(5, 30, 0, "b")], "delete of every row of the only file of partition b")
    c.write("insert_overwrite", [R(7, 40, 7, "a"), R(1, 40, 41, "a")])
    c.write("bulk_insert", [R(8, 50, 8, "c"), R(9, 50, 9, "c")])
    c.write("upsert", [R(8, 60, 68, "c"), R(10, 60, 70, "a")])
    c.write("delete_partition", [R(8, 60, 68, "c")], o={"hoodie.datasource.write.partitions.to.delete": "p=c"})
    c.cluster()
    c.write("upsert", [R(7, 70, 77, "a"), R(11, 70, 71, "d")], "upsert after clustering")
    if alt:
        c.write("upsert", [R(7, 80, 88, "a"), R(11, 60, 61, "d"), R(12, 80, 82, "d")], "upsert (k11 late, k12 new)")
        c.write("delete", [R(7, 90, 0, "a"), R(12, 90, 0, "d")])
        c.write("insert_overwrite_table", [R(1, 95, 95, "a"), R(12, 95, 96, "e")])
    c.standard(inc=True, cdc=True)
    c.finish()

def cdc_mor(env, name, mode, k="k", s=0, bucket=False, alt=False):
    c = Case(env, name, "MERGE_ON_READ", "MOR with CDC mode %s%s: base insert, log upsert (newer, older and equal ts, new key), delete, same key twice before and after compaction, "
             "insert_overwrite, clustering, upsert, delete then re-insert." % (mode, ", bucket index" if bucket else ""),
             {CDC: "true", MODE: mode, **({"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", "hoodie.storage.layout.type": "BUCKET"} if bucket else {})})
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    c.write("insert", [R(1, 10, 1, "a"), R(2, 10, 2, "a"), R(3, 10, 3, "a"), R(4, 10, 4, "b"), R(5, 10, 5, "b")])
    c.write("upsert", [R(1, 20, 11, "a"), R(2, 5, 12, "a"), R(6, 20, 16, "a"), R(4, 10, 14, "b")], "upsert (k1 newer, k2 older, k6 new, k4 equal ts)")
    c.write("delete", [R(3, 30, 0, "a"), R(99, 30, 0, "a")], "delete (k3 exists, k99 does not)")
    c.write("upsert", [R(1, 31, 31, "a"), R(3, 31, 33, "a")], "upsert (k1 again, k3 comes back)")
    c.compact()
    c.write("upsert", [R(1, 40, 41, "a"), R(5, 40, 45, "b"), R(2, 40, 42, "a")])
    c.write("delete", [R(5, 50, 0, "b"), R(4, 50, 0, "b")], "delete of every row of partition b")
    c.write("insert_overwrite", [R(7, 60, 67, "b"), R(4, 60, 64, "b")])
    if not bucket: c.cluster()
    c.write("upsert", [R(1, 70, 71, "a"), R(8, 70, 78, "c")], "upsert after the services")
    if alt:
        c.write("upsert", [R(2, 80, 82, "a"), R(7, 50, 57, "b"), R(9, 80, 89, "c")], "upsert (k7 late, k9 new)")
        c.write("delete", [R(2, 90, 0, "a"), R(8, 90, 0, "c")])
        c.compact()
        c.write("upsert", [R(2, 95, 92, "a"), R(1, 60, 61, "a")], "upsert (k2 comes back, k1 late)")
    c.standard(inc=True, cdc=True)
    c.finish()

def inc(env, name, kind, k="k", s=0, opts=None, what="", cluster=True, alt=False):
    c = Case(env, name, kind, what or "Incremental ranges over insert, upsert, late upsert, delete, re-insert, %sinsert_overwrite, clustering, delete_partition, upsert. The late row must show in a range only by the merged full slice rule." %
             ("compaction, " if kind == "MERGE_ON_READ" else ""), opts)
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    c.write("insert", [R(i, 10, i, "ab"[i % 2]) for i in range(1, 9)])
    c.write("upsert", [R(1, 20, 21, "b"), R(2, 20, 22, "a"), R(9, 20, 29, "b")])
    c.write("upsert", [R(1, 5, 31, "b"), R(3, 5, 33, "b"), R(4, 30, 34, "a")], "upsert (k1, k3 with an older ts)")
    c.write("delete", [R(5, 40, 0, "b"), R(6, 40, 0, "a")])
    if kind == "MERGE_ON_READ": c.compact()
    c.write("upsert", [R(1, 50, 51, "b"), R(5, 50, 55, "b")], "upsert (k1 again, k5 comes back)")
    c.write("insert_overwrite", [R(20, 60, 60, "a"), R(2, 60, 62, "a")])
    if cluster: c.cluster()
    c.write("bulk_insert", [R(30, 70, 70, "c"), R(31, 70, 71, "c")])
    c.write("delete_partition", [R(30, 70, 70, "c")], o={"hoodie.datasource.write.partitions.to.delete": "p=c"})
    c.write("upsert", [R(1, 80, 81, "b"), R(7, 80, 87, "b")])
    if alt:
        c.write("upsert", [R(7, 70, 97, "b"), R(2, 90, 92, "a")], "upsert (k7 late)")
        if kind == "MERGE_ON_READ": c.compact()
        c.write("delete", [R(2, 95, 0, "a")]); c.write("upsert", [R(40, 99, 40, "d"), R(7, 99, 99, "b")])
    c.standard()
    ts = [i for i in instants(c.base) if i[2] in DATA]
    l2 = os.path.isdir(os.path.join(c.base, ".hoodie", "timeline"))
    key = (lambda i: i[1]) if l2 else (lambda i: i[0])
    c.ask("bound_begin_is_first", "incremental", key(ts[0]), key(ts[1]), bounds="is begin inclusive?", note="first instant's rows appear only when begin is inclusive")
    c.ask("bound_begin_requested", "incremental", ts[1][0], None, bounds="begin = requested time of the 2nd instant", note="on completion time the 2nd instant (completed after its request) is still in the range")
    c.ask("bound_end_requested", "incremental", "000", ts[1][0], bounds="end = requested time of the 2nd instant")
    c.ask("earliest", "incremental", "earliest", None)
    c.ask("begin_eq_end", "incremental", key(ts[1]), key(ts[1]), bounds="begin = end = 2nd instant")
    c.ask("future", "incremental", key(ts[-1]), None, bounds="begin = last instant: nothing new")
    c.ask("skip_compact", "incremental", "000", None, options={"hoodie.datasource.read.incr.skip_compact": "true"})
    c.ask("skip_cluster", "incremental", "000", None, options={"hoodie.datasource.read.incr.skip_cluster": "true"})
    c.ask("fallback_true_mid", "incremental", key(ts[2]), key(ts[4]), options={"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}, note="full scan of the latest snapshot is not needed here: all files exist")
    c.ask("asof_3", "time_travel", as_of=ts[2][0]); c.ask("asof_6", "time_travel", as_of=ts[5][0])
    c.finish()

def archived(env, name, kind, k="k", s=0, mdt=False, cdc=False):
    c = Case(env, name, kind, "Aggressive clean and archival: most instants are only in the archived timeline / LSM history and their file slices are cleaned. Incremental from archived begins, with and without full-scan fallback.",
             {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "2", "hoodie.cleaner.commits.retained": "2", "hoodie.archive.automatic": "true",
              "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.commits.archival.batch": "2",
              "hoodie.metadata.enable": "true" if mdt else "false", "hoodie.timeline.compaction.batch.size": "3", "hoodie.archive.merge.enable": "false",
              "hoodie.metadata.compact.max.delta.commits": "3", "hoodie.compact.inline": "true" if kind == "MERGE_ON_READ" else "false", "hoodie.compact.inline.max.delta.commits": "3",
              **({CDC: "true"} if cdc else {})})
    R = lambda n, ts, v, p: (k + str(n), ts + s, v + s, p)
    allnew = []
    allnew += c.write("insert", [R(i, 10, i, "ab"[i % 2]) for i in range(1, 7)])
    for j in range(2, 13):
        if j == 5: allnew += c.write("delete", [R(6, 10 * j, 0, "a")])
        elif j == 8: allnew += c.write("insert_overwrite", [R(40 + j, 10 * j, j, "a"), R(2, 10 * j, 100 + j, "a")])
        else: allnew += c.write("upsert", [R(1 + j % 3, 10 * j, 10 * j, "ab"[(1 + j % 3) % 2]), R(100 + j, 10 * j, j, "ab"[j % 2])])
    data = [i for i in allnew if i[2] in DATA]
    l2 = os.path.isdir(os.path.join(c.base, ".hoodie", "timeline"))
    key = (lambda i: i[1]) if l2 else (lambda i: i[0])
    c.notes.append("all data instants in the order written: " + json.dumps([i[:3] for i in data]))
    c.ask("snapshot", "snapshot")
    if kind == "MERGE_ON_READ": c.ask("read_optimized", "read_optimized")
    F = "hoodie.datasource.read.incr.fallback.fulltablescan.enable"
    for qid, b, e in (("all", "000", None), ("arch_mid", key(data[3]), key(data[8])), ("arch_only", key(data[1]), key(data[3])), ("arch_to_now", key(data[2]), None), ("recent", key(data[-3]), None), ("end_arch", "000", key(data[3]))):
        c.ask("inc_%s_default" % qid, "incremental", b, e)
        c.ask("inc_%s_fallback" % qid, "incremental", b, e, options={F: "true"})
        c.ask("inc_%s_nofallback" % qid, "incremental", b, e, options={F: "false"})
        if cdc: c.ask("cdc_" + qid, "cdc", b, e)
    c.ask("asof_archived", "time_travel", as_of=data[2][0], note="its slices are cleaned")
    c.finish()
