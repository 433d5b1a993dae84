"""Scenarios of family A: merges by ordering value and payload class, deletes, block formats."""
import datetime as dt, random
from case_context import D, DEFAULT, PKG, W_1X, W_69, W_ALL, case

# ---------------------------------------------------------------- value makers
T0 = dt.datetime(2024, 1, 1)
OT = {
    "int": ("int", lambda r: r * 10),
    "long": ("bigint", lambda r: 1_700_000_000_000 + r),
    "double": ("double", lambda r: r * 1.25),
    "float": ("float", lambda r: r * 0.5),
    "string": ("string", lambda r: "s%02d" % r),
    "strnum": ("string", lambda r: str(r * 4)),
    "timestamp": ("timestamp", lambda r: T0 + dt.timedelta(hours=r, microseconds=r)),
    "date": ("date", lambda r: dt.date(2024, 1, 1) + dt.timedelta(days=r)),
    "decimal": ("decimal(12,3)", lambda r: D(r) * D("1.125")),
    "bigdec": ("decimal(30,6)", lambda r: D(10) ** 18 + D(r) / D(8)),
}


def merge_basic(x, mode=None, otype="long", parted=True):
    """Hand-made: every (lower, tie, higher) x (data, delete op, delete column) pair, log against base and log against log."""
    t, f = OT[otype]
    x.mode(mode)
    x.schema = f"id string, p string, ts {t}, v int, _hoodie_is_deleted boolean"
    ks = ["k%02d" % i for i in range(24)]
    x.w([(k, "a", f(5), i, False) for i, k in enumerate(ks)], op="insert")

    def up(rows):
        return x.w([(ks[k], "a", f(r), v, d) for k, r, v, d in rows])
    i1 = up([(0, 3, 100, False), (1, 5, 101, False), (2, 7, 102, False),
             (3, 3, 103, True), (4, 5, 104, True), (5, 7, 105, True),
             (6, 7, 106, False), (7, 3, 107, False), (8, 9, 108, False), (9, 9, 109, True), (10, 7, 110, True)])
    x.w([(ks[k], "a", f(r), None, False) for k, r in [(11, 3), (12, 5), (13, 7), (14, 7)]], op="delete")
    i2 = up([(6, 6, 206, False), (7, 6, 207, False), (8, 9, 208, False), (9, 8, 209, False), (10, 8, 210, False),
             (13, 3, 213, False), (14, 9, 214, False), (15, 8, 215, False), (16, 8, 216, False), (17, 2, 217, True), (18, 2, 218, False)])
    x.w([(ks[k], "a", f(r), None, False) for k, r in [(15, 6), (16, 9), (18, 9)]], op="delete")
    up([(17, 4, 317, False), (18, 5, 318, False), (15, 7, 315, False), (19, 1, 319, False)])
    x.tt(i1)
    x.tt(i2)


