"""Golden tables of family J: variants, whole and shredded (Hudi 1.2's logical type `variant`).

    python gen_J.py write --hudi 1.2.0 --jar BUNDLE.jar --java-client HUDI-JAVA-CLIENT.jar --work DIR --out DIR
    python gen_J.py pack --work DIR --out DIR

Hudi's Java client writes the tables from Avro records whose schemas `HoodieSchema` makes. Hudi's reader on Spark 3.5
has no variants (IncompatibleSchemaException): each query gives it a schema in which a variant is the struct of its
stored parts. Time travel and changes fail with a given schema too: the rows of time travel are those of a snapshot
while the instant was the newest. `--cases` and the layout of WORK and OUT are those of gen_B.py; needs pyarrow too.
"""
import argparse, json, os, re, struct, sys, time, traceback
import gen_D, hudi_case
from hudi_case import Case, cause, instants, log, session

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "interop"))
from hudi_java_client import java_write  # noqa: E402

MOR, COW = "MERGE_ON_READ", "COPY_ON_WRITE"
WRITER = {**gen_D.WRITER, "hoodie.write.auto.upgrade": "false",
          "hoodie.datasource.write.recordkey.field": "id", "hoodie.datasource.write.partitionpath.field": "p"}
SPARK = {"boolean": "boolean", "int": "int", "long": "bigint", "double": "double", "string": "string", "bytes": "binary"}
META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]


# ----------------------------------------------------------------------------------------------- variants
def variant(value):
    """(metadata, value) of a value in the variant encoding, version 1, with offsets and lengths of one byte."""
    names = sorted(set(_names(value)))
    return _metadata(names), _value(value, names)


def _metadata(names):
    texts = [n.encode() for n in names]
    return bytes([0x11, len(names), *_offsets(texts)]) + b"".join(texts)


def _names(value):
    if isinstance(value, dict):
        for name, inner in value.items(): yield name; yield from _names(inner)
    elif isinstance(value, list):
        for inner in value: yield from _names(inner)


def _offsets(parts):
    return [sum(map(len, parts[:n])) for n in range(len(parts) + 1)]


def _value(value, names):
    if value is None: return bytes([0])
    if isinstance(value, bool): return bytes([1 << 2 if value else 2 << 2])
    if isinstance(value, int): return bytes([3 << 2]) + struct.pack("<b", value) if -128 <= value < 128 else bytes([6 << 2]) + struct.pack("<q", value)
    if isinstance(value, float): return bytes([7 << 2]) + struct.pack("<d", value)
    if isinstance(value, str):
        text = value.encode()
        return bytes([len(text) << 2 | 1]) + text if len(text) < 64 else bytes([16 << 2]) + struct.pack("<I", len(text)) + text
    if isinstance(value, list):
        parts = [_value(inner, names) for inner in value]
        return bytes([3, len(parts), *_offsets(parts)]) + b"".join(parts)
    fields = sorted(value)
    parts = [_value(value[name], names) for name in fields]
    return bytes([2, len(parts), *map(names.index, fields), *_offsets(parts)]) + b"".join(parts)


# ----------------------------------------------------------------------------------------------- schemas and records
class Schemas:
    """Avro schemas of variants, as `HoodieSchema` makes them."""
    def __init__(self, spark):
        self.jvm = spark._jvm
        self.kind = self.jvm.org.apache.hudi.common.schema.HoodieSchema
    def whole(self, name): return json.loads(self.kind.createVariant(name, "history", None).toString())
    def shredded(self, name, kind):
        return json.loads(self.kind.createVariantShredded(name, "history", None, self._nullable(kind)).toString())
    def shredded_object(self, name, **kinds):
        fields = self.jvm.java.util.LinkedHashMap()
        for field, kind in kinds.items(): fields.put(field, self._nullable(kind))
        return json.loads(self.kind.createVariantShreddedObject(name, "history", None, fields).toString())
    def _nullable(self, kind):
        return self.kind.createNullable(self.kind.create(getattr(self.jvm.org.apache.hudi.common.schema.HoodieSchemaType, kind)))


def value_first(node):
    """The order of a variant's fields in Spark 4's files."""
    return {**node, "fields": sorted(node["fields"], key=lambda f: f["name"] != "value")}


def record(columns):
    fixed = {"id": "string", "ts": "long", "p": "string"}
    fields = [{"name": n, "type": fixed[n]} for n in ("id", "ts")]
    fields += [{"name": n, "type": ["null", t], "default": None} for n, t in columns.items()]
    return {"type": "record", "name": "history_record", "namespace": "hoodie.history", "fields": [*fields, {"name": "p", "type": "string"}]}


