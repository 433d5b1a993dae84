"""Scenarios of family A: schema evolution, keys, partitions, types, indexes, copy on write."""
import datetime as dt, random
from case_context import COW, D, W_69, W_ALL, case
from merge_cases import OT, T0, fuzz, reg_merge
from service_cases import S_DDL, rows

# ---------------------------------------------------------------- schema evolution
@case("evo_add_column", W_ALL, "MOR: columns added by later writes (top level and nested struct); old base + log rows show null")
def evo_add(x, mode="COMMIT"):
    x.mode(mode)
    x.base["hoodie.datasource.write.reconcile.schema"] = "true"
    x.w([(f"k{i}", "x", 5, i, (i, f"s{i}")) for i in range(10)], "id string, p string, ts bigint, v int, st struct<a:int,b:string>", op="insert")
    a = x.w([(f"k{i}", "x", 6, 10 + i, (i, "log")) for i in (0, 1, 2)], "id string, p string, ts bigint, v int, st struct<a:int,b:string>")
    x.w([(f"k{i}", "x", 7, 20 + i, (i, "log2", 2.5), "new", [1, 2]) for i in (2, 3)], "id string, p string, ts bigint, v int, st struct<a:int,b:string,c:double>, n1 string, n2 array<int>")
    x.w([(f"k{i}", "x", 8, 30 + i, (i, "ins", 9.5), "ins", [3]) for i in (4, 50, 51)], "id string, p string, ts bigint, v int, st struct<a:int,b:string,c:double>, n1 string, n2 array<int>")
    x.tt(a)


@case("evo_widen", W_ALL, "MOR: type widening int->long, int->double, float->double, long->double, int->string over base and log files written before")
def evo_widen(x, mode="COMMIT"):
    x.mode(mode)
    s1 = "id string, p string, ts bigint, a int, b int, c float, d bigint, e int"
    s2 = "id string, p string, ts bigint, a bigint, b double, c double, d double, e string"
    x.w([(f"k{i}", "x", 5, i, i, 0.1 * i, 10 ** 12 + i, 7 * i) for i in range(10)], s1, op="insert")
    a = x.w([(f"k{i}", "x", 6, 100 + i, 100 + i, 0.3, i, i) for i in (0, 1, 2)], s1)
    x.w([(f"k{i}", "x", 7, 2 ** 40 + i, 1.25, 0.1, 0.5, f"str{i}") for i in (2, 3)], s2)
    x.tt(a)


@case("evo_on_read", W_ALL, "MOR, schema.on.read: SQL ALTER TABLE add / rename / drop / change type / reorder columns; base and logs written before each change; column re-added under an old name shows null")
def evo_on_read(x, more=False):
    x.mode("COMMIT")
    x.schema = "id string, ts bigint, a int, b string, c double, st struct<m:int,n:string>, p string"
    x.w([(f"k{i}", 5, i, f"b{i}", i * .5, (i, f"n{i}"), "x") for i in range(12)], op="insert")
    x.w([(f"k{i}", 6, 100 + i, "log1", .25, (i, "l1"), "x") for i in (0, 1, 2)])
    t = x.reg()
    x.spark.sql("set hoodie.schema.on.read.enable=true")
    x.spark.sql("set hoodie.datasource.write.schema.allow.auto.evolution.column.drop=true")
    x.spark.sql("set hoodie.metadata.enable=false")
    x.spark.sql("set hoodie.write.auto.upgrade=false")
    x.spark.sql(f"set hoodie.write.table.version={x.tv}")
    try:
        x.base["hoodie.schema.on.read.enable"] = "true"
        x.base["hoodie.datasource.write.schema.allow.auto.evolution.column.drop"] = "true"
        x.sql(f"alter table {t} rename column b to b2")
        x.w([(f"k{i}", 7, 200 + i, "log2", .75, (i, "l2"), "x") for i in (1, 3)], "id string, ts bigint, a int, b2 string, c double, st struct<m:int,n:string>, p string")
        a = x.last()
        x.sql(f"alter table {t} alter column a type bigint")
        x.sql(f"alter table {t} add columns (d string after ts)")
        x.sql(f"alter table {t} drop column c")
        x.sql(f"alter table {t} rename column st.n to nn")
        ddl = "id string, ts bigint, d string, a bigint, b2 string, st struct<m:int,nn:string>, p string"
        x.w([(f"k{i}", 8, "dd", 2 ** 40 + i, "log3", (i, "l3"), "x") for i in (2, 4)], ddl)
        x.sql(f"alter table {t} add columns (c string)")
        ddl = "id string, ts bigint, d string, a bigint, b2 string, st struct<m:int,nn:string>, c string, p string"
        x.w([(f"k{i}", 9, "d2", i, "log4", (i, "l4"), "newc", "x") for i in (5,)], ddl)
        x.tt(a)
        x.q("snapshot_sor", "snapshot", "reader with hoodie.schema.on.read.enable=true", **{"hoodie.schema.on.read.enable": "true"})
        x.q("time_travel_sor", "time_travel", "as above", as_of=a, **{"hoodie.schema.on.read.enable": "true"})
    finally:
        for k in ("hoodie.schema.on.read.enable", "hoodie.datasource.write.schema.allow.auto.evolution.column.drop", "hoodie.metadata.enable", "hoodie.write.auto.upgrade", "hoodie.write.table.version"):
            x.spark.sql(f"reset {k}")


