"""How a writer damages a table, as real Hudi judges it: tables of Penstock that Hudi indexes, compacts, clusters,
cleans, upgrades and rolls back.

The numbers are those of the traps in `test_traps_of_timeline.py`, `test_traps_of_files.py` and `test_traps_of_rows.py`
of `tests/unit/engine/write`.
"""

from __future__ import annotations

import datetime
import decimal
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.engine.write.write import write
from penstock.proto.errors import WriteConflict
from tests.interop.hudi_options import hudis_options, service_call
from tests.unit.engine.write.killed_storage import Killed, KilledStorage, as_other_process
from tests.unit.engine.write.recorded_storage import SCHEMA, Lake, Row, arrow, rows_of, upserted

pytestmark = [pytest.mark.interop, pytest.mark.exhaustive, pytest.mark.timeout(900)]

COLUMNS = (("id", "c0"), ("seq", "c1"), ("city", "c2"), ("_hoodie_is_deleted", "false"))
FIRST: list[Row] = [(f"k{n}", 1, "oslo" if n % 2 else "riga") for n in range(12)]
SECOND: list[Row] = [("k1", 2, "oslo"), ("k2", 2, "riga"), ("new", 2, "oslo")]
THIRD: list[Row] = [("k1", 3, "oslo"), ("k3", 3, "oslo"), ("k4", 3, "riga"), ("newer", 3, "oslo")]

both_versions = pytest.mark.parametrize("version", [9, 6])


class Trip:
    """A table that Penstock creates, and Hudi writes too."""

    def __init__(self, hudi: Any, path: pathlib.Path, version: int, kind: str, index: str) -> None:
        self.hudi, self.path = hudi, path
        self.options = hudis_options(version, kind, index)
        create_table(
            str(path),
            SCHEMA,
            record_key="id",
            partition_by="city",
            ordering="seq",
            table_type=kind,
            table_version=version,
            index=index,
            buckets=3 if index == "bucket" else None,
        )

    def write(self, rows: Sequence[Row], operation: str = "upsert", **options: Any) -> penstock.WriteResult:
        return write(str(self.path), arrow(rows), operation, **options)

    def hudi_writes(self, rows: Sequence[Row], **options: str) -> None:
        more = {name.replace("__", "."): value for name, value in options.items()}
        self.hudi.write(self.path, COLUMNS, rows, self.options | more)

    def service(self, name: str, step: str, **options: str) -> None:
        more = {name.replace("__", "."): value for name, value in options.items()}
        self.hudi.call(service_call(name, step, self.path, self.options | more))

    def check(self, rows: Sequence[Row], what: str) -> None:
        assert rows_of(penstock.read(str(self.path)).read_all()) == sorted(rows), f"{what}: Penstock"
        assert rows_of(self.hudi.read(self.path)) == sorted(rows), f"{what}: Hudi"


@pytest.mark.parametrize(("version", "kind"), [(9, "merge_on_read"), (6, "copy_on_write")])
def test_trap_07_bloom_index_of_hudi_finds_the_keys_of_base_files(
    hudi: Any, tmp_path: pathlib.Path, version: int, kind: str
) -> None:
    """The table records no index, as those that Hudi creates. Log-only groups (trap 08) would repeat keys here."""
    trip = Trip(hudi, tmp_path / "trip", version, kind, "simple")
    properties = trip.path / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("hoodie.index.type=SIMPLE\n", ""))
    keys = ["é", "ﬀ", "\U0001f600", "z" * 200, "a:b", *(f"k{n}" for n in range(50))]
    trip.write([(key, 1, "oslo") for key in keys], index="simple")
    trip.write([(key, 2, "oslo") for key in keys[:8]], index="simple")
    rows = [(key, 3, "oslo") for key in [*keys[:20], "another"]]
    trip.hudi_writes(rows, hoodie__index__type="BLOOM")
    trip.check(upserted([(key, 1, "oslo") for key in keys], rows), "upsert with a bloom index")


