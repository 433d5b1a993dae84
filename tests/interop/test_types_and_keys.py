"""Changed types, virtual keys, partition columns from paths: Penstock returns the rows that Hudi 1.2.0 reads."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import penstock

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

CHANGES: dict[str, tuple[str, str, Sequence[str]]] = {
    "text_as_date": ("string", "date", ("'2020-01-05'", "'2020-12-03'", "null")),
    "text_as_decimal": ("string", "decimal(10,2)", ("'1.25'", "'1.255'", "'-1.255'", "'-7'", "'1e2'", "null")),
    "decimal_as_text": ("decimal(20,8)", "string", ("1.25", "0.00000001", "0", "-12345678901.5", "null")),
    "double_as_text": (
        "double",
        "string",
        tuple(f"cast('{text}' as double)" for text in ("1e10", "2e23", "8.41E21", "5e-324", "123456789.125", "nan")),
    ),
    "double_as_decimal": ("double", "decimal(12,2)", ("1.005D", "cast('1e5' as double)", "2.345D", "null")),
    "float_as_double": ("float", "double", tuple(f"cast('{text}' as float)" for text in ("0.1", "1.0E10", "4.045e10"))),
    "bytes_as_text": ("binary", "string", ("X'616263'", "X'c3a9'", "X''", "null")),
}


def options(name: str, operation: str, **more: str) -> dict[str, str]:
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.operation": operation,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        **{key.replace("__", "."): value for key, value in more.items()},
    }


def row_texts(table: pa.Table) -> list[str]:
    names = sorted(name for name in table.schema.names if not name.startswith("_hoodie"))
    return sorted(str([(name, row[name]) for name in names]) for row in table.to_pylist())


def select(prefix: str, kind: str, values: Sequence[str]) -> str:
    return " union all ".join(f"select '{prefix}{n}' id, cast({text} as {kind}) v" for n, text in enumerate(values))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_type_reads_as_hudi_reads_it(hudi: Any, tmp_path: pathlib.Path, change: str) -> None:
    old, new, values = CHANGES[change]
    path, name = tmp_path / change, f"t_{change}"
    hudi.write_query(path, select("base", old, values), options(name, "insert"))
    hudi.write_query(path, select("log", old, ["null"] * len(values)), options(name, "upsert"))
    hudi.write_query(path, select("log", old, values), options(name, "upsert"))
    hudi.call(f"create table {name} using hudi location '{path}'")
    hudi.call("set hoodie.schema.on.read.enable=true")
    try:
        hudi.call(f"alter table {name} alter column v type {new}")
        expected = row_texts(hudi.read(path, hoodie__schema__on__read__enable="true"))
    finally:
        hudi.call("reset hoodie.schema.on.read.enable")
    assert row_texts(penstock.read(str(path)).read_all()) == expected
    assert row_texts(penstock.read(str(path), columnsByName="on").read_all()) == row_texts(hudi.read(path))


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_renamed_column_reads_as_hudi_reads_it_before_the_next_write(
    hudi: Any, tmp_path: pathlib.Path, kind: str
) -> None:
    path, name = tmp_path / "t", f"renamed_{kind.lower()}"
    settings = {"hoodie__datasource__write__table__type": kind}
    rows = "select {} id, 'v' v, named_struct('a', {}, 'b', 'x') st, map('k', named_struct('c', {})) m"
    hudi.write_query(
        path, " union all ".join(rows.format(n, n, n) for n in (1, 2)), options(name, "insert", **settings)
    )
    hudi.write_query(path, rows.format(2, 7, 8), options(name, "upsert", **settings))
    hudi.call(f"create table {name} using hudi location '{path}'")
    hudi.call("set hoodie.schema.on.read.enable=true")
    hudi.call(
        "set spark.sql.parquet.enableVectorizedReader=false"
    )  # Hudi's documentation advises this where nested names change
    try:
        for old, new in (("st.a", "aa"), ("m.value.c", "cc")):
            hudi.call(f"alter table {name} rename column {old} to {new}")
            expected = row_texts(hudi.read(path, hoodie__schema__on__read__enable="true"))
            assert len(expected) == 2
            assert row_texts(penstock.read(str(path)).read_all()) == expected
    finally:
        hudi.call("reset hoodie.schema.on.read.enable")
        hudi.call("reset spark.sql.parquet.enableVectorizedReader")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("double", ("1e10", "2.5", "1e-5", "3")),
        ("decimal(20,8)", ("1", "0.00000001", "2.5", "3")),
        ("date", ("'2020-01-01'", "'1969-12-31'", "'2021-05-05'", "'2022-01-01'")),
        ("timestamp", ("'2020-01-01'", "'1969-12-31 00:00:00.000001'", "'2021-05-05 01:02:03.5'", "'2022-01-01'")),
        ("binary", ("'abc'", "'ABC'", "'x y'", "'z'")),
    ],
)
def test_record_keys_of_any_column_type(hudi: Any, tmp_path: pathlib.Path, kind: str, values: Sequence[str]) -> None:
    path, name = tmp_path / "t", f"k_{kind.partition('(')[0]}"
    settings = {"hoodie__populate__meta__fields": "false", "hoodie__datasource__write__recordkey__field": "v"}

    def write(operation: str, texts: Sequence[str]) -> None:
        hudi.write_query(path, select(operation, kind, texts), options(name, operation, **settings))

    write("insert", values)
    write("upsert", values[1:2])
    write("delete", [values[2], values[0]])
    actual = row_texts(penstock.read(str(path)).read_all())
    assert len(actual) == 2
    assert actual == row_texts(hudi.read(path))


@pytest.mark.parametrize(("kind", "zero"), [("int", "0"), ("date", "date'1970-01-01'")])
def test_null_ordering_value_is_hudis_zero(hudi: Any, tmp_path: pathlib.Path, kind: str, zero: str) -> None:
    path, name = tmp_path / "t", f"nulls_{kind}"
    settings = options(name, "insert", hoodie__record__merge__mode="EVENT_TIME_ORDERING")
    settings |= {"hoodie.table.ordering.fields": "o", "hoodie.datasource.write.precombine.field": "o"}
    values = {"zero": zero, "below": "-1" if kind == "int" else "date'1969-12-31'", "null": "null"}

    def rows(word: str, values: dict[str, str]) -> str:
        return " union all ".join(
            f"select '{key}' id, '{word}' v, cast({value} as {kind}) o" for key, value in values.items()
        )

    hudi.write_query(path, rows("old", values), settings)
    values = {"zero": "null", "below": "null", "null": values["below"]}
    hudi.write_query(path, rows("new", values), {**settings, "hoodie.datasource.write.operation": "upsert"})
    actual = row_texts(penstock.read(str(path)).read_all())
    assert actual == row_texts(hudi.read(path))
    assert sum("'new'" in row for row in actual) == 2


def test_partitions_with_a_leading_dot_are_listed(hudi: Any, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t"
    more = {
        "hoodie__datasource__write__keygenerator__class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie__datasource__write__partitionpath__field": "p",
    }
    rows = " union all ".join(f"select 'k{n}' id, {n} v, '{p}' p" for n, p in enumerate((".hid", "..a", "x")))
    hudi.write_query(path, rows, options("dotted", "insert", **more))
    actual = row_texts(penstock.read(str(path)).read_all())
    assert len(actual) == 3
    assert actual == row_texts(hudi.read(path))


def test_dates_and_timestamps_of_the_legacy_calendar(hudi: Any, tmp_path: pathlib.Path) -> None:
    path, setting = tmp_path / "t", "spark.sql.parquet.datetimeRebaseModeInWrite"
    days = ("1500-03-01", "1582-10-04", "1582-10-15", "1890-01-01", "2020-01-01")
    rows = " union all ".join(
        f"select 'k{n}' id, date'{day}' d, timestamp'{day} 12:00:00' t, array(date'{day}') l"
        for n, day in enumerate(days)
    )
    hudi.call(f"set {setting}=LEGACY")
    hudi.write_query(path, rows, options("legacy", "bulk_insert"))
    hudi.call(f"set {setting}=CORRECTED")
    try:
        expected = row_texts(hudi.read(path))
    finally:
        hudi.call(f"reset {setting}")
    assert any("datetime.date(1500, 3, 1)" in row for row in expected)
    assert row_texts(penstock.read(str(path)).read_all()) == expected


@pytest.mark.parametrize("form", ["yyyyMMdd", "yyyy/MM/dd"])
def test_partition_columns_that_files_leave_out(hudi: Any, tmp_path: pathlib.Path, form: str) -> None:
    path = tmp_path / "t"
    more = {
        "hoodie__datasource__write__drop__partition__columns": "true",
        "hoodie__datasource__write__keygenerator__class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie__datasource__write__partitionpath__field": "p",
        "hoodie__keygen__timebased__timestamp__type": "DATE_STRING",
        "hoodie__keygen__timebased__input__dateformat": "yyyy-MM-dd",
        "hoodie__keygen__timebased__output__dateformat": form,
    }
    rows = " union all ".join(f"select 'k{n}' id, {n} v, '2020-01-0{n}' p" for n in (1, 2, 3))
    hudi.write_query(path, rows, options("dropped", "insert", **more))
    hudi.write_query(path, "select 'k2' id, 9 v, '2020-01-02' p", options("dropped", "upsert", **more))
    assert row_texts(penstock.read(str(path)).read_all()) == row_texts(hudi.read(path))
