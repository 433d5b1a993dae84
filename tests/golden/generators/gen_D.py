"""Golden tables of family D: changelogs (`hoodie.allow.operation.metadata.field`), and ranges over a schema that grew.

Real Hudi writes and answers everything here. A changelog's kinds (I, -U, U, D) come from Hudi's Java client, which
`WriteChangelog.java` drives: no Spark writer gives a record a kind.

    python gen_D.py write --hudi 1.2.0 --jar BUNDLE.jar --java-client HUDI-JAVA-CLIENT.jar --work DIR --out DIR
    python gen_D.py pack --work DIR --out DIR

`--cases` (regular expressions, separated by commas) and the layout of WORK and OUT are those of gen_B.py. Needs
PySpark 3.5 and a JDK 11 or 17. The Java client runs in Spark's JVM, on the classes
of the Spark bundle of the same release.
"""
import argparse, glob, json, os, re, subprocess, time, traceback, zipfile
import hudi_case
from hudi_case import Case, cause, instants, log, session

HERE = os.path.dirname(os.path.abspath(__file__))
MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
DROPS = "hoodie.datasource.write.schema.allow.auto.evolution.column.drop"
CHANGELOG = {"hoodie.allow.operation.metadata.field": "true"}
WRITER = {
    "hoodie.metadata.enable": "false", "hoodie.embed.timeline.server": "false", "hoodie.index.type": "INMEMORY",
    "hoodie.compact.inline": "false", "hoodie.combine.before.upsert": "false", "hoodie.combine.before.insert": "false",
    "hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false", "hoodie.write.markers.type": "DIRECT",
    "hoodie.compact.inline.max.delta.commits": "1"}
BEGIN = ["upsert I:a:1:1 I:b:1:2 I:c:1:3", "upsert -U:a:2:1 U:a:2:10 D:b:2:2 I:d:2:4"]
END = ["upsert -U:d:3:4 U:d:3:40 -U:c:3:3", "upsert I:b:4:20 D:a:4:10"]
HISTORY = [*BEGIN, "compact", *END]


class JavaCase(Case):
    """A table that Hudi's Java client writes; Spark answers."""
    def run(self, version, steps, table=(), options=CHANGELOG):
        """Each of `steps` is a line of WriteChangelog.java, or a dict of write options for the steps after it."""
        lines = ["table %s %d %s" % (self.kind, version, " ".join(table))]
        lines += ["option %s=%s" % pair for pair in {**WRITER, **options}.items()]
        for step in steps:
            lines += ["option %s=%s" % pair for pair in step.items()] if isinstance(step, dict) else [step]
        script = self.base + ".steps"
        with open(script, "w") as file: file.write("\n".join(lines) + "\n")
        jvm = self.env.spark.sparkContext._gateway.jvm
        words = self.env.spark.sparkContext._gateway.new_array(jvm.java.lang.String, 2)
        words[0], words[1] = self.base, script
        jvm.WriteChangelog.main(words)
        self.steps.append("; ".join(lines))


def java(env, name, kind, version, steps, what, table=(), options=CHANGELOG, cdc=False, then=None):
    def make():
        c = JavaCase(env, f"D_{name}_v{version}", kind, what)
        c.run(version, steps, table, options)
        if then: then(c)
        c.standard(per=not any(step in ("archive", "clean") for step in steps))
        for n, i in enumerate([i for i in instants(c.base) if i[2] in hudi_case.DATA]):
            c.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
        if cdc: c.standard(inc=False, cdc=True); c.queries = list({q["id"]: q for q in c.queries}.values())
        c.finish()
    return f"D_{name}_v{version}", make


def spark_bulk(c):
    """A row writer's commit after a changelog's: its files have no column for the kind."""
    c.write("bulk_insert", None, df=c.env.spark.sql("SELECT 'e' id, 9L ts, 90L v, 'x' p"),
            o={**CHANGELOG, "hoodie.datasource.write.hive_style_partitioning": "false", "hoodie.write.auto.upgrade": "false"})


def spark(env, name, kind, version, what, options=None):
    def make():
        env.tv = version
        c = Case(env, f"D_{name}_v{version}", kind, what, {**CHANGELOG, "hoodie.write.auto.upgrade": "false", **(options or {})})
        rows = lambda *r: env.spark.sql("SELECT * FROM VALUES %s AS t(id,ts,v,p)" % ",".join(map(str, r)))
        c.write("insert", None, df=rows(("a", 1, 1, "x"), ("b", 1, 2, "x")))
        c.write("upsert", None, df=rows(("a", 2, 10, "x"), ("c", 2, 3, "x")))
        c.write("delete", None, df=rows(("b", 3, 2, "x")))
        c.standard()
        c.finish()
    return f"D_{name}_v{version}", make