@pytest.mark.parametrize(("version", "index"), [(9, "bucket"), (9, "simple"), (6, "bucket")])
def test_traps_09_and_29_write_while_a_compaction_is_pending(
    hudi: Any, tmp_path: pathlib.Path, version: int, index: str
) -> None:
    """A log of the slice that the compaction reads is not in its plan: its rows are lost with the slice."""
    trip = Trip(hudi, tmp_path / "trip", version, "merge_on_read", index)
    trip.write(FIRST)
    trip.write(SECOND)
    now = {"hoodie__compact__inline__max__delta__commits": "1"}
    trip.service("compaction", "schedule", **now)
    trip.write(THIRD)
    rows = upserted(upserted(FIRST, SECOND), THIRD)
    trip.check(rows, "upsert while a compaction is pending")
    trip.service("compaction", "execute", **now)
    trip.check(rows, "compaction of what was scheduled before")
    again = [("k1", 4, "oslo"), ("k5", 4, "oslo")]
    trip.write(again)
    trip.service("compaction", "scheduleAndExecute", **now)
    trip.check(upserted(rows, again), "second compaction")


@both_versions
def test_trap_14_hudi_goes_on_after_a_killed_write(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    """Once Hudi rolls the killed write back, once Penstock, on which Hudi goes on."""
    trip = Trip(hudi, tmp_path / "trip", version, "merge_on_read", "bucket")
    trip.write(FIRST)
    rows: Sequence[Row] = FIRST
    for step, goes_on in ((9, trip.hudi_writes), (11, trip.write)):
        with monkeypatch.context() as patch:
            as_other_process(patch)
            killed = KilledStorage(trip.path, step, after=True)
            patch.setattr("penstock.engine.write.planned_write.open_writable", lambda path, killed=killed: killed)
            with pytest.raises(Killed):
                trip.write([("k1", 100, "oslo"), ("lost", 100, "riga")])
        newer = [("k1", step, "oslo"), (f"after{step}", 1, "riga")]
        goes_on(newer)
        rows = upserted(rows, newer)
        trip.check(rows, "a write after a killed one")
    trip.hudi_writes([("k0", 20, "riga")])
    trip.check(upserted(rows, [("k0", 20, "riga")]), "upsert by Hudi after both")


@pytest.mark.parametrize(("version", "kind"), [(9, "merge_on_read"), (6, "copy_on_write")])
def test_trap_15_hudi_rolls_a_running_write_back(
    hudi: Any, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, version: int, kind: str
) -> None:
    lake = Lake(tmp_path / "trip", (version, kind, "bucket"), monkeypatch)
    options = hudis_options(version, kind, "bucket") | {"hoodie.bucket.index.num.buckets": "2"}
    lake.write(FIRST)
    files = lake.files()

    def hudi_writes(method: str, path: str) -> None:
        if method == "new_file" and "riga" in path:
            lake.storage.before = lambda method, path: None
            hudi.write(lake.path, COLUMNS, [("k5", 5, "oslo")], options)

    lake.storage.before = hudi_writes
    with pytest.raises(WriteConflict):
        lake.write(SECOND)
    rows = upserted(FIRST, [("k5", 5, "oslo")])
    assert lake.rows() == rows_of(hudi.read(lake.path)) == rows
    instants = {name for name, _, _ in hudi.instants(lake.path)}
    new = [file for file in lake.files() - files if file.endswith(".parquet")]
    assert all(any(name in file for name in instants) for file in new)
    lake.write(THIRD)
    assert lake.rows() == rows_of(hudi.read(lake.path)) == upserted(rows, THIRD)


@both_versions
def test_trap_19_hudi_cleans_the_files_of_rewritten_groups(hudi: Any, tmp_path: pathlib.Path, version: int) -> None:
    trip = Trip(hudi, tmp_path / "trip", version, "copy_on_write", "bucket")
    rows: Sequence[Row] = FIRST
    trip.write(rows)
    clean = {"hoodie__clean__automatic": "true", "hoodie__clean__commits__retained": "1"}
    trip.hudi_writes([("first", 1, "bern")], **clean)
    rows = upserted(rows, [("first", 1, "bern")])
    for seq in range(2, 6):
        newer = [(key, seq, city) for key, _, city in FIRST]
        trip.write(newer)
        rows = upserted(rows, newer)
    before = len(list(trip.path.glob("oslo/*.parquet")))
    trip.hudi_writes([("last", 1, "bern")], **clean)
    assert len(list(trip.path.glob("oslo/*.parquet"))) < before
    trip.check(upserted(rows, [("last", 1, "bern")]), "clean by Hudi")


@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_trap_20_hudi_reads_an_added_column(hudi: Any, tmp_path: pathlib.Path, kind: str) -> None:
    trip = Trip(hudi, tmp_path / "trip", 9, kind, "bucket")
    trip.write(FIRST)
    wider = arrow(SECOND).append_column("added", pa.array([1.5, None, 2.5]))
    write(str(trip.path), wider)
    trip.write(THIRD)
    for table in (hudi.read(trip.path), penstock.read(str(trip.path)).read_all()):
        found = {row["id"]: row["added"] for row in table.to_pylist()}
        assert {key: value for key, value in found.items() if value is not None} == {"new": 2.5}
        assert len(found) == len(FIRST) + 2


ORDERINGS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "int": (pa.int32(), (5, 6, 4)),
    "float": (pa.float32(), (1.5, 2.25, -1e10)),
    "boolean": (pa.bool_(), (True, True, False)),
    "double": (pa.float64(), (1.5, 2.25, -1e10)),
    "string": (pa.string(), ("b", "c", "a")),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [datetime.datetime(2024, 1, day, 1, 2, 3, 4, datetime.UTC) for day in (5, 6, 4)],
    ),
    "decimal": (pa.decimal128(20, 4), [decimal.Decimal(text) for text in ("5.5000", "5.5001", "-6.0000")]),
}


