"""Files whose rows are written: Parquet, Arrow, JSON lines; damaged ones are one clear error."""

from __future__ import annotations

import datetime
import decimal
import pathlib

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from penstock.engine.write.create import create_table
from penstock.engine.write.data_files import read_rows, read_schema, table_columns
from penstock.proto.errors import ConfigurationError
from penstock.table.schema.avro_text import avro_schema_json

ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]})


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> pathlib.Path:
    pq.write_table(ROWS, tmp_path / "rows.parquet")
    with pyarrow.ipc.new_file(tmp_path / "rows.arrow", ROWS.schema) as file:
        file.write_table(ROWS)
    (tmp_path / "rows.jsonl").write_text('{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n')
    (tmp_path / "rows.avsc").write_text(avro_schema_json(ROWS.schema, "t", meta_columns=False))
    return tmp_path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.jsonl"])
def test_rows_and_schema_are_read(folder: pathlib.Path, name: str) -> None:
    assert read_rows(str(folder / name)).read_all().equals(ROWS)
    if not name.endswith("jsonl"):
        assert read_schema(str(folder / name)).equals(ROWS.schema)
    damaged = folder / f"damaged-{name}"
    damaged.write_bytes((folder / name).read_bytes()[:-9])
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_rows(str(damaged))


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_large_file_is_read_in_batches(tmp_path: pathlib.Path, suffix: str) -> None:
    many, file = pa.table({"n": pa.array(range(400_000))}), tmp_path / f"many.{suffix}"
    if suffix == "parquet":
        pq.write_table(many, file, row_group_size=10_000, compression="none", use_dictionary=False)
    else:
        with pyarrow.ipc.new_file(file, many.schema) as writer:
            writer.write_table(many, max_chunksize=10_000)
    with read_rows(str(file)) as rows:
        assert rows.read_next_batch().num_rows < 200_000
        assert 0 < sum(batch.num_rows for batch in rows) < 400_000


def test_file_that_is_damaged_in_the_middle_ends_with_one_error(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "rows.parquet"
    many = pa.table({"n": pa.array(range(400_000))})
    pq.write_table(many, file, row_group_size=10_000, compression="zstd", use_dictionary=False)
    content = bytearray(file.read_bytes())
    middle = pq.ParquetFile(file).metadata.row_group(30).column(0).data_page_offset
    content[middle : middle + 400] = bytes(400)
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=r"rows\.parquet cannot be read"):
        read_rows(str(file)).read_all()


def test_schema_may_be_avro(folder: pathlib.Path) -> None:
    assert read_schema(str(folder / "rows.avsc")).names == ROWS.schema.names
    (folder / "rows.json").write_text("{")
    with pytest.raises(ConfigurationError, match="is no Avro schema"):
        read_schema(str(folder / "rows.json"))


@pytest.mark.parametrize("name", ["rows.csv", "missing.parquet"])
def test_other_files_are_refused(folder: pathlib.Path, name: str) -> None:
    for read in (read_rows, read_schema):
        with pytest.raises(ConfigurationError, match=r"expected \.parquet|there is no such file"):
            read(str(folder / name))


TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("i", pa.int32()),
        ("f", pa.float64()),
        ("d", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("bytes", pa.binary()),
        ("list", pa.list_(pa.field("element", pa.decimal128(4, 1)))),
        ("map", pa.map_(pa.string(), pa.int32())),
        ("days", pa.list_(pa.field("element", pa.date32()))),
    ]
)
TEXT = """\
{"id": "a", "i": 1, "f": 2, "d": "1.25", "day": "2024-01-31", "at": "2024-01-31T01:00:00+01:00", "bytes": "xy", \
"local": "2024-01-31 01:00:00.000001", "list": ["1.5", 2], "new": "2024-01-31"}
{"id": "b", "d": 3, "at": "2024-01-31T00:00:00Z", "day": null}
"""


def test_json_values_have_the_types_of_the_table(tmp_path: pathlib.Path) -> None:
    """Numbers as text and times with a zone fit; what is no value of the type is one error."""
    file = tmp_path / "rows.jsonl"
    file.write_text(TEXT)
    rows = read_rows(str(file), TYPES).read_all()
    kept = [field for field in TYPES if field.name not in ("map", "days")]
    assert rows.schema.names == [*(field.name for field in kept), "new"]
    assert rows.schema.types[:-1] == [field.type for field in kept]
    midnight = datetime.datetime(2024, 1, 31, tzinfo=datetime.UTC)
    first = {
        "id": "a",
        "i": 1,
        "f": 2.0,
        "d": decimal.Decimal("1.25"),
        "day": datetime.date(2024, 1, 31),
        "at": midnight,
        "local": midnight.replace(tzinfo=None, hour=1, microsecond=1),
        "bytes": b"xy",
        "list": [decimal.Decimal("1.5"), decimal.Decimal("2.0")],
    }
    second = dict.fromkeys(first, None) | {"id": "b", "d": decimal.Decimal("3.00"), "at": midnight}
    assert rows.drop_columns(["new"]).to_pylist() == [first, second]


@pytest.mark.parametrize("text", ['{"i": 9999999999}', '{"i": "1"}', '{"d": 1.255}', '{"day": "2024-01-31T10:00:00"}'])
def test_json_values_of_another_type_are_refused(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl cannot be read: .*; nothing was written"):
        read_rows(str(tmp_path / "rows.jsonl"), TYPES)


def test_columns_of_a_table_are_those_of_its_schema(tmp_path: pathlib.Path) -> None:
    create_table(str(tmp_path / "t"), TYPES, record_key="id", buckets=1)
    assert table_columns(str(tmp_path / "t")).names == TYPES.names
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "create.schema" not in line))
    assert table_columns(str(tmp_path / "t")).names == []


def test_folders_of_a_single_file_are_no_columns(tmp_path: pathlib.Path) -> None:
    """A folder of files has the columns that its own folders name, but a file has only those that it holds."""
    single = tmp_path / "p=1" / "rows.parquet"
    single.parent.mkdir()
    pq.write_table(ROWS, single)
    assert read_rows(str(single)).read_all().equals(ROWS)
    folder = tmp_path / "rows.parquet"
    (folder / "p=1").mkdir(parents=True)
    pq.write_table(ROWS, folder / "p=1" / "x.parquet")
    assert read_rows(str(folder)).read_all().schema.names == ["id", "n", "p"]