def evolved(env, kind, version):
    """A column is added in the third commit; ranges end before and after it."""
    name = f"D_evolved_{'mor' if kind == MOR else 'cow'}_v{version}"
    def make():
        env.tv = version
        c = Case(env, name, kind, "A column is added and an int becomes a long between commits: ranges that end before it.",
                 {"hoodie.write.auto.upgrade": "false"})
        say = lambda text: env.spark.sql(text)
        c.write("insert", None, text="id, ts, v int, p: a, b", df=say("SELECT * FROM VALUES ('a',1L,1,'x'),('b',1L,2,'x') AS t(id,ts,v,p)"))
        c.write("upsert", None, text="a anew", df=say("SELECT * FROM VALUES ('a',2L,10,'x') AS t(id,ts,v,p)"))
        c.write("upsert", None, text="v long, w string: b anew, c", df=say("SELECT id, ts, v, p, nullif(w, '') w FROM VALUES ('b',3L,20L,'x','B'),('c',3L,3L,'x','C') AS t(id,ts,v,p,w)"))
        c.write("upsert", None, text="a again", df=say("SELECT id, ts, v, p, nullif(w, '') w FROM VALUES ('a',4L,100L,'x','A') AS t(id,ts,v,p,w)"))
        c.standard()
        pos = sorted(i[1] or i[0] for i in instants(c.base) if i[2] in hudi_case.DATA)
        c.ask("inc_use_end", "incremental", "000", pos[1], options={"hoodie.datasource.read.schema.use.end.instanttime": "true"},
              bounds=c.queries[1]["bounds"], note="the schema of the range's end, by option")
        for n, i in enumerate([i for i in instants(c.base) if i[2] in hudi_case.DATA]):
            c.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
        c.finish()
    return name, make


def evolved_on_read(env, kind, version):
    """A column is renamed and one is added by schema-on-read; ranges end before and after, asked by name and by id."""
    name = f"D_evolved_on_read_{'mor' if kind == MOR else 'cow'}_v{version}"
    def make():
        env.tv = version
        c = Case(env, name, kind, "Schema-on-read: a column is renamed and one added between commits: ranges that end before it.",
                 {"hoodie.write.auto.upgrade": "false", "hoodie.schema.on.read.enable": "true", DROPS: "true"})
        say = lambda text: env.spark.sql(text)
        c.write("insert", None, text="a, b", df=say("SELECT id, ts, nullif(v, 0) v, p FROM VALUES ('a',1L,1,'x'),('b',1L,2,'x') AS t(id,ts,v,p)"))
        c.write("upsert", None, text="a anew", df=say("SELECT id, ts, nullif(v, 0) v, p FROM VALUES ('a',2L,10,'x') AS t(id,ts,v,p)"))
        settings = {"hoodie.schema.on.read.enable": "true", DROPS: "true", "hoodie.metadata.enable": "false", "hoodie.write.auto.upgrade": "false",
                    "hoodie.write.table.version": str(version)}
        for key, value in settings.items(): say(f"set {key}={value}")
        try:
            say(f"create table {name.lower()} using hudi location '{c.base}'")
            c.call(f"alter table {name.lower()} rename column v to v2", "v is v2")
            c.call(f"alter table {name.lower()} add columns (w string)", "w is added")
        finally:
            for key in settings: say(f"reset {key}")
        c.write("upsert", None, text="b anew, c", df=say("SELECT id, ts, nullif(v2, 0) v2, p, nullif(w, '') w FROM VALUES ('b',3L,20,'x','B'),('c',3L,3,'x','C') AS t(id,ts,v2,p,w)"))
        c.standard()
        for q in [q for q in c.queries if q["query"] == "incremental"]:
            c.ask(q["id"] + "_sor", "incremental", q["begin"], q["end"], bounds=q["bounds"], note="by id",
                  options={"hoodie.schema.on.read.enable": "true"})
        c.finish()
    return name, make


