"""Random histories of golden tables: from a seed, the operations. Pure but for `run`.

Operations that Hudi 1.2.0 never supports are not drawn. It still fails for some seeds of bootstrapped tables. Rows are (id, ts, v, p); late rows have a `ts` below stored ones.
"""
import random

PARTITIONS = ("x", "y", "z")
LENGTH = 12
WEIGHTS = {"upsert": 5, "insert": 1.5, "delete": 2.5, "bulk_insert": 1, "overwrite": 0.8, "drop": 0.4, "compact": 2.5, "cluster": 1.5,
           "rollback": 0.8, "evolve": 1}


def history(seed, merge_on_read, version, index, first=(), without=()):
    """The operations: (operation, rows, number of schema changes so far). `first`: the rows of the first one, an insert.
    `without`: operations that are not drawn."""
    draw = random.Random(seed)
    homes, operations, clock, value, changes = {key: p for key, _, _, p in first}, [], 10, len(first), 0
    def rows(count, fresh=0.3, late=0.2):
        nonlocal value
        chosen = {}
        for _ in range(count):
            if not homes or draw.random() < fresh:
                homes["k%d" % len(homes)] = draw.choice(PARTITIONS)
                key = "k%d" % (len(homes) - 1)
            else: key = draw.choice(sorted(homes))
            value += 1
            ts = draw.randint(1, clock - 1) if draw.random() < late else clock + draw.randint(0, 2)
            moves = index != "BUCKET" and draw.random() < 0.06  # to another partition, as a row of its own
            chosen[key] = (key, ts, 0 if draw.random() < 0.1 else value, draw.choice(PARTITIONS) if moves else homes[key])
        return list(chosen.values())
    def possible():
        last = operations[-1][0]
        return {"compact": merge_on_read and last != "compact", "cluster": index == "SIMPLE" and last != "cluster", "evolve": not changes,
                "rollback": version == 9 and last in ("upsert", "insert", "delete") and len(operations) > 2,
                "bulk_insert": index == "SIMPLE", "overwrite": index == "SIMPLE", "drop": index == "SIMPLE"}
    operations.append(("insert", list(first) or rows(8, fresh=1), 0))
    while len(operations) < LENGTH:
        clock += draw.randint(1, 4)
        allowed = possible()
        kinds = {kind: weight for kind, weight in WEIGHTS.items() if allowed.get(kind, True) and kind not in without}
        kind = draw.choices(list(kinds), weights=list(kinds.values()))[0]
        changes += kind == "evolve"
        if kind in ("compact", "cluster", "rollback"): of = []
        elif kind == "drop": of = [("-", 0, 0, draw.choice(PARTITIONS))]
        else: of = rows(draw.randint(1, 6), fresh={"insert": 1, "bulk_insert": 1, "delete": 0.05}.get(kind, 0.3), late=0.2)
        operations.append((kind, of, changes))
    return operations


def run(case, operations, data):
    """Runs the operations in Hudi. `data`: rows and number of schema changes to a DataFrame."""
    written = []
    for kind, rows, changes in operations:
        text = "%s %s" % (kind, rows)
        if kind == "compact": case.compact()
        elif kind == "cluster": case.cluster()
        elif kind == "rollback":
            newest, name = written.pop(), case.name.lower()
            case.env.spark.sql("DROP TABLE IF EXISTS %s" % name)
            case.env.spark.sql("CREATE TABLE %s USING hudi LOCATION '%s'" % (name, case.base))
            case.call("CALL rollback_to_instant(table => '%s', instant_time => '%s')" % (name, newest), "rollback of the newest commit")
        elif kind == "drop":
            case.write("delete_partition", None, text=text, df=data(rows, changes), o={"hoodie.datasource.write.partitions.to.delete": "p=%s" % rows[0][3]})
        else:
            operation = {"evolve": "upsert", "overwrite": "insert_overwrite"}.get(kind, kind)
            written += [i[0] for i in case.write(operation, None, text=text, df=data(rows, changes))]
