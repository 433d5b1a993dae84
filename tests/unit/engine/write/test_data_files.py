"""Files whose rows are written: Parquet, Arrow, JSON lines; damaged ones are one clear error."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from penstock.engine.write.data_files import read_rows, read_schema
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
