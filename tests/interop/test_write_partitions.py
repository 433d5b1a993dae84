"""Partitions of written tables: deleted ones, and the paths that key generators make, as real Hudi has them (trap 25: a
key of another path is another row)."""

from __future__ import annotations

import datetime
import pathlib
import random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock.engine.write.create import create_table
from penstock.proto.errors import ConfigurationError
from tests.interop.hudi_options import hudis_options
from tests.interop.test_write_traps import FIRST, SECOND, THIRD, Trip
from tests.unit.engine.write.recorded_storage import upserted

pytestmark = [pytest.mark.interop, pytest.mark.exhaustive, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("version", "kind", "index"), [(9, "merge_on_read", "bucket"), (6, "copy_on_write", "simple")])
def test_deleted_partition_is_deleted_for_hudi_which_goes_on(
    hudi: Any, tmp_path: pathlib.Path, version: int, kind: str, index: str
) -> None:
    trip = Trip(hudi, tmp_path / "trip", version, kind, index)
    trip.write(FIRST, "bulk_insert")
    trip.check(FIRST, "bulk_insert")
    trip.write([("new", 1, "oslo")], "insert")
    trip.check([*FIRST, ("new", 1, "oslo")], "insert")
    trip.write(SECOND)
    result = penstock.write(str(trip.path), pa.table({"city": ["oslo"]}), "delete_partition")
    assert result.partitions == ("oslo",)
    rows = [row for row in upserted(FIRST, SECOND) if row[2] == "riga"]
    trip.check(rows, "delete_partition")
    trip.hudi_writes(THIRD)
    rows = upserted(rows, THIRD)
    trip.check(rows, "upsert by Hudi")
    trip.hudi_writes(
        [("none", 0, "riga")],
        hoodie__datasource__write__operation="delete_partition",
        hoodie__datasource__write__partitions__to__delete="riga",
    )
    rows = [row for row in rows if row[2] == "oslo"]
    trip.check(rows, "delete_partition by Hudi")
    trip.write(FIRST, "insert_overwrite")
    trip.check(FIRST, "insert_overwrite")
    trip.write([("k1", 7, "oslo")], "insert_overwrite_table")
    trip.check([("k1", 7, "oslo")], "insert_overwrite_table")
    trip.hudi_writes([("k1", 8, "oslo"), ("k2", 8, "riga")])
    trip.check([("k1", 8, "oslo"), ("k2", 8, "riga")], "upsert by Hudi after insert_overwrite_table")


TIMES: dict[str, tuple[str, dict[str, str]]] = {
    "seconds": ("bigint", {"timestamp.type": "UNIX_TIMESTAMP", "output.dateformat": "yyyy/MM/dd"}),
    "milliseconds": (
        "bigint",
        {
            "timestamp.type": "EPOCHMILLISECONDS",
            "output.dateformat": "yyyy-MM-dd HH",
            "output.timezone": "Asia/Kolkata",
        },
    ),
    "microseconds": (
        "bigint",
        {"timestamp.type": "EPOCHMICROSECONDS", "output.dateformat": "yyyyMMdd'T'HHmmss.SSS", "timezone": "GMT-3:30"},
    ),
    "days": (
        "int",
        {
            "timestamp.type": "SCALAR",
            "timestamp.scalar.time.unit": "DAYS",
            "output.dateformat": "yyyy-MM",
            "output.timezone": "America/New_York",
        },
    ),
    "text": (
        "string",
        {
            "timestamp.type": "DATE_STRING",
            "input.dateformat": "yyyy-MM-dd'T'HH:mm:ss",
            "input.timezone": "America/New_York",
            "output.dateformat": "yyyy/MM/dd-HH:mm",
            "output.timezone": "GMT+8:00",
        },
    ),
}
NUMBERS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6}


