"""Scenarios of golden tables of family A: their registration, and what a scenario does with its table."""
import decimal, glob, json, os, re, time

os.environ["TZ"] = "UTC"
time.tzset()
D = decimal.Decimal
MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
OVERWRITE = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
DEFAULT = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
PKG = "org.apache.hudi.common.model."
READS = {"0.15.0": {6}, "1.0.2": {6, 8}, "1.2.0": {6, 8, 9}}
CASES = {}


def case(name, writers, what, ttype=MOR, **kw):
    """Register a scenario; `writers` is a list of (release, table version)."""
    def deco(fn):
        for hudi, tv in writers:
            n = f"A_{name}_v{tv}_h{hudi.replace('.', '')}"
            CASES[n] = dict(name=n, hudi=hudi, tv=tv, what=what, ttype=ttype, fn=fn, kw=kw)
        return fn
    return deco


W_ALL = [("0.15.0", 6), ("1.0.2", 8), ("1.2.0", 9)]
W_69 = [("0.15.0", 6), ("1.2.0", 9)]
W_1X = [("1.0.2", 8), ("1.2.0", 9)]


class Ctx:
    def __init__(self, spark, c, path):
        self.spark, self.c, self.path = spark, c, path
        self.hudi, self.tv, self.name = c["hudi"], c["tv"], c["name"]
        self.steps, self.queries, self.o, self.schema = [], [], {}, None
        self.notes = []
        self.base = {
            "hoodie.table.name": self.name.lower().replace(".", ""),
            "hoodie.datasource.write.table.type": c["ttype"],
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.metadata.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.compact.inline": "false",
            "hoodie.upsert.shuffle.parallelism": "1", "hoodie.insert.shuffle.parallelism": "1",
            "hoodie.bulkinsert.shuffle.parallelism": "1", "hoodie.delete.shuffle.parallelism": "1",
        }
        if self.hudi != "0.15.0":
            self.base["hoodie.write.auto.upgrade"] = "false"
            self.base["hoodie.write.table.version"] = str(self.tv)

    def mode(self, m):
        """EVENT / COMMIT / payload class name: sets the options the release understands."""
        if m in ("EVENT", "COMMIT"):
            if self.tv >= 8:
                v = "EVENT_TIME_ORDERING" if m == "EVENT" else "COMMIT_TIME_ORDERING"
                self.base["hoodie.record.merge.mode"] = v
                self.base["hoodie.write.record.merge.mode"] = v
            else:
                self.base["hoodie.datasource.write.payload.class"] = DEFAULT if m == "EVENT" else OVERWRITE
        elif m:
            self.base["hoodie.datasource.write.payload.class"] = m

    def df(self, rows, ddl):
        return self.spark.createDataFrame(rows, ddl).coalesce(1)

    def w(self, rows, ddl=None, op="upsert", o=None, drop=()):
        ddl = ddl or self.schema
        opts = dict(self.base)
        opts.update(o or {})
        for k in drop:
            opts.pop(k, None)
        opts["hoodie.datasource.write.operation"] = op
        opts = {k: v for k, v in opts.items() if v is not None}
        df = rows if not isinstance(rows, list) else self.df(rows, ddl)
        first = not os.path.exists(self.path + "/.hoodie")
        df.write.format("hudi").options(**opts).mode("overwrite" if first else "append").save(self.path)
        n = len(rows) if isinstance(rows, list) else "df"
        ex = (" " + json.dumps(o, sort_keys=True)) if o else ""
        self.steps.append(f"{op} {n} rows{ex}" + (f" [{ddl}]" if first else ""))
        return self.last()

    def sql(self, s, quiet=False):
        r = self.spark.sql(s)
        if not quiet:
            self.steps.append(s.replace(self.path, "<path>"))
        return r

    def reg(self, extra=""):
        t = self.base["hoodie.table.name"]
        self.spark.sql(f"drop table if exists {t}")
        self.spark.sql(f"create table {t} using hudi {extra} location '{self.path}'")
        return t

    def tl(self):
        return self.path + ("/.hoodie/timeline" if self.tv >= 8 else "/.hoodie")

    def instants(self):
        out = []
        for f in os.listdir(self.tl()):
            m = re.match(r"^(\d+)(?:_(\d+))?\.(commit|deltacommit|replacecommit|clean|rollback|restore|savepoint)$", f)
            if m:
                out.append((m.group(1), m.group(2), m.group(3), f))
        return sorted(out)

    def last(self, n=-1):
        i = [x for x in self.instants() if x[2] in ("commit", "deltacommit", "replacecommit")]
        return i[n][0] if i else None

    def fail_last(self, keep_inflight=True):
        """Turn the newest write instant into a failed (pending) one: remove its completed file."""
        i = [x for x in self.instants() if x[2] in ("commit", "deltacommit", "replacecommit")][-1]
        os.remove(f"{self.tl()}/{i[3]}")
        crc = f"{self.tl()}/.{i[3]}.crc"
        if os.path.exists(crc):
            os.remove(crc)
        self.steps.append("remove the completed file of that instant (a writer that died before completing)")
        return i[0]

    def logs(self, tl=None):
        return sorted(f for f in glob.glob(self.path + "/**/.*.log.*", recursive=True) if not f.endswith(".crc") and "/.hoodie/" not in f)

    def tt(self, as_of, note=""):
        self.queries.append({"id": f"time_travel_{sum(q['query'] == 'time_travel' for q in self.queries) + 1}",
                             "query": "time_travel", "as_of": as_of, "note": note, "options": {}})

    def q(self, qid, query, note="", **options):
        self.queries.append({"id": qid, "query": query, "as_of": options.pop("as_of", None), "note": note, "options": options})
