"""Tables whose commits recorded no schema take it from the newest data file."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.engine.arrow import read
from penstock.enumerator.planning.plan import describe
from penstock.enumerator.planning.schemas import schema_of_footer
from penstock.proto.errors import SchemaMismatch
from penstock.table.hudi_table import open_table
from penstock.table.schema.arrow import arrow_schema
from penstock.table.schema.avro import parse_record_schema


def footer(folder: pathlib.Path, schema: pa.Schema) -> pq.FileMetaData:
    pq.write_table(schema.empty_table(), folder / "f.parquet")
    return pq.read_metadata(folder / "f.parquet")


@pytest.mark.golden
@pytest.mark.parametrize("case", ["A_types_v6_h0150", "A_merge_event_long_v6_h0150"])
def test_rows_are_those_of_the_recorded_schema(golden: Any, tmp_path: pathlib.Path, case: str) -> None:
    path = golden.copy(case, tmp_path)
    expected = read(str(path)).read_all()
    for file in (path / ".hoodie").glob("*commit"):
        commit = json.loads(file.read_text() or "{}")
        commit.get("extraMetadata", {}).pop("schema", None)
        file.write_text(json.dumps(commit))
    properties = path / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "create.schema" not in line]
    properties.write_text("\n".join(lines))
    result = read(str(path)).read_all()
    assert result.equals(expected)
    described_schema = describe(open_table(str(path)), "t").schema_json
    assert arrow_schema(parse_record_schema(described_schema)).names == expected.schema.names


def test_footer_without_avro_has_the_schema_of_its_columns(tmp_path: pathlib.Path) -> None:
    schema = pa.schema(
        [
            pa.field("id", pa.string(), nullable=False),
            ("t", pa.timestamp("us", "UTC")),
            ("l", pa.timestamp("ms")),
            ("d", pa.decimal128(10, 2)),
            ("a", pa.list_(pa.field("element", pa.struct([("x", pa.int32()), ("b", pa.binary())])))),
            ("m", pa.map_(pa.string(), pa.float32())),
        ]
    )
    record = parse_record_schema(schema_of_footer(footer(tmp_path, schema), "f"))
    assert [field.nullable for field in record.fields] == [False, True, True, True, True, True]
    assert arrow_schema(record).field("a").type == schema.field("a").type
    assert arrow_schema(record).field("t").type == pa.timestamp("us", "UTC")
    assert arrow_schema(record).field("d").type == pa.decimal128(10, 2)


def test_type_without_an_avro_form_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SchemaMismatch, match="column 'c': no schema is recorded, and type uint8"):
        schema_of_footer(footer(tmp_path, pa.schema([("c", pa.uint8())])), "f")