def time_values(name: str, chance: random.Random) -> list[str | None]:
    """Random values of a column of times, as SQL literals."""
    seconds = [0, -1, 1, 951782400, 1710054000, *(chance.randrange(-2 * 10**9, 4 * 10**9) for _ in range(25))]
    if name == "text":
        winter = (
            datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=one // 7200 * 7200)
            for one in seconds[5:]
        )
        return [None, *(f"'{one:%Y-%m-%dT%H:%M:%S}'" for one in winter if not 2 <= one.month <= 11)]
    if name == "days":
        return [None, *(str(one // 86400) for one in seconds)]
    return [None, *(f"{one * NUMBERS[name] + chance.randrange(NUMBERS[name])}L" for one in seconds)]


SPECIAL = "abZ09 &+é日\U0001f600.-_~!()"
ESCAPED = SPECIAL + "\"#%'*/:=?\\{[]^\x7f\x01\t"


def texts(alphabet: str, chance: random.Random) -> list[str | None]:
    words = {"".join(chance.choice(alphabet) for _ in range(chance.randrange(1, 9))) for _ in range(60)}
    return [None, "", "2024", *sorted(word for word in words if word.strip(" ./") == word)]


def paths(table: pa.Table) -> dict[str, str]:
    """Partition path of each row."""
    return dict(zip(table["id"].to_pylist(), table["_hoodie_partition_path"].to_pylist(), strict=True))


def compare_paths(
    hudi: Any,
    folder: pathlib.Path,
    version: int,
    rows: list[tuple[Any, ...]],
    columns: dict[str, tuple[str, pa.DataType]],
    generator: str,
    partition_by: list[str],
    **settings: Any,
) -> dict[str, str]:
    """The partition paths that Hudi makes, after a check that Penstock makes the same, and that each finds rows of the
    other, of which it writes a sample again.

    columns: name -> (SQL of the value, Arrow type).
    """
    again = rows[:3] + rows[3::9]
    names = [name.partition(":")[0] for name in partition_by]
    times = settings.get("time_partitions", {})
    classes = {"SIMPLE": "Simple", "COMPLEX": "Complex", "TIMESTAMP": "TimestampBased", "CUSTOM": "Custom"}
    options = hudis_options(version, "copy_on_write", "simple") | {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.partitionpath.field": ",".join(partition_by),
        "hoodie.datasource.write.recordkey.field": "id,id2" if generator == "COMPLEX" else "id",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{classes[generator]}KeyGenerator",
        "hoodie.datasource.write.hive_style_partitioning": str(settings.get("hive_style_partitioning", False)).lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(settings.get("url_encode_partitions", False)).lower(),
        **{f"hoodie.keygen.timebased.{name}": value for name, value in times.items()},
        "hoodie.index.bloom.num_entries": "100",  # each file's filter has 400 KB by default
    }
    first = {"hoodie.datasource.write.operation": "bulk_insert", "hoodie.datasource.write.row.writer.enable": "false"}
    written = [("id", "c0"), ("id2", "c0"), ("seq", "1L"), *((name, sql) for name, (sql, _) in columns.items())]
    hudi.write(folder / "hudis", written, rows, options | first)
    expected = paths(penstock.read(str(folder / "hudis")).read_all())  # Hudi cannot read a number's path as a time
    kinds = [("id", pa.string()), ("id2", pa.string()), ("seq", pa.int64())]
    schema = pa.schema([*kinds, *((name, kind) for name, (_, kind) in columns.items())])
    create_table(
        str(folder / "t"),
        schema,
        record_key=["id", "id2"] if generator == "COMPLEX" else "id",
        partition_by=partition_by,
        ordering="seq",
        table_type="copy_on_write",
        table_version=version,
        index="simple",
        key_generator=generator,
        **settings,
    )
    data = penstock.read(str(folder / "hudis"), columns=schema.names).read_all()
    assert data.num_rows == len(rows) and set(names) <= set(schema.names)
    penstock.write(str(folder / "t"), data.cast(schema))
    assert paths(penstock.read(str(folder / "t")).read_all()) == expected
    hudi.write(folder / "t", written, again, options)
    upserted = penstock.read(str(folder / "t")).read_all()
    assert upserted.num_rows == len(rows) and paths(upserted) == expected
    assert pc.count_distinct(upserted["_hoodie_commit_time"]).as_py() == 2
    data = data.filter(pc.is_in(data["id"], pa.array([row[0] for row in again])))
    if generator == "CUSTOM":  # Hudi does not record the form of its times
        with pytest.raises(ConfigurationError, match=r"timestamp\.type is '\(none\)'"):
            penstock.write(str(folder / "hudis"), data.cast(schema), index="simple", timeline_timezone="UTC")
        return expected
    penstock.write(str(folder / "hudis"), data.cast(schema), index="simple", timeline_timezone="UTC")
    upserted = penstock.read(str(folder / "hudis")).read_all()
    assert upserted.num_rows == len(rows) and paths(upserted) == expected
    return expected


@pytest.mark.parametrize(
    ("name", "version", "hive", "encode"),
    [*((name, 9, False, False) for name in TIMES), ("seconds", 6, True, True)],
)
def test_trap_25_paths_of_times_equal_hudis(
    hudi: Any, tmp_path: pathlib.Path, name: str, version: int, hive: bool, encode: bool
) -> None:
    kind, options = TIMES[name]
    values = time_values(name, random.Random(f"{name}{version}"))
    rows = [(f"k{n}", value) for n, value in enumerate(values)]
    sql = "CASE c0 " + " ".join(f"WHEN '{key}' THEN {value or 'NULL'}" for key, value in rows) + " END"
    arrow_kind = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string()}[kind]
    found = compare_paths(
        hudi,
        tmp_path,
        version,
        [(key,) for key, _ in rows],
        {"ts": (f"cast({sql} AS {kind})", arrow_kind)},
        "TIMESTAMP",
        ["ts"],
        hive_style_partitioning=hive,
        url_encode_partitions=encode,
        time_partitions=options,
    )
    assert len(set(found.values())) > 2


@pytest.mark.parametrize(("version", "hive", "encode"), [(9, False, True), (9, True, False), (6, True, True)])
def test_trap_25_paths_of_texts_equal_hudis(
    hudi: Any, tmp_path: pathlib.Path, version: int, hive: bool, encode: bool
) -> None:
    values = texts(ESCAPED if encode else SPECIAL, random.Random(version))
    rows = [(f"k{n}", value) for n, value in enumerate(values)]
    settings = {"hive_style_partitioning": hive, "url_encode_partitions": encode}
    found = compare_paths(hudi, tmp_path, version, rows, {"p": ("c1", pa.string())}, "SIMPLE", ["p"], **settings)
    assert len(set(found.values())) > 30


@pytest.mark.parametrize(("version", "hive"), [(9, True), (6, False)])
def test_trap_25_paths_of_several_columns_equal_hudis(
    hudi: Any, tmp_path: pathlib.Path, version: int, hive: bool
) -> None:
    chance = random.Random(version)
    rows = [
        (f"k{n}", chance.choice([None, "", "oslo", "a b"]), chance.randrange(-3, 3), chance.random() < 0.5)
        for n in range(30)
    ]
    columns = {
        "p": ("c1", pa.string()),
        "n": ("cast(c2 AS int)", pa.int32()),
        "b": ("c3", pa.bool_()),
        "d": ("date_add(date'2020-02-28', cast(c2 AS int))", pa.date32()),
    }
    settings = {"hive_style_partitioning": hive, "url_encode_partitions": True}
    found = compare_paths(hudi, tmp_path, version, rows, columns, "COMPLEX", ["p", "n", "b", "d"], **settings)
    assert len(set(found.values())) > 10


@pytest.mark.parametrize("hive", [True, False])
def test_trap_25_paths_of_custom_key_generators_equal_hudis(hudi: Any, tmp_path: pathlib.Path, hive: bool) -> None:
    chance = random.Random(hive)
    rows = [(f"k{n}", chance.choice([None, "oslo", "a:b"]), chance.randrange(10**12)) for n in range(30)]
    found = compare_paths(
        hudi,
        tmp_path,
        9,
        rows,
        {"p": ("c1", pa.string()), "ts": ("c2", pa.int64())},
        "CUSTOM",
        ["p:SIMPLE", "ts:TIMESTAMP"],
        hive_style_partitioning=hive,
        url_encode_partitions=True,
        time_partitions=TIMES["milliseconds"][1],
    )
    assert len(set(found.values())) > 10