def avro_json(node, value):
    """A value in Avro's JSON encoding of a schema; None in a part of a variant is null or missing."""
    if isinstance(node, list):
        if value is None: return None
        inner = [n for n in node if n != "null"][0]
        name = inner if isinstance(inner, str) else ".".join(filter(None, (inner.get("namespace"), inner.get("name")))) or inner["type"]
        return {name: avro_json(inner, value)}
    kind = node if isinstance(node, str) else node["type"]
    if kind == "record": return {f["name"]: avro_json(f["type"], value.get(f["name"])) for f in node["fields"]}
    if kind == "array": return [avro_json(node["items"], v) for v in value]
    if kind == "map": return {k: avro_json(node["values"], v) for k, v in value.items()}
    return value.decode("latin-1") if isinstance(value, bytes) else value


def spark_type(node):
    """The Spark type of the stored parts."""
    if isinstance(node, list): return spark_type([n for n in node if n != "null"][0])
    kind = node if isinstance(node, str) else node["type"]
    if kind == "record": return "struct<%s>" % ",".join("%s:%s" % (f["name"], spark_type(f["type"])) for f in node["fields"])
    if kind == "array": return "array<%s>" % spark_type(node["items"])
    if kind == "map": return "map<string,%s>" % spark_type(node["values"])
    return SPARK[kind]


def table_schema(schema):
    return ", ".join(["%s string" % m for m in META] + ["%s %s" % (f["name"], spark_type(f["type"])) for f in schema["fields"]])


