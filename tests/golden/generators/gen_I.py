"""Golden tables of family I: HFile data blocks in logs (`hoodie.logfile.data.block.format=hfile`).

    python gen_I.py write --hudi 0.15.0 --jar BUNDLE.jar --work DIR --out DIR
    python gen_I.py pack --work DIR --out DIR

`--cases` and the layout of WORK and OUT are those of gen_B.py. The payload class orders by event time in both releases.
Hudi 0.15.0 reads its HFile blocks (cases_I.json). Hudi 1.2.0 does not (ClassCastException): its rows are those that it
returns from a table of the same writes with Avro blocks, without the columns that name instants and files
(hfile_twins.json). Hudi stores a column `key` empty, as in a metadata table, and reads the record key in its place.
"""
import argparse, json, os, re, time, traceback
import gen_D, hudi_case, random_histories
from hudi_case import Case, cause, instants, log, session

MOR = "MERGE_ON_READ"
AVRO = "org.apache.hudi.common.model.HoodieAvroRecordMerger"
OF_A_TABLE = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_file_name"]
OPTIONS = {"hoodie.write.auto.upgrade": "false", "hoodie.datasource.write.row.writer.enable": "false", "hoodie.compact.inline": "false",
           "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2", "hoodie.bucket.index.hash.field": "id",
           "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
           "hoodie.write.record.merge.custom.implementation.classes": AVRO}
TYPES = ("SELECT id, ts, nullif(v, 0) v, nullif(concat('n', v), 'n0') name, cast(nullif(v, 0) + 0.25 as decimal(10,2)) amt, "
         "timestamp_micros(1700000000000000 + ts * 1000000) at, if(v = 0, null, array(v, v + 1)) arr, "
         "if(v = 0, null, named_struct('x', v, 'y', concat('y', v))) st %s, p FROM VALUES %s AS t(id,ts,v,p)")
KEY = ", concat('column ', v) key"
FIRST = [("a", 1, 0, "x"), ("b", 1, 2, "x"), ("c", 1, 3, "y"), ("d", 1, 4, "y"), ("e", 1, 5, "x")]
SECOND = [("g", 2, 0, "x"), ("a", 2, 10, "x"), ("f", 2, 6, "y"), ("c", 2, 30, "y"), ("é", 2, 7, "x")]
HISTORIES = (11, 12, 13)  # seeds; version 6 with a bucket index
LATE = [("a", 0, 99, "x"), ("g", 3, 11, "x"), ("d", 1, 41, "y")]
LAST = [("e", 5, 50, "x"), ("b", 5, 8, "x"), ("h", 5, 9, "y")]


def written(env, name, what, block, key="", codec="GZ"):
    c = Case(env, name, MOR, what, {**OPTIONS, "hoodie.logfile.data.block.format": block, "hoodie.hfile.compression.algorithm": codec})
    for op, values in (("upsert", FIRST), ("upsert", SECOND), ("delete", [("b", 9, 1, "x"), ("f", 9, 1, "y")]), ("upsert", LATE), ("upsert", LAST)):
        c.write(op, None, text="%s %s" % (op, values), df=env.spark.sql(TYPES % (key, ",".join(map(str, values)))))
    return c


def read_by_hudi(env, version, key="", codec="GZ"):
    def make():
        env.tv = version if env.hudi != "0.15.0" else None
        c = written(env, name, "HFile data blocks in logs, which Hudi reads%s." % ("" if codec == "GZ" else ", compressed by " + codec), "hfile", key, codec)
        c.standard()
        for n, i in enumerate([i for i in instants(c.base) if i[2] in hudi_case.DATA]):
            c.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
        c.finish()
        d = json.load(open(os.path.join(env.out, "frag", name + ".json")))
        hudi_case.full_slice(env, d)
        hudi_case.save_frag(env, d)
    name = f"I_hfile{'_key' if key else ''}{'' if codec == 'GZ' else '_' + codec.lower()}_v{version}"
    return name, make