def fuzz(x, mode=None, otype="long", seed=1, nkeys=60, ndeltas=5, delop=True, delcol=True, parts=("a", "b"), extra=None, ranks=9):
    """Random upserts and deletes with many ordering ties and reversals."""
    t, f = OT[otype]
    x.mode(mode)
    x.base.update(extra or {})
    rnd = random.Random(seed)
    x.schema = f"id string, p string, ts {t}, v int, w string, _hoodie_is_deleted boolean"
    ks = ["id-%03d" % i for i in range(nkeys)]
    part = {k: parts[i % len(parts)] for i, k in enumerate(ks)}
    first = [k for i, k in enumerate(ks) if i % 5]
    x.w([(k, part[k], f(rnd.randint(2, ranks - 2)), n, "base", False) for n, k in enumerate(first)], op="insert")
    ins = []
    for d in range(1, ndeltas + 1):
        ch = sorted(rnd.sample(ks, nkeys * 2 // 5))
        rows = []
        for k in ch:
            isd = delcol and rnd.random() < 0.15
            rows.append((k, part[k], f(rnd.randint(1, ranks)), d * 1000 + int(k[3:]), None if rnd.random() < 0.1 else f"d{d}", isd))
        ins.append(x.w(rows))
        if delop and d % 2 == 1:
            ch = sorted(rnd.sample(ks, nkeys // 6))
            x.w([(k, part[k], f(rnd.randint(1, ranks)), None, None, False) for k in ch], op="delete")
    x.tt(ins[ndeltas // 2])


def reg_merge(name, writers, what, fn, **kw):
    case(name, writers, what, **kw)(fn)


M_WHAT = "MOR, {}: log-base and log-log conflicts with lower / equal / higher ordering value, deletes by operation and by _hoodie_is_deleted, inserts after deletes. Wrong tie, delete or ordering rule gives other rows."
reg_merge("merge_event_long", W_ALL + [("1.0.2", 6), ("1.2.0", 8)], M_WHAT.format("event-time ordering (v6: DefaultHoodieRecordPayload), long ordering field"), merge_basic, mode="EVENT")
reg_merge("merge_commit_long", W_ALL + [("1.0.2", 6)], M_WHAT.format("commit-time ordering (v6: OverwriteWithLatestAvroPayload) with an ordering field configured"), merge_basic, mode="COMMIT")
reg_merge("merge_default_opts", W_1X, M_WHAT.format("nothing chosen by the writer (release defaults)"), merge_basic)
for _ot, _ws in [("timestamp", W_69), ("date", [("0.15.0", 6)]), ("decimal", W_69), ("string", [("0.15.0", 6), ("1.2.0", 9)]),
                 ("int", [("1.2.0", 9)]), ("double", [("1.0.2", 8)])]:
    reg_merge(f"merge_event_{_ot}", _ws, M_WHAT.format(f"event-time ordering, {_ot} ordering field"), merge_basic, mode="EVENT", otype=_ot)
reg_merge("fuzz_event_long_s1", W_ALL, "MOR, event time, random stream of upserts/deletes with ties (seed 1), 2 partitions.", fuzz, mode="EVENT", seed=1)
reg_merge("fuzz_commit_long_s1", W_ALL, "MOR, commit time, same random stream (seed 1), 2 partitions.", fuzz, mode="COMMIT", seed=1)
reg_merge("fuzz_event_string_s3", [("1.2.0", 9), ("0.15.0", 6)], "MOR, event time, number-like strings as ordering value: '12' < '4' must compare as text.", fuzz, mode="EVENT", seed=3, otype="strnum")


@case("merge_null_ordering", W_ALL, "MOR, event time: null ordering values in log and base against set ones (null must lose; ties of null take the newer)")
def merge_null(x, otype="long", mode="EVENT"):
    t, f = OT[otype]
    x.mode(mode)
    x.schema = f"id string, p string, ts {t}, v int"
    x.w([("a", "x", f(5), 1), ("b", "x", f(5), 2), ("c", "x", f(5), 3), ("z", "x", f(5), 26)], op="insert")
    for rows in ([("a", "x", None, 11), ("c", "x", f(9), 13)], [("c", "x", None, 23), ("b", "x", f(7), 22)],
                 [("d", "x", None, 4)], [("d", "x", f(1), 14)], [("e", "x", None, 5)], [("e", "x", None, 15)]):
        try:
            x.w(rows)
        except Exception as e:
            x.steps.append("upsert %r -> writer error: %s" % (rows, str(e).split("\n")[0][:200]))
            x.notes.append("writer refuses null ordering values")
    x.w([("z", "x", f(6), 27)])


@case("merge_custom_delete", [("0.15.0", 6), ("1.0.2", 8), ("1.2.0", 9)], "MOR, event time: custom delete marker (hoodie.payload.delete.field/marker): a row with op='D' deletes; lower-ordered marker rows must not; upper/lower case counts")
def merge_custom_delete(x, mode=None):
    x.base["hoodie.datasource.write.payload.class"] = DEFAULT
    x.base["hoodie.payload.delete.field"] = "op"
    x.base["hoodie.payload.delete.marker"] = "D"
    x.schema = "id string, p string, ts bigint, v int, op string"
    x.w([(f"k{i}", "x", 5, i, "I") for i in range(8)], op="insert")
    x.w([("k0", "x", 3, 10, "D"), ("k1", "x", 5, 11, "D"), ("k2", "x", 7, 12, "D"), ("k3", "x", 9, 13, "d"), ("k4", "x", 9, 14, "D")])
    x.w([("k2", "x", 6, 22, "U"), ("k4", "x", 9, 24, "U"), ("k5", "x", 6, 25, None), ("k6", "x", 8, 26, "U")])
    x.w([("k6", "x", 7, 36, "D"), ("k5", "x", 8, 35, "D")])
    x.q("snapshot_opts", "snapshot", "reader given hoodie.payload.delete.* options", **{"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D",
        "hoodie.datasource.write.payload.class": DEFAULT})


@case("merge_multi_ordering", [("1.2.0", 9)], "MOR, event time with two ordering fields (hoodie.table.ordering.fields=ts,seq): tuple comparison, deletes carry an ArrayWrapper")
def merge_multi(x, a="bigint", b="string"):
    x.mode("EVENT")
    x.base["hoodie.datasource.write.precombine.field"] = "ts,seq"
    x.base["hoodie.table.ordering.fields"] = "ts,seq"
    x.schema = f"id string, p string, ts {a}, seq {b}, v int, _hoodie_is_deleted boolean"
    fa = (lambda r: r) if a == "bigint" else OT[a][1]
    fb = (lambda r: "s%02d" % r) if b == "string" else (lambda r: r)
    x.w([(f"k{i:02d}", "x", fa(5), fb(5), i, False) for i in range(14)], op="insert")
    x.w([(f"k{i:02d}", "x", fa(p), fb(q), 100 + i, d) for i, p, q, d in
         [(0, 5, 4, False), (1, 5, 5, False), (2, 5, 6, False), (3, 4, 9, False), (4, 6, 1, False),
          (5, 5, 4, True), (6, 5, 5, True), (7, 6, 0, True), (8, 6, 1, False), (9, 5, 6, False)]])
    x.w([(f"k{i:02d}", "x", fa(p), fb(q), None, False) for i, p, q in [(8, 6, 0), (9, 5, 7), (10, 5, 4), (11, 5, 6)]], op="delete")
    x.w([(f"k{i:02d}", "x", fa(p), fb(q), 300 + i, False) for i, p, q in [(7, 5, 9), (9, 5, 6), (11, 5, 5), (6, 5, 5)]])


@case("payload_partial_update", W_ALL, "MOR, PartialUpdateAvroPayload (v9: event time + IGNORE_DEFAULTS): nulls in the newer record keep the older value; an older (lower-ordered) record fills gaps of the newer one")
def payload_partial(x, cls="PartialUpdateAvroPayload"):
    x.base["hoodie.datasource.write.payload.class"] = PKG + cls
    x.schema = "id string, p string, ts bigint, a int, b string, c double, f boolean, l array<int>, _hoodie_is_deleted boolean"
    N = None
    x.w([(f"k{i}", "x", 5, i, f"b{i}", float(i), True, [1, 2], False) for i in range(12)], op="insert")
    x.w([("k0", "x", 6, N, "n", N, N, N, False), ("k1", "x", 4, 11, N, 11.5, False, N, False), ("k2", "x", 5, N, N, 12.5, N, [9], False),
         ("k3", "x", 7, 0, "", 0.0, False, [], False), ("k4", "x", 7, N, N, N, N, N, False), ("k5", "x", 7, N, N, N, N, N, True), ("k10", "x", 8, N, "z", N, N, N, False)])
    x.w([("k0", "x", 7, 70, N, N, False, N, False), ("k1", "x", 8, N, "late", N, N, N, False), ("k4", "x", 6, 94, "old", N, N, N, False), ("k5", "x", 8, 5, N, N, N, N, False), ("k6", "x", 6, N, N, N, N, N, False), ("k7", "x", 6, N, N, N, N, N, True)])
    x.w([("k7", "x", 7, N, "re", N, N, N, False), ("k8", "x", 9, 0, N, 8.5, N, N, False), ("k10", "x", 7, 10, "low", N, False, [3], False)])


@case("payload_nondefaults", [("0.15.0", 6), ("1.2.0", 9)], "MOR, OverwriteNonDefaultsWithLatestAvroPayload (v9: commit time + IGNORE_DEFAULTS)")
def payload_nondefaults(x):
    payload_partial(x, "OverwriteNonDefaultsWithLatestAvroPayload")


@case("payload_awsdms", W_69, "MOR, AWSDmsAvroPayload: Op='D' deletes")
def payload_dms(x):
    x.base["hoodie.datasource.write.payload.class"] = "org.apache.hudi.common.model.AWSDmsAvroPayload"
    x.schema = "id string, p string, ts bigint, v int, Op string"
    x.w([(f"k{i}", "x", 5, i, "I") for i in range(7)], op="insert")
    x.w([("k0", "x", 3, 10, "D"), ("k1", "x", 6, 11, "D"), ("k2", "x", 7, 12, "d"), ("k3", "x", 9, 13, "U"), ("k4", "x", 2, 14, "U")])
    x.w([("k1", "x", 5, 21, "U"), ("k3", "x", 4, 23, "D"), ("k5", "x", 9, 25, None)])


def merge_into(x, fmt=None, mode=None, parted=True, seed=0):
    """SQL MERGE INTO with a partial column set -> partial-update log blocks."""
    x.mode(mode)
    x.schema = "id string, p string, ts bigint, price double, name string, n int"
    o = {}
    if fmt:
        o["hoodie.logfile.data.block.format"] = fmt
    x.base.update(o)
    x.w([(f"k{i:02d}", "x" if i % 2 else "y", 5, 1.5 * i, f"name{i}", i) for i in range(16)], op="insert")
    t = x.reg()
    for k, v in x.base.items():
        if k.startswith("hoodie.") and k not in ("hoodie.table.name",):
            x.spark.sql(f"set {k}={v}")
    x.spark.sql("set hoodie.spark.sql.merge.into.partial.updates=true")

    def m(rows, sets):
        vals = ", ".join(f"('{k}', {p}, {ts}, {pr})" for k, p, ts, pr in rows)
        x.sql(f"merge into {t} t using (select id, p, cast(ts as bigint) ts, cast(price as double) price from values {vals} as v(id, p, ts, price)) s on t.id = s.id when matched then update set {sets}")
    m([(f"k{i:02d}", "'x'" if i % 2 else "'y'", 6, 100 + i + seed) for i in range(0, 6)], "price = s.price, ts = s.ts")
    i1 = x.last()
    m([(f"k{i:02d}", "'x'" if i % 2 else "'y'", 4, 200 + i + seed) for i in range(4, 9)], "price = s.price, ts = s.ts")
    x.w([("k02", "y", 7, -2.0, None, 702), ("k05", "x", 9, -5.0, "full", None), ("k10", "y", 9, -10.0, "full10", 710)])
    m([(f"k{i:02d}", "'x'" if i % 2 else "'y'", 8, 300 + i + seed) for i in (2, 5, 10, 11)], "price = s.price, n = cast(s.price as int) + 1000, ts = s.ts")
    x.w([("k11", "x", 0, 0.0, None, 0), ("k12", "y", 1, 0.0, None, 0)], op="delete")
    m([(f"k{i:02d}", "'x'" if i % 2 else "'y'", 9, 400 + i + seed) for i in (0, 11, 13)], "name = concat('nm', s.id), ts = s.ts")
    x.tt(i1)
    for k in x.base:
        x.spark.sql(f"reset {k}") if k.startswith("hoodie.") else None


reg_merge("merge_into_partial", W_1X, "MOR, SQL MERGE INTO updating some columns only (partial-update log blocks, IS_PARTIAL header), then full upserts, deletes and more partial updates in the same slices", merge_into, mode="EVENT")
reg_merge("merge_into_partial_commit", [("1.2.0", 9)], "the same in commit-time ordering", merge_into, mode="COMMIT")
reg_merge("merge_into_partial_parquet", [("1.2.0", 9)], "the same with parquet log blocks", merge_into, mode="EVENT", fmt="parquet")

@case("payload_postgres", W_69, "MOR, PostgresDebeziumAvroPayload (v9: event time by _event_lsn + FILL_UNAVAILABLE): '__debezium_unavailable_value' keeps the older text, 'd' deletes, older LSN loses")
def payload_postgres(x):
    x.base["hoodie.datasource.write.payload.class"] = PKG + "debezium.PostgresDebeziumAvroPayload"
    x.base["hoodie.datasource.write.precombine.field"] = "_event_lsn"
    x.schema = "id string, p string, _event_lsn bigint, _change_operation_type string, v int, txt string, n string"
    U = "__debezium_unavailable_value"
    x.w([(f"k{i}", "x", 5, "c", i, f"long{i}", f"n{i}") for i in range(9)], op="insert")
    x.w([("k0", "x", 6, "u", 10, U, None), ("k1", "x", 4, "u", 11, "older", "o"), ("k2", "x", 7, "d", 12, U, None), ("k3", "x", 4, "d", 13, U, None), ("k4", "x", 5, "u", 14, "tie", U), ("k6", "x", 8, "u", 16, U, U)])
    x.w([("k0", "x", 7, "u", 20, U, "late"), ("k2", "x", 6, "u", 22, "back", None), ("k1", "x", 8, "u", 21, U, U), ("k5", "x", 6, "u", 25, None, U), ("k6", "x", 7, "u", 26, "fills", "gap"), ("k7", "x", 9, "d", 0, None, None)])
    x.w([("k7", "x", 10, "c", 37, U, "again"), ("k4", "x", 6, "d", 34, U, None)])


@case("payload_mysql", W_69, "MOR, MySqlDebeziumAvroPayload: order by binlog file and position (v6: _event_seq 'file.pos' by numeric parts; v9: two ordering fields), 'd' deletes")
def payload_mysql(x):
    x.base["hoodie.datasource.write.payload.class"] = PKG + "debezium.MySqlDebeziumAvroPayload"
    x.base["hoodie.datasource.write.precombine.field"] = "_event_seq" if x.tv < 9 else "_event_bin_file,_event_pos"
    x.schema = "id string, p string, _event_bin_file string, _event_pos bigint, _event_seq string, _change_operation_type string, v int"

    def r(k, f, pos, op, v):
        return (k, "x", "mysql-bin.%06d" % f, pos, f"{f:06d}.{pos}", op, v)
    x.w([r(f"k{i}", 2, 50, "c", i) for i in range(8)], op="insert")
    x.w([r("k0", 2, 9, "u", 10), r("k1", 2, 100, "u", 11), r("k2", 3, 1, "u", 12), r("k3", 1, 900, "u", 13), r("k4", 2, 100, "d", 14), r("k5", 2, 9, "d", 15)])
    x.w([r("k1", 2, 99, "u", 21), r("k2", 2, 999, "u", 22), r("k4", 2, 60, "u", 24), r("k6", 10, 1, "u", 26)])
    x.w([r("k6", 9, 500, "u", 36), r("k7", 2, 50, "u", 37)])