# ----------------------------------------------------------------------------------------------- tables
class VariantCase(Case):
    """A table that Hudi's Java client writes; Spark answers with the schema of the newest commit."""
    def __init__(self, env, name, kind, what, options=None):
        super().__init__(env, name, kind, what)
        self.java = {**WRITER, "hoodie.write.table.version": str(env.tv), **(options or {})}
        self.schema, self.newest = None, []
        env.spark._jvm.org.apache.hudi.index.inmemory.HoodieInMemoryHashIndex.clear()
        self.properties = {"hoodie.table.name": "t", "hoodie.table.type": kind, "hoodie.table.version": str(env.tv),
                           "hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": "p", "hoodie.table.ordering.fields": "ts",
                           "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleAvroKeyGenerator", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    def put(self, operation, schema, rows):
        """One commit; rows are (id, ts, partition, name of the value, {column: value of its schema})."""
        data = [{"id": i, "ts": ts, "p": p, **columns} for i, ts, p, _, columns in rows]
        request = {"path": self.base, "operation": operation, "schema": json.dumps(schema), "options": self.java, "keys": [(r["id"], r["p"]) for r in data],
                   "rows": [avro_json(schema, r) for r in data], "properties": self.properties if self.schema is None else None}
        self._noted(schema, "%s %s" % (operation, [(i, ts, p, value) for i, ts, p, value, _ in rows]), lambda: java_write(self.env.spark, request))
    def compacted(self):
        jvm = self.env.spark._jvm
        hudi = jvm.org.apache.hudi
        properties = jvm.org.apache.hudi.common.config.TypedProperties()
        for pair in self.java.items(): properties.setProperty(*pair)
        properties.setProperty("hoodie.compact.inline.max.delta.commits", "1")
        schema = self.schema
        config = hudi.config.HoodieWriteConfig.newBuilder().withPath(self.base).withProperties(properties).withSchema(json.dumps(schema))
        config = config.withEngineType(hudi.common.engine.EngineType.JAVA).build()
        storage = hudi.hadoop.fs.HadoopFSUtils.getStorageConf(self.env.spark._jsc.hadoopConfiguration())
        client = hudi.client.HoodieJavaWriteClient(hudi.client.common.HoodieJavaEngineContext(storage), config)
        try: self._noted(schema, "compaction", lambda: client.compact(client.scheduleCompaction(hudi.common.util.Option.empty()).get(), True))
        finally: client.close()
    def _noted(self, schema, text, act):
        """Does one commit, and asks for the snapshot."""
        before = {i[0] for i in instants(self.base)} if self.schema else set()
        act()
        new, = [i for i in instants(self.base) if i[0] not in before]
        self.schema = schema
        self.env.schema = lambda query: table_schema(schema)
        self.steps.append("%s -> ['%s.%s']" % (text, new[0], new[2]))
        query = dict(id="time_travel_%d" % (len(self.newest) + 1), query="snapshot", as_of=None, begin=None, end=None, bounds="", options={},
                     note="%s %s: the snapshot when it was the newest" % (new[0], new[2]))
        answer = hudi_case.run_query(self.env, self.base, self.name, query)
        if answer["error"]: log(query["id"], answer["error"])
        self.newest.append({**answer, "query": "time_travel", "as_of": new[0]})
    def finish(self):
        self.standard()
        super().finish()
        d = json.load(open(os.path.join(self.env.out, "frag", self.name + ".json")))
        for q in d["queries"]: self._full(d, q)
        d["queries"] += self.newest
        hudi_case.save_frag(self.env, d)
    def _full(self, d, q):
        """`hudi_case.full_slice` from these snapshots."""
        import pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
        if q["query"] != "incremental" or q["error"]: return
        of = [i[0] for i in d["instants"] if i[2] in hudi_case.DATA and q["begin"] < i[1] <= (q["end"] or "9")]
        source = [t for t in self.newest if t["as_of"] == of[-1]][0]
        q["full"], q["full_rows"] = None, 0
        if not source["expected"]: return
        rows = pq.read_table(os.path.join(self.env.out, source["expected"]))
        rows = rows.filter(pc.is_in(rows["_hoodie_commit_time"], pa.array(of)))
        answer = q["expected"] and pq.read_table(os.path.join(self.env.out, q["expected"]))
        if answer and answer.schema.types != rows.schema.types:  # a range has the newest schema
            row = lambda r: (r["_hoodie_commit_time"], r["_hoodie_partition_path"], r["_hoodie_record_key"])
            winners = {row(r) for r in rows.to_pylist()}
            rows = answer.filter(pa.array([row(r) in winners for r in answer.to_pylist()]))
            if rows.num_rows != len(winners): raise AssertionError((self.name, q["id"], "the range lacks rows"))
        q["full"], q["full_rows"] = "expected/%s/%s.full.parquet" % (self.name, q["id"]), rows.num_rows
        path = os.path.join(self.env.out, q["full"])
        pq.write_table(rows, path)
        if q["expected"] and hudi_case.canon(path) == hudi_case.canon(os.path.join(self.env.out, q["expected"])): os.remove(path); q["full"] = q["expected"]


VALUES = {"null": None, "true": True, "int8": -7, "int64": 3000000000, "double": 2.5, "short": "hé", "long": "x" * 70, "array": [1, None, "two"],
          "object": {"b": 1, "a": {"c": [True]}}, "empty": {}, "none": []}


def whole(name):
    """Every column of a row from one value's name; "" is no variant."""
    if not name: return {"v": None, "f": None, "l": None, "m": None, "s": None}
    stored = dict(zip(("metadata", "value"), variant(VALUES[name])))
    other = dict(zip(("metadata", "value"), variant([name])))
    return {"v": stored, "f": other, "l": [stored, other], "m": {name: stored}, "s": {"n": len(name), "v": stored}}


FIRST = [("a", 1, "x", "null"), ("b", 1, "x", "true"), ("c", 1, "y", "int8"), ("d", 1, "y", ""), ("e", 1, "x", "object")]
SECOND = [("a", 2, "x", "array"), ("c", 2, "y", ""), ("d", 2, "y", "short"), ("f", 2, "y", "long"), ("g", 2, "x", "empty")]
THIRD = [("b", 0, "x", "int64"), ("e", 4, "x", "double"), ("h", 4, "y", "none"), ("g", 1, "x", "true")]
LAST = [("d", 5, "y", "object"), ("e", 3, "x", "null"), ("i", 5, "x", "int64")]


def life(c, schema, columns):
    rows = lambda values: [(i, ts, p, v, columns(v)) for i, ts, p, v in values]
    c.put("insert", schema, rows(FIRST))
    c.put("upsert", schema, rows(SECOND))
    c.put("delete", schema, rows([("f", 3, "y", ""), ("b", 3, "x", "")]))
    if c.kind == MOR: c.compacted()
    c.put("upsert", schema, rows(THIRD))
    c.put("upsert", schema, rows(LAST))
    c.finish()


def evolved(c, before, after):
    """The column `t` is whole until the compaction, then shredded."""
    rows = lambda values, of: [(i, ts, p, v, {"t": of(v)}) for i, ts, p, v in values]
    in_one, in_parts = lambda v: whole(v)["v"], lambda v: shredded(v)["t"]
    c.put("insert", before, rows(FIRST, in_one))
    c.put("upsert", before, rows(SECOND, in_one))
    if c.kind == MOR: c.compacted()
    c.put("upsert", after, rows(THIRD, in_parts))
    c.put("upsert", after, rows(LAST, in_parts))
    c.finish()


def shredded(name):
    """The parts of shredded columns: integers in `t`, objects with `n` and `s` in `o`."""
    if not name: return {"t": None, "o": None}
    value = VALUES[name]
    metadata, rest = variant(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    t = {"metadata": metadata, "value": None if is_number else rest, "typed_value": value if is_number else None}
    names = sorted({"n", "q", "s", *_names(value)})
    o = {"metadata": _metadata(names), "value": _value({"q": value}, names),
         "typed_value": {"n": {"value": _value(2.5, names)} if is_number else {"typed_value": len(name)}, "s": {"typed_value": name}}}
    return {"t": t, "o": o}


def cases(env):
    schemas = Schemas(env.spark)
    env.tv = 9
    optional = lambda node: ["null", node]
    struct_of = {"type": "record", "name": "s_record", "namespace": "history", "fields": [{"name": "n", "type": "long"}, {"name": "v", "type": optional(schemas.whole("s_variant"))}]}
    plain = record({"v": schemas.whole("v_variant"), "f": value_first(schemas.whole("f_variant")), "l": {"type": "array", "items": optional(schemas.whole("l_variant"))},
                    "m": {"type": "map", "values": optional(schemas.whole("m_variant"))}, "s": struct_of})
    parted = record({"t": schemas.shredded("t_variant", "LONG"), "o": schemas.shredded_object("o_variant", n="LONG", s="STRING")})
    PARQUET = {"hoodie.logfile.data.block.format": "parquet"}
    nested = "whole variants, also in a list, a map and a struct, and with the value first"
    for name, kind, options, text, schema, columns in (
            ("whole_mor", MOR, {}, nested.capitalize() + ": base files and logs, compacted.", plain, whole),
            ("whole_parquet", MOR, PARQUET, nested.capitalize() + ": Parquet log blocks, compacted.", plain, whole),
            ("whole_cow", COW, {}, nested.capitalize() + ": rewritten.", plain, whole),
            ("shredded_mor", MOR, {}, "Shredded variants, integers and objects: base files and logs, compacted.", parted, shredded),
            ("shredded_parquet", MOR, PARQUET, "Shredded variants, integers and objects: Parquet log blocks, compacted.", parted, shredded),
            ("shredded_cow", COW, {}, "Shredded variants, integers and objects: rewritten.", parted, shredded)):
        full = f"J_variant_{name}_v9"
        yield full, lambda full=full, kind=kind, options=options, text=text, schema=schema, columns=columns: life(VariantCase(env, full, kind, text, options), schema, columns)
    whole_t, parted_t = record({"t": schemas.whole("t_variant")}), record({"t": schemas.shredded("t_variant", "LONG")})
    for name, kind in (("mor", MOR), ("cow", COW)):
        full = f"J_variant_evolved_{name}_v9"
        yield full, lambda full=full, kind=kind: evolved(VariantCase(env, full, kind, "Whole variants, which later commits shred."), whole_t, parted_t)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("stage", choices=["write", "pack"]); ap.add_argument("--hudi", default="1.2.0")
    ap.add_argument("--jar"); ap.add_argument("--java-client"); ap.add_argument("--work", required=True)
    ap.add_argument("--out", required=True); ap.add_argument("--cases", default="")
    a = ap.parse_args()
    a.work, a.out = os.path.abspath(a.work), os.path.abspath(a.out)
    os.makedirs(a.work, exist_ok=True); os.makedirs(a.out, exist_ok=True)
    if a.stage == "pack": return gen_D.pack(a, "cases_J.json")
    os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-class-path %s pyspark-shell" % ":".join((a.java_client, a.jar))
    env = hudi_case.Env(a, session(a.jar), None)
    asked = [re.compile(x) for x in a.cases.split(",") if x]
    for name, make in cases(env):
        if asked and not any(x.search(name) for x in asked): continue
        t = time.time()
        try: make()
        except Exception as e: log("FAILED", name, cause(e)); traceback.print_exc()
        log(name, "%.0f s" % (time.time() - t))


if __name__ == "__main__": main()