def history(env, seed):
    """Twelve random operations; Hudi reads its HFile blocks."""
    name = "I_hfile_history_mor%d_v6" % seed
    def make():
        import gen_H  # late, because it imports gen_F
        env.tv = None
        c = Case(env, name, MOR, "A random history of HFile data blocks in logs, which Hudi reads, seed %d." % seed,
                 {**OPTIONS, "hoodie.logfile.data.block.format": "hfile", "hoodie.parquet.small.file.limit": "0"})
        data = lambda env, values: env.spark.sql(TYPES % ("", ",".join(map(str, values))))
        random_histories.run(c, random_histories.history(seed, True, 6, "BUCKET"), lambda values, changes: gen_H.later(env, values, changes, data))
        c.standard()
        gen_H.asked(c)
        d = json.load(open(os.path.join(env.out, "frag", name + ".json")))
        hudi_case.full_slice(env, d)
        gen_H.without_losers(env, d)
    return name, make


def read_from_a_twin(env, version):
    """Time travel and snapshot; the rows of each are asked of the twin, at its own instant."""
    def make():
        env.tv = version
        c = written(env, name, "HFile data blocks in logs; rows are those of a table of the same writes with Avro blocks, without %s." % ", ".join(OF_A_TABLE), "hfile")
        twin = written(env, name + "_twin", "", "avro")
        c.ask("snapshot", "snapshot"); twin.ask("snapshot", "snapshot")
        for n, (i, j) in enumerate(zip(*([i for i in instants(b) if i[2] in hudi_case.DATA] for b in (c.base, twin.base)))):
            c.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
            twin.ask("time_travel_%d" % (n + 1), "time_travel", as_of=j[0])
        d = dict(name=c.name, hudi=env.hudi, table_version=hudi_case.table_version(c.base), table_type=MOR, what=c.what,
                 sql="; ".join(c.steps), notes=[], queries=[])
        d["instants"] = [list(i[:3]) for i in instants(c.base)]
        for q, t in zip(c.queries, twin.queries):
            own = hudi_case.run_query(env, c.base, c.name, dict(q), ".own")
            answer = hudi_case.run_query(env, twin.base, c.name, dict(t))
            without_table_columns(env, answer)
            log(own["id"], own["error"], answer["rows"])
            d["queries"].append({**own, "rows": answer["rows"], "expected": answer["expected"], "error": answer["error"], "own_error": own["error"] and own["error"].rpartition(" <- ")[2]})
        hudi_case.save_frag(env, d)
    name = f"I_hfile_v{version}"
    return name, make


def without_table_columns(env, q):
    import pyarrow.parquet as pq
    path = os.path.join(env.out, q["expected"])
    pq.write_table(pq.read_table(path).drop_columns(OF_A_TABLE), path)


def cases(env):
    if env.hudi == "0.15.0":
        yield read_by_hudi(env, 6)
        yield read_by_hudi(env, 6, KEY)
        for codec in ("SNAPPY", "LZ4"): yield read_by_hudi(env, 6, codec=codec)
        for seed in HISTORIES: yield history(env, seed)
        return
    yield read_from_a_twin(env, 9)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("stage", choices=["write", "pack"]); ap.add_argument("--hudi", default="1.2.0")
    ap.add_argument("--jar"); ap.add_argument("--work", required=True)
    ap.add_argument("--out", required=True); ap.add_argument("--cases", default="")
    a = ap.parse_args()
    a.work, a.out = os.path.abspath(a.work), os.path.abspath(a.out)
    os.makedirs(a.work, exist_ok=True); os.makedirs(a.out, exist_ok=True)
    if a.stage == "pack":
        gen_D.pack(a, "cases_I.json")
        packed = json.load(open(os.path.join(a.out, "cases_I.json")))
        for catalogue, has_twin in (("cases_I.json", False), ("hfile_twins.json", True)):
            json.dump([d for d in packed if (d["hudi"] != "0.15.0") is has_twin], open(os.path.join(a.out, catalogue), "w"), indent=1)
        return
    env = hudi_case.Env(a, session(a.jar), None)
    asked = [re.compile(x) for x in a.cases.split(",") if x]
    for name, make in cases(env):
        if asked and not any(x.search(name) for x in asked): continue
        t = time.time()
        try: make()
        except Exception as e: log("FAILED", name, cause(e)); traceback.print_exc()
        log(name, "%.0f s" % (time.time() - t))


if __name__ == "__main__": main()
