"""A bootstrapped table: its source files, its bootstrap and its writes."""
import glob, json, os, shutil
import hudi_case
from hudi_case import Case, frame, instants

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
SELECTORS = "org.apache.hudi.client.bootstrap.selector."
METADATA = {"hoodie.bootstrap.mode.selector": SELECTORS + "MetadataOnlyBootstrapModeSelector"}
FULL = {"hoodie.bootstrap.mode.selector": SELECTORS + "FullRecordBootstrapModeSelector"}
MIXED = {"hoodie.bootstrap.mode.selector": SELECTORS + "BootstrapRegexModeSelector",
         "hoodie.bootstrap.mode.selector.regex": "p=b.*", "hoodie.bootstrap.mode.selector.regex.mode": "FULL_RECORD"}
ROWS = [("k%02d" % n, 10, n, "abc"[n % 3]) for n in range(1, 25)]
NONPART = {"hoodie.datasource.write.partitionpath.field": "", "hoodie.datasource.write.hive_style_partitioning": "false",
           "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
           "hoodie.bootstrap.keygen.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}


class BootCase(Case):
    def __init__(self, env, name, kind, what, options=None):
        super().__init__(env, name, kind, what, options)
        self.source = self.base + ".source"
        shutil.rmtree(self.source, ignore_errors=True)

    def bootstrap(self, mode, o=None):
        opts = {"hoodie.bootstrap.base.path": self.source, "hoodie.bootstrap.parallelism": "1",
                "hoodie.bootstrap.keygen.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
                "hoodie.bootstrap.full.input.provider": "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider", **mode, **(o or {})}
        self.write("bootstrap", None, "bootstrap " + json.dumps({**mode, **(o or {})}), df=self.env.spark.createDataFrame([], "struct<>"), o=opts)

    def spark_source(self, rows=ROWS, keep_p=False, parts=True, select="*", data=frame, form="parquet"):
        """Two files a partition, as Spark writes them; the partition column is only in the path unless `keep_p`."""
        for half in range(2):
            df = data(self.env.spark, rows[half::2]).selectExpr(select) if select == "*" else data(self.env.spark, rows[half::2]).selectExpr(*select)
            if parts and keep_p: df = df.selectExpr("*", "p pp")
            w = df.coalesce(1).write.mode("append")
            if parts and keep_p:
                tmp = self.source + "_t"; w.partitionBy("pp").format(form).save(tmp)
                for f in glob.glob(tmp + "/pp=*/*." + form):
                    d = os.path.join(self.source, os.path.basename(os.path.dirname(f))[1:]); os.makedirs(d, exist_ok=True); shutil.copy(f, d)
                shutil.rmtree(tmp)
            elif parts: w.partitionBy("p").format(form).save(self.source)
            else: w.format(form).save(self.source)
        self.tidy()
        self.steps.append("source: %d rows of %s()%s, two files a partition%s" % (len(rows), data.__name__, "" if select == "*" else " " + str(select), ", partition column in the files" if keep_p else ""))

    def arrow_source(self, rows=ROWS):
        """One file a partition in row groups of three rows, as pyarrow writes them, with a nested column."""
        import pyarrow as pa, pyarrow.parquet as pq
        for p in sorted({r[3] for r in rows}):
            mine = [r for r in rows if r[3] == p]
            t = pa.table({"id": [r[0] for r in mine], "ts": pa.array([r[1] for r in mine], pa.int64()), "name": ["n%d" % r[2] for r in mine], "v": pa.array([r[2] for r in mine], pa.int32()),
                          "s": pa.array([None if r[2] % 5 == 0 else {"x": r[2], "y": ["y%d" % r[2]] * (r[2] % 3)} for r in mine], pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))]))})
            os.makedirs(self.source + "/p=" + p, exist_ok=True)
            pq.write_table(t, self.source + "/p=%s/f.parquet" % p, row_group_size=3)
        self.steps.append("source: %d rows, one file a partition, row groups of three rows, written by pyarrow" % len(rows))

    def tidy(self):
        for root, _, files in os.walk(self.source):
            for f in files:
                if f.startswith(("_", ".")): os.remove(os.path.join(root, f))

    def done(self, cdc=False):
        self.standard()
        ts = [i for i in instants(self.base) if i[2] in hudi_case.DATA]
        for n, i in enumerate(ts): self.ask("time_travel_%d" % (n + 1), "time_travel", as_of=i[0], note="%s %s" % (i[0], i[2]))
        if cdc: self.standard(inc=False, cdc=True); self.queries = list({q["id"]: q for q in self.queries}.values())
        for q in self.queries:
            if q["id"] in ("cdc_all", "cdc_01"): q["note"] += "; WRONG: the images of the bootstrap's rows are empty, since Hudi reads skeletons without their source files here"
        self.finish()


R = lambda n, ts, v, p: ("k%02d" % n, ts, v, p)
