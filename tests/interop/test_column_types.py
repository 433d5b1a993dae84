"""Column types that only some of Hudi's writers write: Avro enums and BLOB columns, SMALLINT by the row writer."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import penstock
from tests.interop.history_changes import decoded, read_changes
from tests.interop.test_types_and_keys import options, row_texts

pytestmark = [pytest.mark.interop, pytest.mark.timeout(900)]

CDC = {"hoodie.table.cdc.enabled": "true", "hoodie.table.cdc.supplemental.logging.mode": "data_before_after"}


def enum_schema(symbols: Sequence[str]) -> str:
    """A record with an enum alone, in a list, in a map and in a struct."""
    kind = {"type": "enum", "name": "Color", "symbols": list(symbols)}
    inner = {"type": "record", "name": "inner", "fields": [{"name": "x", "type": ["null", "Color"], "default": None}]}
    fields = [
        {"name": "id", "type": "string"},
        {"name": "ts", "type": "long"},
        {"name": "e", "type": ["null", kind], "default": None},
        {"name": "l", "type": {"type": "array", "items": "Color"}},
        {"name": "m", "type": {"type": "map", "values": ["null", "Color"]}},
        {"name": "s", "type": ["null", inner], "default": None},
        {"name": "u", "type": ["null", {"type": "string", "logicalType": "uuid"}], "default": None},
    ]
    return json.dumps({"type": "record", "name": "row", "namespace": "n", "fields": fields})


def enum_row(key: str, ts: int, symbol: str | None) -> dict[str, Any]:
    value = {"n.Color": symbol} if symbol else None
    return {
        "id": key,
        "ts": ts,
        "e": value,
        "l": [symbol or "RED", "BLUE"],
        "m": {"k": value},
        "s": {"n.inner": {"x": value}} if symbol else None,
        "u": {"string": "6f7a2c9e-0000-4000-8000-000000000001"},
    }


@pytest.mark.parametrize(
    ("kind", "blocks", "more"),
    [("COPY_ON_WRITE", "avro", CDC), ("MERGE_ON_READ", "avro", CDC), ("MERGE_ON_READ", "parquet", {})],
)
def test_enums_of_the_java_client(
    hudi: Any, tmp_path: pathlib.Path, kind: str, blocks: str, more: dict[str, str]
) -> None:
    path = tmp_path / "t"
    created = {
        "hoodie.table.name": "t",
        "hoodie.table.type": kind,
        "hoodie.table.version": "9",
        "hoodie.table.recordkey.fields": "id",
        "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        "hoodie.table.ordering.fields": "ts",
        "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    }
    config = {
        "hoodie.table.name": "t",
        "hoodie.metadata.enable": "false",
        "hoodie.embed.timeline.server": "false",
        "hoodie.index.type": "SIMPLE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.logfile.data.block.format": blocks,
    }

    def write(operation: str, symbols: Sequence[str], rows: list[dict[str, Any]], **once: Any) -> None:
        keys = [[row["id"], ""] for row in rows]
        request = {"schema": enum_schema(symbols), "operation": operation, "rows": rows, "keys": keys}
        hudi.write_records(path, **request, options=config, **once)

    first = [enum_row("a", 1, "RED"), enum_row("b", 1, "BLUE"), enum_row("c", 1, None)]
    write("insert", ("RED", "BLUE"), first, properties=created | more)
    write("upsert", ("RED", "BLUE", "GREEN"), [enum_row("a", 2, "GREEN"), enum_row("b", 0, None)])
    expected = hudi.read(path)
    assert sorted(str(value) for value in expected["e"].to_pylist()) == ["BLUE", "GREEN", "None"]
    assert row_texts(penstock.read(str(path)).read_all()) == row_texts(expected)
    green = penstock.read(str(path), columns="id", where="e = 'GREEN' AND s.x = 'GREEN'").read_all()
    assert green["id"].to_pylist() == ["a"]
    if more:
        last = hudi.instants(path)[-1]
        hudis = hudi.changes(path, "000", last[0])
        assert hudis.num_rows > 3
        assert decoded(read_changes(path, "hudi", "earliest", str(last[1])), set()) == decoded(hudis, set())


def test_blobs_of_spark_sql(hudi: Any, tmp_path: pathlib.Path) -> None:
    path, name = tmp_path / "t", "blobs"
    hudi.call(
        f"create table {name} (id int, b blob) using hudi tblproperties (type='mor', primaryKey='id', "
        f"'hoodie.metadata.enable'='false') location '{path}'"
    )
    reference = "struct<external_path:string,offset:bigint,length:bigint,managed:boolean>"
    inline = f"named_struct('type', 'INLINE', 'data', X'0102', 'reference', cast(null as {reference}))"
    place = "named_struct('external_path', 'file:/far', 'offset', 7L, 'length', 2L, 'managed', false)"
    far = f"named_struct('type', 'OUT_OF_LINE', 'data', cast(null as binary), 'reference', {place})"
    hudi.call(f"insert into {name} select 1, {inline} union all select 2, {inline} union all select 3, {far}")
    hudi.call(f"update {name} set b = {far} where id = 2")
    expected = row_texts(hudi.read(path))
    assert sum("OUT_OF_LINE" in row for row in expected) == 2
    assert row_texts(penstock.read(str(path)).read_all()) == expected


@pytest.fixture
def rows_of_spark(hudi: Any) -> Iterator[Any]:
    """Hudi's rows by Spark's row reader: the vectorized one refuses narrow numbers inside of columns."""
    with hudi.by_rows():
        yield hudi


@pytest.mark.parametrize("meta", ["true", "false"])
def test_small_numbers_of_the_row_writer(rows_of_spark: Any, tmp_path: pathlib.Path, meta: str) -> None:
    """As key, partition, ordering and nested column, with stored and virtual keys."""
    hudi, path = rows_of_spark, tmp_path / "t"
    more = {
        "hoodie__populate__meta__fields": meta,
        "hoodie__datasource__write__recordkey__field": "k",
        "hoodie__datasource__write__partitionpath__field": "p",
        "hoodie__datasource__write__keygenerator__class": "org.apache.hudi.keygen.SimpleKeyGenerator",
        "hoodie__datasource__write__precombine__field": "o",
        "hoodie__record__merge__mode": "EVENT_TIME_ORDERING",
    }

    def rows(*values: tuple[int, int, int]) -> str:
        texts = (
            f"select {k}S k, {p}S p, {o}S o, {o}S v, nullif({k}S, 1S) n, "
            f"array({o}S) l, named_struct('x', {k}S) st, map('k', {k}S) m"
            for k, p, o in values
        )
        return " union all ".join(texts)

    name = f"small_{meta}"
    hudi.write_query(path, rows((1, 1, 5), (2, 2, -5), (3, 2, 32767)), options(name, "bulk_insert", **more))
    hudi.write_query(path, rows((1, 1, 4), (2, 2, -4)), options(name, "upsert", **more))
    expected = row_texts(hudi.read(path))
    assert sum("('v', -4)" in row or "('v', 5)" in row for row in expected) == 2
    assert row_texts(penstock.read(str(path)).read_all()) == expected
    some = penstock.read(str(path), where="v > 100 AND k = 3", columns="p").read_all()
    assert some["p"].to_pylist() == [2]