# ---------------------------------------------------------------- keys and partitions
@case("key_composite", W_69, "MOR: composite record key with null / empty parts and non-ASCII values, two partition fields, not hive style")
def key_composite(x, hive="false", mode="COMMIT"):
    x.mode(mode)
    x.base.update({"hoodie.datasource.write.recordkey.field": "k1,k2", "hoodie.datasource.write.partitionpath.field": "p,q", "hoodie.datasource.write.hive_style_partitioning": hive,
                   "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"})
    x.schema = "k1 string, k2 int, p string, q int, ts bigint, v int"
    ks = [("ä", 1), ("日本", 2), ("x:y", 3), ("a,b", 4), ("", 5), (None, 6), ("e", None), ("ž", 8)]
    x.w([(a, b, "p1", 1 + i % 2, 5, i) for i, (a, b) in enumerate(ks)], op="insert")
    x.w([(a, b, "p1", 1 + i % 2, 6, 100 + i) for i, (a, b) in list(enumerate(ks))[::2]])
    x.w([(a, b, "p1", 1 + i % 2, 7, None) for i, (a, b) in list(enumerate(ks))[2:4]], op="delete")


@case("part_special", W_69, "MOR: partition values with special characters, url-encoded; null and empty partition values")
def part_special(x, hive="true", enc="true"):
    x.mode("COMMIT")
    x.base.update({"hoodie.datasource.write.hive_style_partitioning": hive, "hoodie.datasource.write.partitionpath.urlencode": enc})
    x.schema = S_DDL
    vals = ["a/b", "x y", "50%", "k=v", "ü", "a:b", "2024-01-01 10:00:00", "q?#&", None, ""] if enc == "true" else ["x y", "k=v", "ü", None, "50%25", "v=1&2"]
    r = [(f"id{i}", v, 5, i, None) for i, v in enumerate(vals)]
    x.w(r, op="insert")
    x.w([(a, b, 6, 100 + d, "u") for a, b, c, d, e in r[::2]])


@case("nonpart_nometa", W_ALL, "MOR, non-partitioned, hoodie.populate.meta.fields=false, composite key: keys must be computed from the row")
def nometa(x, comp=True, mode="EVENT"):
    x.mode(mode)
    x.base.update({"hoodie.populate.meta.fields": "false", "hoodie.datasource.write.partitionpath.field": "",
                   "hoodie.datasource.write.recordkey.field": "id,k2" if comp else "id",
                   "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"})
    x.schema = "id string, k2 int, ts bigint, v int"
    x.w([(f"é{i}" if i % 2 else f"k{i}", i, 5, i) for i in range(12)], op="insert")
    x.w([(f"é{i}" if i % 2 else f"k{i}", i, 4 + i % 3, 100 + i) for i in range(0, 12, 2)])
    x.w([(f"é{i}" if i % 2 else f"k{i}", i, 9, None) for i in (1, 2)], op="delete")


