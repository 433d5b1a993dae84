"""The table of types in the documentation is the one of the code."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

from penstock.engine.sync.targets.delta_types import delta_type, stored_type
from penstock.engine.sync.targets.duckdb_types import duckdb_type
from penstock.engine.sync.targets.parquet_manifest import is_stored
from penstock.engine.sync.targets.postgresql_types import postgresql_type
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema

PAGE = pathlib.Path(__file__).parents[5] / "docs" / "reference" / "sync-targets.md"
AVRO = {
    "`boolean`": '"boolean"',
    "`int`": '"int"',
    "`long`": '"long"',
    "`float`": '"float"',
    "`double`": '"double"',
    "`string`, enum, `uuid`": '"string"',
    "`bytes`, fixed": '"bytes"',
    "`decimal`": '{"type":"bytes","logicalType":"decimal","precision":12,"scale":2}',
    "`date`": '{"type":"int","logicalType":"date"}',
    "`time-millis`, `time-micros`": '{"type":"long","logicalType":"time-micros"}',
    "`timestamp-millis`, `timestamp-micros`": '{"type":"long","logicalType":"timestamp-micros"}',
    "`local-timestamp-…`": '{"type":"long","logicalType":"local-timestamp-micros"}',
    "array": '{"type":"array","items":"long"}',
    "map": '{"type":"map","values":"double"}',
    "record": '{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"b","type":"string"}]}',
}


def arrow_of(avro: str) -> pa.DataType:
    schema = f'{{"type":"record","name":"t","fields":[{{"name":"c","type":{avro}}}]}}'
    return arrow_schema(parse_record_schema(schema, "test")).field("c").type


def test_page_has_the_types_of_the_code() -> None:
    lines = ["| Hudi | Arrow and Parquet | DuckDB | PostgreSQL | Delta Lake |", "|---|---|---|---|---|"]
    for name, avro in AVRO.items():
        arrow = arrow_of(avro)
        assert is_stored(arrow)
        types = (arrow, duckdb_type(arrow), postgresql_type(arrow), delta_type(arrow))
        lines.append(f"| {name} | {' | '.join(f'`{one}`' for one in types)} |")
    expected = "\n".join(lines)
    text = PAGE.read_text().partition("<!-- types: begin -->\n")[2].partition("\n<!-- types: end -->")[0]
    assert text == expected, expected


@pytest.mark.parametrize("avro", AVRO.values())
def test_every_type_is_stored_in_a_type_of_delta(avro: str) -> None:
    arrow = arrow_of(avro)
    assert delta_type(stored_type(arrow)) == delta_type(arrow)


@pytest.mark.parametrize("type_", [pa.duration("us"), pa.int16(), pa.struct([]), pa.map_(pa.int32(), pa.duration("s"))])
def test_other_types_have_no_place(type_: pa.DataType) -> None:
    assert (postgresql_type(type_), delta_type(type_), is_stored(type_)) in (
        (None, None, False),
        ("jsonb", None, False),  # a struct without fields is an empty object
    )