@pytest.mark.parametrize(("name", "version"), [*((name, 9) for name in ORDERINGS if name != "string"), ("string", 6)])
def test_trap_22_deletes_have_ordering_values_of_the_columns_type(
    hudi: Any, tmp_path: pathlib.Path, version: int, name: str
) -> None:
    """A later delete wins, an earlier one loses, one without a value wins."""
    kind, (middle, late, early) = ORDERINGS[name]
    path = tmp_path / "t"
    schema = pa.schema([("id", pa.string()), ("o", kind), ("_hoodie_is_deleted", pa.bool_())])
    create_table(str(path), schema, record_key="id", ordering="o", table_version=version, buckets=1)

    def rows(values: dict[str, Any], deleted: bool) -> pa.Table:
        return pa.Table.from_pylist(
            [{"id": key, "o": value, "_hoodie_is_deleted": deleted} for key, value in values.items()], schema
        )

    write(str(path), rows(dict.fromkeys("abcd", middle), False))
    write(str(path), rows({"a": late, "b": early, "c": middle}, True))
    write(str(path), rows({"a": middle}, False))
    write(str(path), rows({"d": early}, False), "delete")
    left = ["a", "b"] if late == middle else ["b"]
    for table in (penstock.read(str(path)).read_all(), hudi.read(path)):
        assert sorted(table["id"].to_pylist()) == left


KEYS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "int": (["cast(7 as int)", "cast(-1 as int)"], ["k"]),
    "long": (["9007199254740993L", "0L"], ["k"]),
    "boolean": (["true", "false"], ["k"]),
    "double": (["1e10D", "cast('5e-324' as double)", "123456789.125D", "100D"], ["k"]),
    "date": (["date'2020-01-05'", "date'1969-12-31'"], ["k"]),
    "decimal": (["cast('1.50' as decimal(10,2))", "cast('-0.05' as decimal(10,2))"], ["k"]),
    "string": (["'a b'", "'é'", "'x%2F'"], ["k"]),
    "complex": (["'a'", "'b'", "''", "cast(null as string)"], ["k", "l"]),
    "single_complex": (["'a'", "'b'"], ["k"]),
    "nested": (["named_struct('x', 7, 'y', 'a b')", "named_struct('x', 8, 'y', 'é')"], ["k.y", "k.x", "l"]),
}