@case("drop_part_cols", W_69, "MOR, hoodie.datasource.write.drop.partition.columns=true, typed partition columns (int, date)")
def drop_part(x, hive="true"):
    x.mode("COMMIT")
    x.base.update({"hoodie.datasource.write.drop.partition.columns": "true", "hoodie.datasource.write.partitionpath.field": "p,d", "hoodie.datasource.write.hive_style_partitioning": hive})
    x.schema = "id string, p int, d date, ts bigint, v int"
    mk = lambda ids, ts, v: [(f"k{i}", i % 3, dt.date(2024, 1, 1 + i % 2), ts, v + i) for i in ids]
    x.w(mk(range(12), 5, 0), op="insert")
    x.w(mk(range(0, 12, 2), 6, 100))
    x.w(mk([3], 7, 0), op="delete")


@case("ts_keygen", W_69, "MOR, timestamp key generator: partition column is epoch millis, path is yyyy/MM/dd")
def ts_keygen(x, typ="EPOCHMILLISECONDS", fmt="yyyy/MM/dd", hive="false"):
    x.mode("COMMIT")
    x.base.update({"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator", "hoodie.datasource.write.hive_style_partitioning": hive,
                   "hoodie.keygen.timebased.timestamp.type": typ, "hoodie.keygen.timebased.output.dateformat": fmt, "hoodie.keygen.timebased.timezone": "UTC"})
    if typ == "DATE_STRING":
        x.base["hoodie.keygen.timebased.input.dateformat"] = "yyyy-MM-dd HH:mm:ss"
        x.schema = "id string, p string, ts bigint, v int"
        pv = lambda i: f"2024-0{1 + i % 3}-15 0{i % 5}:30:00"
    else:
        x.schema = "id string, p bigint, ts bigint, v int"
        pv = lambda i: 1_700_000_000_000 + (i % 3) * 86_400_000 + i % 2
    x.w([(f"k{i}", pv(i), 5, i) for i in range(9)], op="insert")
    x.w([(f"k{i}", pv(i), 6, 100 + i) for i in (0, 4, 8)])


@case("custom_keygen", W_ALL, "MOR, custom key generator: p:SIMPLE, t:TIMESTAMP")
def custom_keygen(x):
    x.mode("COMMIT")
    x.base.update({"hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator", "hoodie.datasource.write.partitionpath.field": "p:SIMPLE,t:TIMESTAMP",
                   "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP", "hoodie.keygen.timebased.output.dateformat": "yyyyMMdd", "hoodie.keygen.timebased.timezone": "UTC"})
    x.schema = "id string, p string, t bigint, ts bigint, v int"
    r = [(f"k{i}", "ab"[i % 2], 1_700_000_000 + (i % 3) * 86_400, 5, i) for i in range(9)]
    x.w(r, op="insert")
    x.w([(a, b, c, 6, 100 + e) for a, b, c, d, e in r[::3]])


def types_rows(n, s, ts, na=False):
    """`na`: nulls as array elements (the Avro parquet writer cannot write those; the row writer and log blocks can)."""
    E = None if na else 0
    rnd = random.Random(s)
    out = []
    for i in range(n):
        nul = i % 4 == 3
        z = (lambda v: None) if nul else (lambda v: v)
        out.append((f"κλειδί-{i}", "x", ts, z(rnd.choice([True, False])), z(rnd.randint(-2 ** 31, 2 ** 31 - 1)), z(rnd.randint(-2 ** 63, 2 ** 63 - 1)), z(rnd.uniform(-1, 1)), z(rnd.uniform(-1e9, 1e9)),
                    z(D(rnd.randint(-10 ** 15, 10 ** 15)).scaleb(-4)), z(D(rnd.randint(-10 ** 8, 10 ** 8)).scaleb(-2)), z(D(rnd.randint(-10 ** 37, 10 ** 37)).scaleb(-10)),
                    z(dt.date(1960, 1, 1) + dt.timedelta(days=rnd.randint(0, 30000))), z(T0 + dt.timedelta(microseconds=rnd.randint(-10 ** 15, 10 ** 15))), z(T0 + dt.timedelta(microseconds=rnd.randint(-10 ** 15, 10 ** 15))),
                    z(bytearray(rnd.randbytes(5))), z([rnd.randint(0, 9), E] if i % 2 else []), z({"a": 1, "ß": None} if i % 2 else {}),
                    z((i, "s", ([D("1.50"), None if na else D("-0.01")], {"k": (1.5, dt.date(2020, 2, 29))}))), z([(1, "x"), None if na else (2, "é"), (None, None)])))
    return out