def cases(env):
    parquet = {**CHANGELOG, "hoodie.logfile.data.block.format": "parquet"}
    archive = {**CHANGELOG, "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1",
               "hoodie.clean.automatic": "false", "hoodie.archive.beyond.savepoint": "false"}
    for v in (6, 8, 9):
        yield java(env, "changelog_mor", MOR, v, HISTORY, "Stored kinds in log blocks, a compaction, stored kinds again.")
        yield java(env, "changelog_cow", COW, v, [*BEGIN, *END], "The column of kinds in base files.")
    for v in (6, 9):
        yield java(env, "changelog_parquet", MOR, v, HISTORY, "Stored kinds in Parquet log blocks.", options=parquet)
        yield java(env, "changelog_archived", MOR, v, [*HISTORY, "upsert I:e:5:5", "compact", "clean", "upsert D:e:6:5", "archive"],
                   "Stored kinds, cleaned and archived.", options=archive)
        yield java(env, "changelog_bulk", MOR, v, ["bulk_insert I:a:1:1 I:b:1:2 U:c:1:3 I:d:1:4", *END, "bulk_insert I:e:1:1"],
                   "bulk_insert first and last, kinds stored between.")
    yield java(env, "changelog_row_writer", MOR, 9, HISTORY, "The newest commit is of Spark's row writer.", then=spark_bulk)
    yield java(env, "changelog_ended", MOR, 9, [*HISTORY, {"hoodie.allow.operation.metadata.field": "false"}, "upsert I:f:5:5"],
               "The newest commit was written without the option.")
    yield java(env, "changelog_resumed", MOR, 9, [{"hoodie.allow.operation.metadata.field": "false"}, BEGIN[0], dict(CHANGELOG), BEGIN[1], *END],
               "The option was set after the first commit.")
    yield java(env, "changelog_delete_last", MOR, 9, [*HISTORY, "delete d"], "The newest commit only deletes keys.")
    yield java(env, "changelog_cleaned", COW, 9, ["insert I:a:1:1 I:b:1:2", "delete a", {"hoodie.clean.commits.retained": "1"}, "delete b", "clean"],
               "The file of the newest commit that inserted was cleaned.")
    yield java(env, "changelog_nometa", MOR, 9, HISTORY, "Kinds without meta columns.", table=["hoodie.populate.meta.fields=false"],
               options={**CHANGELOG, "hoodie.populate.meta.fields": "false",
                            "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "p"})
    for v in (6, 9):
        cdc = ["hoodie.table.cdc.enabled=true", "hoodie.table.cdc.supplemental.logging.mode=DATA_BEFORE_AFTER"]
        yield java(env, "changelog_cdc_cow", COW, v, [*BEGIN, *END], "Kinds and change data.", table=cdc, cdc=True)
        yield java(env, "changelog_cdc_mor", MOR, v, HISTORY, "Kinds and change data.", table=cdc, cdc=True)
    for v in (6, 9):
        yield spark(env, "changelog_spark_cow", COW, v, "Spark's upserts with the option.")
        yield spark(env, "changelog_spark_mor", MOR, v, "Spark's upserts with the option.")
        yield evolved(env, COW, v)
        yield evolved(env, MOR, v)
        yield evolved_on_read(env, COW, v)
        yield evolved_on_read(env, MOR, v)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("stage", choices=["write", "pack"]); ap.add_argument("--hudi", default="1.2.0")
    ap.add_argument("--jar"); ap.add_argument("--java-client"); ap.add_argument("--work", required=True)
    ap.add_argument("--out", required=True); ap.add_argument("--cases", default="")
    a = ap.parse_args()
    a.work, a.out = os.path.abspath(a.work), os.path.abspath(a.out)
    os.makedirs(a.work, exist_ok=True); os.makedirs(a.out, exist_ok=True)
    if a.stage == "pack": return pack(a)
    import pyspark
    classes = os.path.join(a.work, "classes")
    jars = ":".join([a.java_client, a.jar, os.path.join(os.path.dirname(pyspark.__file__), "jars", "*")])
    subprocess.run(["javac", "-nowarn", "-d", classes, "-cp", jars, os.path.join(HERE, "WriteChangelog.java")], check=True)
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-class-path %s pyspark-shell" % ":".join((classes, a.java_client, a.jar))
    env = hudi_case.Env(a, session(a.jar), None)
    asked = [re.compile(x) for x in a.cases.split(",") if x]
    for name, make in cases(env):
        if asked and not any(x.search(name) for x in asked): continue
        t = time.time()
        try: make()
        except Exception as e: log("FAILED", name, cause(e)); traceback.print_exc()
        log(name, "%.0f s" % (time.time() - t))


def pack(a, catalogue="cases_D.json"):
    """As gen_B's, under another name of the catalogue."""
    os.makedirs(os.path.join(a.out, "tables"), exist_ok=True); cases = []
    for fr in sorted(glob.glob(os.path.join(a.out, "frag", "*.json"))):
        d = json.load(open(fr)); d["table"] = "tables/%s.zip" % d["name"]; cases.append(d)
        for q in d["queries"]:
            if q.get("error"): q["error"] = re.sub(r"(file:)?" + re.escape(a.work) + r"/[\w.]+", "<table>", q["error"])[-500:]
            if q.get("error"): q["error"] = re.sub(r"\([\w.:-]+ executor driver\)", "(executor driver)", q["error"])
        d["sql"] = d["sql"].replace(a.work, "<work>")
        base = os.path.join(a.work, d["name"])
        with zipfile.ZipFile(os.path.join(a.out, d["table"]), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
            for root, dirs, files in os.walk(base):
                for n in [x for x in dirs if not os.listdir(os.path.join(root, x))]: z.writestr(zipfile.ZipInfo(os.path.relpath(os.path.join(root, n), base) + "/"), "")
                for n in sorted(files):
                    if not n.endswith(".crc"): z.write(os.path.join(root, n), os.path.relpath(os.path.join(root, n), base))
    json.dump(cases, open(os.path.join(a.out, catalogue), "w"), indent=1)
    print(len(cases), "cases")


if __name__ == "__main__": main()
