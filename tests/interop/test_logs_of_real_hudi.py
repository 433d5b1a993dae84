"""Log compactions, partial updates and delete markers in tables that Hudi 1.2.0 wrote."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import penstock

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

COLUMNS = (("id", "c0"), ("p", "'x'"), ("ts", "c1"), ("v", "c2"))
OPTIONS = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.metadata.enable": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.insert.shuffle.parallelism": "1",
}
LOG_COMPACTION = {
    "hoodie.log.compaction.inline": "true",
    "hoodie.log.compaction.enable": "true",
    "hoodie.log.compaction.blocks.threshold": "2",
    "hoodie.optimized.log.blocks.scan.enable": "true",
    "hoodie.log.record.reader.use.scanV2": "true",
}
COMPACTION = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLUSTERING = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


def options(name: str, **more: str) -> dict[str, str]:
    return {**OPTIONS, "hoodie.table.name": name, **more}


def row_values(rows: pa.Table, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    return sorted((tuple(row[name] for name in columns) for row in rows.to_pylist()), key=repr)


def test_ranges_over_rows_that_a_log_compaction_stamped(hudi: Any, tmp_path: pathlib.Path) -> None:
    """Each write numbers its rows, so that a row identifies its writer independently of `_hoodie_commit_time`."""
    table = tmp_path / "stamped"
    writes: list[tuple[range, dict[str, str]]] = [
        (range(10), {}),
        (range(6), {}),
        (range(4, 8), LOG_COMPACTION),
        (range(7, 9), COMPACTION),
        (range(1), {}),
        (range(1, 3), LOG_COMPACTION),
        (range(3, 4), COMPACTION),
        (range(8, 9), CLUSTERING),
        (range(9, 10), {}),
    ]
    data: list[str] = []
    for number, (keys, services) in enumerate(writes):
        rows = [[f"k{key}", number, number] for key in keys]
        operation = {"hoodie.datasource.write.operation": "insert"} if not number else {}
        done = hudi.write(table, COLUMNS, rows, {**options("stamped"), **services, **operation})
        data.append(str(done[0][1]))
    assert [action for _, _, action in hudi.instants(table)].count("commit") == 2, "two compactions"
    stamps = set(penstock.read(str(table)).read_all()["_hoodie_commit_time"].to_pylist())
    services = {requested for requested, completed, _ in hudi.instants(table) if completed not in data}
    assert stamps & services, "a log compaction has stamped rows"
    last = {key: number for number, (keys, _) in enumerate(writes) for key in keys}
    for after, upto in itertools.combinations(range(len(writes)), 2):
        actual = penstock.read(str(table), query="incremental", after=data[after], upto=data[upto]).read_all()
        state = {key: number for number, (keys, _) in enumerate(writes[: upto + 1]) for key in keys}
        expected = sorted((f"k{key}", number) for key, number in state.items() if number > after)
        assert row_values(actual, ("id", "v")) == expected, (after, upto)
    assert row_values(penstock.read(str(table)).read_all(), ("id", "v")) == sorted(
        (f"k{k}", n) for k, n in last.items()
    )


@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_partial_blocks_in_a_table_with_a_partial_mode(hudi: Any, tmp_path: pathlib.Path, mode: str) -> None:
    """Hudi's MERGE INTO writes no partial blocks there: the test sets the mode afterwards."""
    name = f"partial_{mode[:5].lower()}"
    table = tmp_path / name
    columns = (("id", "c0"), ("p", "'x'"), ("ts", "c1"), ("a", "cast(c2 as int)"), ("b", "cast(c3 as string)"),
               ("c", "cast(c4 as string)"))  # fmt: skip
    settings = options(name, **{"hoodie.write.record.merge.mode": mode})
    insert = {**settings, "hoodie.datasource.write.operation": "insert"}
    hudi.write(table, columns, [[f"k{i}", 5, i, f"b{i}", f"c{i}"] for i in range(8)], insert)
    first = [["k0", 6, None, "up", None], ["k1", 6, 100, None, "?"], ["k2", 4, None, "late", None]]
    hudi.write(table, columns, [*first, ["k3", 6, None, "z", None]], settings)
    hudi.write(table, columns, [["k3", 5, 77, None, "w"], ["k0", 7, None, None, "q"]], settings)
    hudi.call(f"create table {name} using hudi location '{table}'")
    of_session = {key: value for key, value in settings.items() if key != "hoodie.table.name"}
    rows = "('k0', 8L, 200), ('k1', 7L, cast(null as int)), ('k3', 4L, 9), ('k4', 7L, cast(null as int))"
    merge = (
        f"merge into {name} t using (select * from values {rows} as v(id, ts, a)) s on t.id = s.id "
        "when matched then update set a = s.a, ts = s.ts"
    )
    hudi.script({**of_session, "hoodie.spark.sql.merge.into.partial.updates": "true"}, [merge])
    hudi.write(table, columns, [["k4", 8, None, "up2", None], ["k5", 6, None, None, "?"]], settings)
    properties = table / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.table.partial.update.mode=IGNORE_DEFAULTS\n")
    for copy in (table / ".hoodie").glob(".hoodie.properties*.crc"):
        copy.unlink()
    names = ("id", "ts", "a", "b", "c", "_hoodie_commit_time")
    assert row_values(penstock.read(str(table)).read_all(), names) == row_values(hudi.read(table), names)


@pytest.mark.parametrize(
    ("kind", "value", "marks"),
    [
        ("double", "1e-4", ["1.0E-4", "0.0001"]),
        ("float", "0.1", ["0.1"]),
        ("decimal(20, 10)", "0.0000000001", ["1E-10", "0.0000000001"]),
        ("date", "2020-01-01", ["18262", "2020-01-01"]),
        ("timestamp", "2020-01-01", ["1577836800000000", "1577836800000"]),
    ],
)
def test_delete_markers_are_java_texts(
    hudi: Any, tmp_path: pathlib.Path, kind: str, value: str, marks: list[str]
) -> None:
    name = "marked_" + re.sub(r"\W", "", kind)
    table = tmp_path / name
    columns = (("id", "c0"), ("p", "'x'"), ("ts", "c1"), ("m", f"cast(c2 as {kind})"))
    insert = {"hoodie.datasource.write.operation": "insert"}
    hudi.write(table, columns, [[key, 1, None] for key in ("k0", "k1")], options(name, **insert))
    hudi.write(table, columns, [["k0", 2, value]], options(name))
    for mark in marks:
        theirs = hudi.read(table, hoodie__payload__delete__field="m", hoodie__payload__delete__marker=mark)
        ours = penstock.read(str(table), deleteField="m", deleteMarker=mark).read_all()
        assert row_values(ours, ("id", "ts")) == row_values(theirs, ("id", "ts"))