T_DDL = ("id string, p string, ts bigint, bo boolean, i int, l bigint, f float, d double, d1 decimal(20,4), d2 decimal(9,2), d3 decimal(38,10), da date, tz timestamp, tn timestamp_ntz, bi binary, "
         "ar array<int>, ma map<string,int>, st struct<a:int,b:string,c:struct<x:array<decimal(10,2)>,y:map<string,struct<q:double,r:date>>>>, las array<struct<a:int,b:string>>")


@case("types", W_ALL, "MOR: all SQL types with nulls, nested structs/arrays/maps, decimals, date, timestamps with and without zone, binary, non-ASCII keys; base by insert, log updates")
def types(x, s=1, extra=None, first="insert", ntz=True):
    x.mode("COMMIT")
    x.base.update(extra or {})
    ddl = T_DDL if ntz and x.hudi == "1.2.0" else T_DDL.replace("timestamp_ntz", "timestamp")
    x.w(types_rows(12, s, 5, first == "bulk_insert"), ddl, op=first)
    x.w(types_rows(12, s + 100, 6, first == "bulk_insert")[3:9], ddl)


reg_merge("types_bulk_millis", W_69, "MOR: all types, bulk_insert (row writer) base, hoodie.parquet.outputtimestamptype=TIMESTAMP_MILLIS", types, s=2, first="bulk_insert", extra={"hoodie.parquet.outputtimestamptype": "TIMESTAMP_MILLIS"})
reg_merge("types_int96", [("0.15.0", 6)], "MOR: all types, bulk_insert base with INT96 timestamps", types, s=3, first="bulk_insert", extra={"hoodie.parquet.outputtimestamptype": "INT96"})
reg_merge("types_parquet_log", [("1.0.2", 8), ("1.2.0", 9)], "MOR: all types, parquet log blocks", types, s=4, extra={"hoodie.logfile.data.block.format": "parquet"})


@case("bucket_index", W_69, "MOR, simple bucket index (8-digit bucket id in file ids)")
def bucket(x, nb="3", mode="EVENT", seed=41):
    fuzz(x, mode=mode, seed=seed, nkeys=40, ndeltas=3, extra={"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "SIMPLE", "hoodie.bucket.index.num.buckets": nb, "hoodie.bucket.index.hash.field": "id"})


@case("log_only", W_ALL, "MOR, INMEMORY index: inserts go to log files, file groups without base file; later compaction of some; read-optimized must hide log-only groups")
def log_only(x, seed=42, mode="EVENT", compact=False):
    fuzz(x, mode=mode, seed=seed, nkeys=40, ndeltas=3, extra={"hoodie.index.type": "INMEMORY"})
    if compact:
        rnd = random.Random(seed)
        x.w([("id-%03d" % i, ("a", "b")[i % 2], OT["long"][1](rnd.randint(1, 9)), 7000 + i, "c", False) for i in range(0, 40, 3)], o={"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"})
        x.w([("id-%03d" % i, ("a", "b")[i % 2], OT["long"][1](rnd.randint(1, 9)), 8000 + i, "e", False) for i in range(0, 40, 4)])


@case("delete_all_reinsert", W_69, "MOR: every row of a partition deleted, some inserted again; duplicates from insert operation (same key twice in a table)")
def del_reinsert(x):
    x.mode("COMMIT")
    x.schema = S_DDL
    x.base["hoodie.merge.allow.duplicate.on.inserts"] = "true"
    x.base["hoodie.datasource.insert.dup.policy"] = "none"
    x.w(rows(range(12), 5, 0), op="bulk_insert", o={"hoodie.combine.before.insert": "false"})
    x.w(rows([1, 3, 5, 1], 6, 100, w="dup"), op="bulk_insert", o={"hoodie.combine.before.insert": "false"})
    x.w(rows([1, 3], 7, 200, w="upd"))
    x.w(rows(range(0, 12, 2), 8, 0), op="delete")
    x.w(rows([0, 2], 9, 300, w="re"))


@case("cow_mixed", W_69, "COW: inserts, updates, deletes, is_deleted, insert_overwrite; time travel", ttype=COW)
def cow_mixed(x, seed=51, mode="EVENT"):
    fuzz(x, mode=mode, seed=seed, nkeys=40, ndeltas=3)
