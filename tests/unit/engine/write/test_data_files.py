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
    assert read_rows(str(folder / name)).equals(ROWS)
    if not name.endswith("jsonl"):
        assert read_schema(str(folder / name)).equals(ROWS.schema)
    damaged = folder / f"damaged-{name}"
    damaged.write_bytes((folder / name).read_bytes()[:-9])
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_rows(str(damaged))


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