@pytest.mark.parametrize(("name", "version"), [*((name, 9) for name in KEYS), ("complex", 6)])
def test_trap_24_hudi_finds_the_keys_that_penstock_wrote(
    hudi: Any, tmp_path: pathlib.Path, version: int, name: str
) -> None:
    """A key of another text is another row."""
    values, keys = KEYS[name]
    path = tmp_path / "t"
    select = " union all ".join(f"select {value} k, 'l' l, {{seq}}L seq, 'p' p, 'q' q" for value in values)
    hudi.call(f"create or replace temporary view keys_{name} as {select.format(seq=1)}")
    rows = hudi.call(f"select {'to_json(k) k, l, seq, p, q' if name == 'nested' else '*'} from keys_{name}")
    types = {row["col_name"]: row["data_type"] for row in hudi.call(f"describe keys_{name}")}
    is_complex = name in ("complex", "single_complex", "nested")
    partitions = ["p", "q"] if is_complex else ["p"]
    schema = pa.schema(
        [("k", arrow_type(types["k"])), *((column, pa.string()) for column in "lpq"), ("seq", pa.int64())]
    )
    create_table(
        str(path), schema, record_key=keys, partition_by=partitions, ordering="seq", table_version=version, buckets=2
    )
    data = pa.Table.from_pylist([{**row, "k": of_json(row["k"], schema.field("k").type)} for row in rows], schema)
    write(str(path), data)
    generator = "ComplexKeyGenerator" if is_complex else "SimpleKeyGenerator"
    hudi.write_query(
        path,
        select.format(seq=2),
        hudis_options(version, "merge_on_read", "bucket")
        | {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.recordkey.field": ",".join(keys),
            "hoodie.datasource.write.partitionpath.field": ",".join(partitions),
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
            "hoodie.bucket.index.num.buckets": "2",
        },
    )
    stored = hudi.read(path)
    assert stored["seq"].to_pylist() == [2] * len(values)
    write(str(path), data.set_column(4, "seq", pa.array([3] * len(values))))
    for table in (hudi.read(path), penstock.read(str(path)).read_all()):
        assert table["seq"].to_pylist() == [3] * len(values)
        assert sorted(table["_hoodie_record_key"].to_pylist()) == sorted(stored["_hoodie_record_key"].to_pylist())


def arrow_type(name: str) -> pa.DataType:
    """The Arrow type of Spark's type."""
    plain = {
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "double": pa.float64(),
        "date": pa.date32(),
        "struct<x:int,y:string>": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    }
    return plain.get(name) or (pa.decimal128(10, 2) if name.startswith("decimal") else pa.string())


def of_json(value: Any, kind: pa.DataType) -> Any:
    """A value that crossed JSON."""
    if pa.types.is_date(kind):
        return datetime.date.fromisoformat(value)
    if pa.types.is_struct(kind):
        return json.loads(value)
    return decimal.Decimal(value) if pa.types.is_decimal(kind) else value


@both_versions
def test_trap_27_groups_of_a_pending_clustering_are_not_written(
    hudi: Any, tmp_path: pathlib.Path, version: int
) -> None:
    """The clustering replaces them, and with them an update of the meantime."""
    trip = Trip(hudi, tmp_path / "trip", version, "copy_on_write", "simple")
    oslo, riga = ([row for row in FIRST if row[2] == city] for city in ("oslo", "riga"))
    trip.write(oslo)
    trip.write(oslo[:3], "bulk_insert")
    only = {
        "hoodie__clustering__plan__strategy__partition__selected": "oslo",
        "hoodie__clustering__plan__partition__filter__mode": "NONE",
        "hoodie__clustering__inline__max__commits": "1",
    }
    trip.service("clustering", "schedule", **only)
    with pytest.raises(WriteConflict, match="pending clustering"):
        trip.write(SECOND)
    trip.write(riga)
    rows = [*oslo, *oslo[:3], *riga]
    trip.check(rows, "a write of another partition")
    trip.service("clustering", "execute", **only)
    trip.check(rows, "clustering by Hudi")
    trip.write([("k4", 9, "riga"), ("k11", 9, "oslo")])
    trip.check(upserted(rows, [("k4", 9, "riga"), ("k11", 9, "oslo")]), "a write after the clustering")


@pytest.mark.parametrize("kind", ["merge_on_read", "copy_on_write"])
def test_trap_31_table_that_hudi_upgraded_is_written_in_its_new_layout(
    hudi: Any, tmp_path: pathlib.Path, kind: str
) -> None:
    trip = Trip(hudi, tmp_path / "trip", 6, kind, "bucket")
    trip.write(FIRST)
    trip.write(SECOND)
    trip.hudi_writes([("k6", 5, "riga")], hoodie__write__table__version="9", hoodie__write__auto__upgrade="true")
    assert "hoodie.table.version=9" in (trip.path / ".hoodie" / "hoodie.properties").read_text()
    rows = upserted(upserted(FIRST, SECOND), [("k6", 5, "riga")])
    trip.check(rows, "upgrade to version 9 by Hudi")
    trip.write(THIRD)
    trip.check(upserted(rows, THIRD), "upsert after the upgrade")
    assert not list((trip.path / ".hoodie").glob("*commit*"))
